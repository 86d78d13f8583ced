// Curves of the run's measures, and those of other event logs over them.

import { LineChart } from "./chart.js";
import { by, setText, show } from "./dom.js";
import { duration, number, percent, plural } from "./format.js";
import { listen, store, touch } from "./store.js";
import { addMeasures } from "./trace.js";

const compared_max = 5; // colours there are, less this run's
const line_max = 64 * 1024;

// One chart: which measures are drawn in it, and in which words their values are.
const plan = [
  { id: "loss", title: "Loss", names: { loss: "loss", evaluation_loss: "held-out" } },
  { id: "accuracy", title: "Accuracy", names: { accuracy: "accuracy" }, words: percent },
  { id: "samples", title: "Samples in a step", names: { samples: "samples" } },
  { id: "step-time", title: "Seconds of a step", names: { step_s: "step" }, words: duration },
  {
    id: "in-step",
    title: "Peers in a step",
    names: { contributors: "contributors", members: "members", left_out: "left out" },
  },
  { id: "rate", title: "Learning rate", names: { learning_rate: "learning rate" } },
  { id: "norm", title: "Gradient norm", names: { gradient_norm: "norm" } },
  { id: "tau", title: "Clipped to", names: { tau: "tau" } },
];
const known = new Set(plan.flatMap((one) => Object.keys(one.names)));

// Counts and rates are no noise, and evaluations are too few.
const noisy_measures = new Set(["loss", "samples", "step_s", "gradient_norm"]);

const charts = new Map();
let others = []; // [{name, series: Map}]

const settings = () => ({
  axis: by("axis").value,
  smoothing: Number(by("smoothing").value),
  log: by("log").checked,
});

function seriesOf(one) {
  const runs = [{ name: "", series: store.series }, ...others];
  const drawn = [];
  for (const [run, { name, series }] of runs.entries())
    for (const [place, [key, words]] of Object.entries(one.names).entries()) {
      const trace = series.get(key);
      if (!trace || trace.points.length === 0) continue;
      const colour = others.length > 0 && run > 0 ? run : place;
      const noisy = noisy_measures.has(key) || !known.has(key);
      drawn.push({ name: name ? `${words}, ${name}` : words, points: trace.points, colour, noisy });
    }
  return drawn;
}

function chartFor(one) {
  if (!charts.has(one.id)) {
    const chart = new LineChart(`chart-${one.id}`, one.title, one.words ?? number);
    charts.set(one.id, chart);
    by("charts").append(chart.element);
  }
  return charts.get(one.id);
}

// Measures that this page does not know have a chart of their own.
function wholePlan() {
  const unknown = [...store.series.keys()].filter((name) => !known.has(name)).slice(0, 16);
  return [
    ...plan,
    ...unknown.map((name) => ({ id: `other-${name}`, title: name, names: { [name]: name } })),
  ];
}

function draw() {
  const how = settings();
  let any = false;
  for (const one of wholePlan()) {
    const series = seriesOf(one);
    if (series.length === 0 && !charts.has(one.id)) continue;
    const chart = chartFor(one);
    show(chart.element, series.length > 0);
    if (series.length === 0) continue;
    any = true;
    const goal = one.id === "accuracy" ? store.run?.run.accuracy_goal : null;
    chart.draw({ ...how, series, goal });
  }
  show(by("no-measures"), !any);
}

// A log of a finished or running peer, read line by line; what is kept of it is bounded.
async function readLog(file) {
  const series = new Map();
  let peer = "";
  let rest = "";
  const take = (line) => {
    let event;
    try {
      event = JSON.parse(line);
    } catch {
      return;
    }
    if ((event.kind === "run_started" || event.kind === "joined") && !event.peer)
      peer = event.fields?.name ?? peer;
    addMeasures(series, event);
  };
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop();
    if (rest.length > line_max) rest = "";
    lines.forEach(take);
  }
  if (rest) take(rest);
  return { name: peer ? `${peer} (${file.name})` : file.name, series };
}

async function compare(files) {
  const room = compared_max - others.length;
  const read = await Promise.all([...files].slice(0, room).map(readLog));
  const good = read.filter((one) => one.series.size > 0);
  others = [...others, ...good];
  const bad = read.length - good.length;
  const told = [`${plural(others.length, "other run")} over this one.`];
  if (bad > 0) told.push(`${plural(bad, "file")} had no step in it.`);
  if (files.length > room) told.push(`No more than ${compared_max} are drawn.`);
  setText(by("compare-told"), told.join(" "));
  show(by("compare-clear"), others.length > 0);
  by("compare").value = "";
  touch("series");
}

listen(["series"], draw);
for (const id of ["axis", "log"]) by(id).addEventListener("change", () => touch("series"));
by("smoothing").addEventListener("input", () => {
  setText(by("smoothing-value"), by("smoothing").value);
  touch("series");
});
by("compare").addEventListener("change", () => compare(by("compare").files));
by("compare-clear").addEventListener("click", () => {
  others = [];
  setText(by("compare-told"), "");
  show(by("compare-clear"), false);
  by("compare").focus();
  touch("series");
});
