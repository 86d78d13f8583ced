// Traffic: who sends what to whom. A peer measures its own flows only, so the picture has it in the
// middle: what comes in at its left, what goes out at its right, as wide as the rate.

import { by, make, makeSvg, name, show } from "./dom.js";
import { bytes, number, rate } from "./format.js";
import { listen, nameOf, store } from "./store.js";
import { meter } from "./peers.js";
import { Table } from "./table.js";

const shown_max = 8; // on either side; the rest is one flow
const row_height = 30;
const widest = 18;
const picture_width = 640;

const table = new Table(
  "Traffic",
  [
    {
      title: "From",
      key: (flow) => [flow.from, nameOf(flow.from)],
      cell: (flow) => name(nameOf(flow.from)),
      sort: (flow) => nameOf(flow.from),
    },
    {
      title: "To",
      key: (flow) => [flow.to, nameOf(flow.to)],
      cell: (flow) => name(nameOf(flow.to)),
      sort: (flow) => nameOf(flow.to),
    },
    { title: "What", cell: (flow) => flow.what },
    {
      title: "Rate",
      number: true,
      key: (flow) => [rate(flow.bytes_per_s), Math.round(flow.part * 50)],
      cell: (flow) => [meter(flow.part), rate(flow.bytes_per_s)],
      sort: (flow) => flow.bytes_per_s,
    },
    {
      title: "So far",
      number: true,
      cell: (flow) => bytes(flow.bytes),
      sort: (flow) => flow.bytes,
    },
  ],
  { id: (flow) => `${flow.from} ${flow.to} ${flow.what}`, sorted: { column: 3, down: true } },
);

const empty = make("p", { class: "none" }, "Nothing was sent yet.");
by("traffic-table").append(empty, table.element);
const svg = makeSvg("svg", { class: "flows", role: "img" });
by("traffic-picture").append(svg);

// Sums by the peer at the other end, most first.
function side(flows, other) {
  const sums = new Map();
  for (const flow of flows) sums.set(flow[other], (sums.get(flow[other]) ?? 0) + flow.bytes_per_s);
  const all = [...sums]
    .map(([id, sum]) => ({ id, sum }))
    .filter((one) => one.sum > 0)
    .sort((a, b) => b.sum - a.sum);
  if (all.length <= shown_max) return all;
  const rest = all.slice(shown_max - 1);
  return [
    ...all.slice(0, shown_max - 1),
    { id: null, count: rest.length, sum: rest.reduce((sum, one) => sum + one.sum, 0) },
  ];
}

const shorten = (words) =>
  [...words].length > 16 ? `${[...words].slice(0, 15).join("")}…` : words;
const label = (one) => (one.id ? shorten(nameOf(one.id)) : `${number(one.count)} others`);

function drawSide(flows, { height, most, is_left }) {
  const middle = picture_width / 2;
  const [edge, text_x, hub] = is_left
    ? [170, 162, middle - 46]
    : [picture_width - 170, picture_width - 162, middle + 46];
  const begin = height / 2 - ((flows.length - 1) * row_height) / 2;
  return flows.flatMap((one, n) => {
    const y = begin + n * row_height;
    const hub_y = height / 2 + (n - (flows.length - 1) / 2) * Math.min(8, row_height / 2);
    const bend = (edge + hub) / 2;
    const wide = Math.max(1.5, (one.sum / most) * widest);
    return [
      makeSvg("path", {
        class: is_left ? "flow in" : "flow out",
        d: `M${edge} ${y}C${bend} ${y} ${bend} ${hub_y} ${hub} ${hub_y}`,
        "stroke-width": wide.toFixed(1),
      }),
      makeSvg(
        "text",
        { class: "lane-name", x: text_x, y, "text-anchor": is_left ? "end" : "start" },
        label(one),
      ),
      makeSvg(
        "text",
        { x: text_x, y: y + 13, "text-anchor": is_left ? "end" : "start" },
        rate(one.sum),
      ),
    ];
  });
}

listen(["flows", "peers"], () => {
  const us = store.run?.us;
  const most_any = Math.max(...store.flows.map((flow) => flow.bytes_per_s), 1);
  table.update(store.flows.map((flow) => ({ ...flow, part: flow.bytes_per_s / most_any })));
  show(table.element, store.flows.length > 0);
  show(empty, store.flows.length === 0);
  const come = side(
    store.flows.filter((flow) => flow.to === us),
    "from",
  );
  const go = side(
    store.flows.filter((flow) => flow.from === us),
    "to",
  );
  show(svg, come.length + go.length > 0);
  show(by("traffic"), store.run?.mode !== "replay");
  const height = Math.max(come.length, go.length, 1) * row_height + 16;
  const most = Math.max(...[...come, ...go].map((one) => one.sum), 1);
  svg.setAttribute("viewBox", `0 0 ${picture_width} ${height}`);
  svg.setAttribute(
    "aria-label",
    "Rates to and from this peer; the table below has the same numbers",
  );
  svg.replaceChildren(
    ...drawSide(come, { height, most, is_left: true }),
    ...drawSide(go, { height, most, is_left: false }),
    makeSvg("rect", {
      class: "hub",
      x: picture_width / 2 - 48,
      y: height / 2 - 14,
      width: 96,
      height: 28,
      rx: 14,
    }),
    makeSvg(
      "text",
      { class: "hub-name", x: picture_width / 2, y: height / 2 + 4, "text-anchor": "middle" },
      shorten(us ? nameOf(us) : "observer"),
    ),
  );
});
