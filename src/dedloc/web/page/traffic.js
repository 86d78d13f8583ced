// Traffic: who sends what to whom. A table with a row for each sender and a column for each
// receiver, darker where more flows; beneath it, flow by flow.

import { by, make, name, setText, show } from "./dom.js";
import { bytes, rate } from "./format.js";
import { meter } from "./peers.js";
import { listen, nameOf, store } from "./store.js";
import { Table } from "./table.js";

const matrix_peers_max = 24;
const darkest_percent = 40; // of the accent: words stay readable on it

// What the numbers rest on, in words.
const sources = {
  certificate: "in the newest step, as its certificate divides the work",
  measured: "measured by this peer",
};

const table = new Table(
  "Flows",
  [
    flowEnd("From", "from"),
    flowEnd("To", "to"),
    { title: "What", cell: (flow) => flow.what },
    {
      title: "Rate",
      number: true,
      key: (flow) => [rate(flow.bytes_per_s), Math.round(flow.part * 50)],
      cell: (flow) => [meter(flow.part), rate(flow.bytes_per_s)],
      sort: (flow) => flow.bytes_per_s ?? 0,
    },
    { title: "Bytes", number: true, cell: (flow) => bytes(flow.bytes), sort: (flow) => flow.bytes },
  ],
  { id: (flow) => `${flow.from} ${flow.to} ${flow.what}`, sorted: { column: 3, down: true } },
);

function flowEnd(title, end) {
  return {
    title,
    key: (flow) => [flow[end], nameOf(flow[end])],
    cell: (flow) => name(nameOf(flow[end])),
    sort: (flow) => nameOf(flow[end]),
  };
}

by("traffic-table").append(table.element);
const matrix = make("div", {
  class: "table matrix",
  role: "region",
  "aria-label": "Who sends how much to whom",
  tabindex: 0,
});
by("traffic-picture").append(matrix);
let shape = "";
const cells = new Map(); // "from to" → td

// Sums over what is sent: its rate, or its bytes where no time is known.
function sums(flows) {
  const sent = new Map();
  for (const { from, to, bytes: count, bytes_per_s } of flows) {
    const key = `${from} ${to}`;
    const before = sent.get(key) ?? { rate: 0, bytes: 0 };
    sent.set(key, { rate: before.rate + (bytes_per_s ?? 0), bytes: before.bytes + count });
  }
  return sent;
}

function build(peers) {
  cells.clear();
  const head = peers.map((id) => make("th", { scope: "col" }, name(nameOf(id))));
  const rows = peers.map((from) => {
    const row = peers.map((to) => {
      const cell = make("td", { class: "num" });
      cells.set(`${from} ${to}`, cell);
      return cell;
    });
    return make("tr", {}, make("th", { scope: "row" }, name(nameOf(from))), ...row);
  });
  const corner = make("th", { scope: "col" }, "from ↓ to →");
  matrix.replaceChildren(
    make(
      "table",
      {},
      make("thead", {}, make("tr", {}, corner, ...head)),
      make("tbody", {}, ...rows),
    ),
  );
}

function drawMatrix(flows) {
  const all = [...new Set(flows.flatMap((flow) => [flow.from, flow.to]))];
  const peers = all.sort((a, b) => nameOf(a).localeCompare(nameOf(b))).slice(0, matrix_peers_max);
  const wanted = JSON.stringify(peers.map((id) => [id, nameOf(id)]));
  if (wanted !== shape) build(peers);
  shape = wanted;
  const sent = sums(flows);
  const measure = (one) => one?.rate || one?.bytes || 0;
  const most = Math.max(...[...sent.values()].map(measure), 1);
  for (const [key, cell] of cells) {
    const one = sent.get(key);
    setText(cell, one ? (one.rate ? rate(one.rate) : bytes(one.bytes)) : "");
    const share = Math.round((measure(one) / most) * darkest_percent);
    cell.style.background = `color-mix(in srgb, var(--accent) ${share}%, var(--raised))`;
  }
}

function drawTable() {
  const most = Math.max(...store.flows.map((flow) => flow.bytes_per_s ?? 0), 1);
  if (by("traffic-flows").open)
    table.update(store.flows.map((flow) => ({ ...flow, part: (flow.bytes_per_s ?? 0) / most })));
}

listen(["flows", "peers"], () => {
  const { flows } = store;
  show(by("traffic-flows"), flows.length > 0);
  show(matrix, flows.length > 0);
  show(by("no-traffic"), flows.length === 0);
  setText(by("traffic-words"), sources[flows[0]?.source] ?? "");
  if (flows.length > 0) drawMatrix(flows);
  drawTable();
});
by("traffic-flows").addEventListener("toggle", drawTable);
