// Rounds: a lane for each peer with what it was doing. This peer's lane comes from its event log,
// to the millisecond and in four parts; the others' from what they say of themselves.

import { by, make, makeSvg, name, setAttribute, setText, show } from "./dom.js";
import { atClock, duration, number, rate, wholePercent } from "./format.js";
import { clock, listen, nameOf, store, touch } from "./store.js";
import { Table } from "./table.js";

const lanes_max = 24;
const table_rows_max = 50;
const lane_height = 18;
const axis_height = 18;
const every_ms = 1000; // time moves the picture, too

const phases = ["computing", "waiting", "averaging", "applying", "other"];
const phaseOf = (word) => (phases.includes(word) ? word : "other");

by("phases").append(
  ...phases.map((phase) =>
    make(
      "li",
      {},
      make("i", { class: phase }),
      phase === "other" ? "starting, downloading, leaving" : phase,
    ),
  ),
);

// The parts of a round, which lead up to its end; none where the log does not tell them all.
export function partsOf(round) {
  const seconds = [round.computing_s, round.waiting_s, round.averaging_s, round.applying_s];
  if (seconds.some((one) => !Number.isFinite(one))) return [];
  let from = round.time - seconds.reduce((sum, one) => sum + one, 0);
  return seconds.map((length, n) => {
    const part = { from, to: from + length, phase: phases[n], round };
    from += length;
    return part;
  });
}

function ownSpans() {
  const spans = store.rounds.list.flatMap(partsOf);
  const told_until = store.rounds.list.at(-1)?.time ?? 0;
  return [
    ...spans,
    ...toldSpans(store.run?.us)
      .filter((span) => span.to > told_until)
      .map((span) => ({ ...span, from: Math.max(span.from, told_until) })),
  ];
}

const toldSpans = (peer) =>
  (store.timeline.get(peer) ?? []).map(([from, to, word]) => ({
    from,
    to,
    phase: phaseOf(word),
    word,
  }));

const lanes = new Map();

function laneOf(id) {
  if (lanes.has(id)) return lanes.get(id);
  const title = make("bdi");
  const svg = makeSvg("svg", { height: lane_height, role: "img" });
  const lane = {
    title,
    svg,
    row: make("div", { class: "lane-row" }, make("div", { class: "lane-title" }, title), svg),
  };
  svg.addEventListener("pointermove", (event) => read(lane, event));
  svg.addEventListener("pointerleave", () => setText(by("lane-readout"), ""));
  lanes.set(id, lane);
  return lane;
}

const axis = makeSvg("svg", { height: axis_height, "aria-hidden": "true" });
const axis_row = make("div", { class: "lane-row" }, make("div", { class: "lane-title" }), axis);
const more = make("p", { class: "soft" });

function wanted() {
  const us = store.run?.us;
  const others = store.peers.filter(
    (peer) => peer.id !== us && (store.timeline.get(peer.id)?.length ?? 0) > 0,
  );
  const ids = others.map((peer) => peer.id);
  return us || store.rounds.list.length > 0 ? [us ?? "", ...ids] : ids;
}

function draw() {
  const all = wanted();
  const shown = all.slice(0, lanes_max);
  for (const [id, lane] of lanes)
    if (!shown.includes(id)) {
      lane.row.remove();
      lanes.delete(id);
    }
  const rows = shown.map((id) => laneOf(id).row);
  const box = by("lanes");
  const wanted_rows = rows.length > 0 ? [...rows, axis_row, more] : [more];
  if (
    wanted_rows.some((row, n) => box.children[n] !== row) ||
    box.children.length !== wanted_rows.length
  )
    box.replaceChildren(...wanted_rows);
  setText(
    more,
    all.length > shown.length
      ? `and ${number(all.length - shown.length)} more peers`
      : rows.length > 0
        ? ""
        : "No round yet.",
  );
  const to = clock();
  const from = to - Number(by("window").value);
  const width = Math.max(100, axis.clientWidth);
  for (const id of shown) drawLane(id, from, to, width);
  drawAxis(from, to, width);
  if (by("rounds-details").open) table.update(store.rounds.list.slice(-table_rows_max).reverse());
}

function drawLane(id, from, to, width) {
  const lane = laneOf(id);
  const peer = store.peers.find((one) => one.id === id);
  setText(lane.title, peer?.name ?? "this peer");
  setAttribute(lane.title, "class", peer?.gone ? "soft" : null);
  lane.spans = (id === (store.run?.us ?? "") ? ownSpans() : toldSpans(id)).filter(
    (span) => span.to > from && span.from < to,
  );
  [lane.from, lane.to, lane.who] = [from, to, lane.title.textContent];
  const x = (time) => ((Math.min(to, Math.max(from, time)) - from) / (to - from)) * width;
  const drawn = [makeSvg("rect", { class: "lane", width, height: lane_height, rx: 3 })];
  for (const span of lane.spans) {
    const wide = x(span.to) - x(span.from);
    if (wide >= 0.4)
      drawn.push(
        makeSvg("rect", {
          class: `span ${span.phase}`,
          x: x(span.from).toFixed(1),
          width: Math.max(0.6, wide).toFixed(1),
          height: lane_height,
        }),
      );
  }
  setAttribute(lane.svg, "viewBox", `0 0 ${width} ${lane_height}`);
  setAttribute(lane.svg, "aria-label", `${lane.who}: ${shares(lane)}`);
  lane.svg.replaceChildren(...drawn);
}

function shares({ spans, from, to }) {
  const sums = new Map();
  for (const span of spans) {
    const length = Math.min(to, span.to) - Math.max(from, span.from);
    sums.set(span.phase, (sums.get(span.phase) ?? 0) + length);
  }
  const all = [...sums.values()].reduce((sum, one) => sum + one, 0);
  if (!(all > 0)) return "nothing is known of this time";
  return phases
    .filter((phase) => sums.has(phase))
    .map((phase) => `${phase} ${wholePercent(sums.get(phase) / all)}`)
    .join(", ");
}

function drawAxis(from, to, width) {
  setAttribute(axis, "viewBox", `0 0 ${width} ${axis_height}`);
  const count = Math.max(2, Math.min(6, Math.floor(width / 110)));
  axis.replaceChildren(
    ...Array.from({ length: count + 1 }, (_, n) => {
      const anchor = n === 0 ? "start" : n === count ? "end" : "middle";
      return makeSvg(
        "text",
        { x: (n / count) * width, y: 14, "text-anchor": anchor },
        atClock(from + ((to - from) * n) / count),
      );
    }),
  );
}

function read(lane, event) {
  const box = lane.svg.getBoundingClientRect();
  const at = lane.from + ((event.clientX - box.left) / box.width) * (lane.to - lane.from);
  const span = lane.spans.find((one) => one.from <= at && at <= one.to);
  const words = !span
    ? ""
    : span.round
      ? `${lane.who}, step ${number(span.round.step)}: ${span.phase} ` +
        `${duration(span.to - span.from)}${waitWords(span)}`
      : `${lane.who}: ${span.word} ${duration(span.to - span.from)}, until ${atClock(span.to)}`;
  setText(by("lane-readout"), words);
}

const waitWords = ({ phase, round }) =>
  phase === "waiting" && round.waited_for ? ` for ${nameOf(round.waited_for)}` : "";

const seconds = (title, field) => ({
  title,
  number: true,
  cell: (round) => duration(round[field]),
});

const table = new Table(
  "The newest rounds",
  [
    { title: "Step", number: true, cell: (round) => number(round.step) },
    { title: "Ended", cell: (round) => atClock(round.time) },
    seconds("Whole", "seconds"),
    seconds("Computing", "computing_s"),
    seconds("Waiting", "waiting_s"),
    {
      title: "Waited for",
      key: (round) => [round.waited_for, nameOf(round.waited_for), round.waited_s],
      cell: (round) =>
        round.waited_for ? [name(nameOf(round.waited_for)), ` (${duration(round.waited_s)})`] : "",
    },
    seconds("Averaging", "averaging_s"),
    seconds("Predicted", "predicted_s"),
    seconds("Applying", "applying_s"),
    {
      title: "Contributors",
      number: true,
      cell: (round) => `${number(round.contributors)} of ${number(round.members)}`,
    },
    { title: "Left out", number: true, cell: (round) => number(round.left_out) },
    { title: "Aborted attempts", number: true, cell: (round) => number(round.attempt) },
    {
      title: "Slowest line",
      key: (round) => [
        round.bottleneck_peer,
        nameOf(round.bottleneck_peer),
        round.bottleneck,
        round.bottleneck_mbit,
      ],
      cell: (round) =>
        round.bottleneck_peer
          ? [
              name(nameOf(round.bottleneck_peer)),
              ` ${round.bottleneck}, ${number(round.bottleneck_mbit)} Mb/s`,
            ]
          : "",
    },
  ],
  { id: (round) => `${round.step} ${round.time}` },
);
by("rounds-table").append(table.element);

// ---- whose line limits --------------------------------------------------------------------------

const at_work = (peer) => !peer.gone && ["trainer", "aggregator"].includes(peer.role);

// Of the lines that peers measured, the one that carries least; none where fewer than two are known.
function slowestLine() {
  const known = store.peers.filter(
    (peer) => at_work(peer) && (peer.upload_bytes_per_s > 0 || peer.download_bytes_per_s > 0),
  );
  if (known.length < 2) return null;
  const lines = known.flatMap((peer) => [
    { peer, way: "up", bytes: peer.upload_bytes_per_s },
    { peer, way: "down", bytes: peer.download_bytes_per_s },
  ]);
  return lines.filter((line) => line.bytes > 0).sort((a, b) => a.bytes - b.bytes)[0];
}

function limitWords() {
  const limit = store.run?.limit;
  if (limit) {
    const guess = limit.measured === false ? ", not measured yet" : "";
    const speed = limit.mbit ? ` (${number(limit.mbit)} Mb/s${guess})` : "";
    return [
      `Step ${number(limit.step)}: ${duration(limit.predicted_s)} of averaging planned; it waits for the ${limit.what} of `,
      name(nameOf(limit.peer)),
      `${speed}.`,
    ];
  }
  const slowest = slowestLine();
  if (!slowest) return [];
  return [
    store.run?.us ? "Other peers plan the rounds now. " : "",
    "The slowest line, as peers measured their own: ",
    name(slowest.peer.name),
    `, ${rate(slowest.bytes)} ${slowest.way}.`,
  ];
}

let limit_told = "";

function drawLimit() {
  const words = limitWords();
  const key = words.map((part) => part.textContent ?? part).join("");
  show(by("limit"), words.length > 0);
  if (key === limit_told) return;
  limit_told = key;
  by("limit").replaceChildren(...words);
}

listen(["rounds"], draw);
listen(["run", "peers"], drawLimit);
by("window").addEventListener("change", () => touch("rounds"));
by("rounds-details").addEventListener("toggle", () => touch("rounds"));
setInterval(
  () => by("live").dataset.state === "live" && !store.run?.replay && touch("rounds"),
  every_ms,
);
new ResizeObserver(() => touch("rounds")).observe(by("lanes"));
