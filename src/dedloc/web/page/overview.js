// The overview: where the run stands, in numbers.

import { by, make, setAttribute, setText, show } from "./dom.js";
import { duration, number, percent, plural, short } from "./format.js";
import { listen, store } from "./store.js";

// [id, title, value(run) → words, more(run) → small words, raw(run) → the exact value]
const cards = [
  [
    "step",
    "Step",
    (run) => number(run.progress.step),
    (run) => (run.run.steps_goal ? `of ${number(run.run.steps_goal)}` : "global steps"),
    (run) => run.progress.step,
  ],
  [
    "loss",
    "Loss",
    (run) => number(run.progress.loss),
    () => "of the newest step",
    (run) => run.progress.loss,
  ],
  [
    "accuracy",
    "Accuracy",
    (run) => percent(run.progress.accuracy),
    accuracyWords,
    (run) => run.progress.accuracy,
  ],
  [
    "speed",
    "Speed",
    (run) => `${short(run.progress.samples_per_s)}/s`,
    () => "samples in steps",
    (run) => run.progress.samples_per_s,
  ],
  [
    "total",
    "Samples",
    (run) => short(run.progress.samples_total),
    () => "in all steps",
    (run) => run.progress.samples_total,
  ],
  [
    "live",
    "Peers",
    (run) => number(run.progress.live_peers),
    stateWords,
    (run) => run.progress.live_peers,
  ],
  [
    "share",
    "Our share",
    (run) => percent(run.progress.our_share),
    () => "of what all compute",
    (run) => run.progress.our_share,
  ],
  [
    "left",
    "Time left",
    (run) => duration(run.progress.seconds_left),
    () => "at this speed",
    (run) => run.progress.seconds_left,
  ],
];

function accuracyWords(run) {
  const at = run.progress.accuracy_step
    ? `at step ${number(run.progress.accuracy_step)}`
    : "not measured yet";
  return run.run.accuracy_goal ? `${at}, goal ${percent(run.run.accuracy_goal)}` : at;
}

function stateWords(run) {
  const states = run.progress.state_hashes;
  if (run.mode === "replay") return "there at that moment"; // a log has no states of others
  if (states > 1) return `${number(states)} different states`;
  return states === 1 ? "all with one state" : "no state yet";
}

const hidden = {
  accuracy: (run) => run.progress.accuracy === null && !run.run.accuracy_goal,
  share: (run) => run.us === null || !run.progress.our_share,
  left: (run) => run.progress.seconds_left === null || run.mode === "replay",
};

const nodes = new Map(
  cards.map(([id, title]) => {
    const value = make("span", { id: `value-${id}` });
    const more = make("small");
    return [
      id,
      { value, more, card: make("div", {}, make("dt", {}, title), make("dd", {}, value, more)) },
    ];
  }),
);
by("cards").append(...[...nodes.values()].map((each) => each.card));

function bar(id, part, words) {
  const whole = Math.min(100, Math.max(0, part * 100)) || 0;
  const node = by(`${id}-bar`);
  node.firstElementChild.style.width = `${whole}%`;
  setAttribute(node, "aria-valuenow", Math.round(whole));
  setAttribute(node, "aria-valuetext", words);
  setText(by(`${id}-words`), words);
}

function wholeRun({ run, progress }) {
  const parts = [];
  if (run.steps_goal)
    parts.push([
      progress.step / run.steps_goal,
      `step ${number(progress.step)} of ${number(run.steps_goal)}`,
    ]);
  if (run.samples_goal)
    parts.push([
      progress.samples_total / run.samples_goal,
      `${short(progress.samples_total)} of ${short(run.samples_goal)} samples`,
    ]);
  return parts.sort((a, b) => b[0] - a[0])[0];
}

listen(["run"], () => {
  const told = store.run;
  for (const [id, , value, more, raw] of cards) {
    const node = nodes.get(id);
    show(node.card, !hidden[id]?.(told));
    setText(node.value, value(told));
    setText(node.more, more(told));
    setAttribute(node.value, "data-value", raw(told) ?? "");
  }
  setAttribute(nodes.get("live").more, "class", told.progress.state_hashes > 1 ? "bad" : null);
  const { samples } = told.progress;
  const { target } = told.run;
  bar("towards", samples / target, `${number(samples)} of ${plural(target, "sample")}`);
  show(by("towards"), told.mode !== "replay");
  const whole = wholeRun(told);
  show(by("goal"), Boolean(whole));
  if (whole) bar("goal", whole[0], whole[1]);
  setText(by("protection"), told.protection ?? "");
  show(by("protection"), Boolean(told.protection));
  setText(
    by("overview-words"),
    [told.run.task, told.paused && "this peer is paused", capWords(told.caps)]
      .filter(Boolean)
      .join(" · "),
  );
  setText(
    by("about"),
    `dedloc ${told.version} · ${modes[told.mode] ?? told.mode} · run ${told.run.hash}`,
  );
});

const modes = {
  peer: "seen by a peer that takes part",
  watch: "seen by an observer",
  replay: "a replay of a peer's event log",
};

function capWords(caps) {
  if (!caps) return "";
  const told = [
    caps.up_mbit && `up to ${number(caps.up_mbit)} Mb/s up`,
    caps.down_mbit && `${number(caps.down_mbit)} Mb/s down`,
  ];
  return told.filter(Boolean).join(", ");
}
