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
  certificate: "by the newest step's certificate",
  measured: "measured",
};
const untold = "Neither a log nor statuses tell who sent what; the page of a peer that takes part does.";
const told = {
  certificate: "in the newest step, as its certificate divides the work",
  measured: "to and from this peer in the last seconds, as its connections counted",
};

const table = new Table(
  "Flows",
  [
    flowEnd("From", "from"),
    flowEnd("To", "to"),
    { title: "What", cell: (flow) => (flow.what === "all" ? "everything" : flow.what) },
    { title: "Source", cell: (flow) => sources[flow.source] ?? flow.source },
    {
      title: "Rate",
      number: true,
      key: (flow) => [rate(flow.bytes_per_s), Math.round(flow.part * 50)],
      cell: (flow) => [meter(flow.part), rate(flow.bytes_per_s)],
      sort: (flow) => flow.bytes_per_s ?? 0,
    },
    { title: "Bytes", number: true, cell: (flow) => bytes(flow.bytes), sort: (flow) => flow.bytes },
  ],
  { id: (flow) => `${flow.from} ${flow.to} ${flow.what} ${flow.source}`, sorted: { column: 4, down: true } },
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

// Sums over what is sent: its rate, or its bytes where no time is known. What was measured between
// two peers counts in place of what their step's certificate says.
function sums(flows) {
  const sent = new Map();
  const isMeasured = (flow) => flow.source === "measured";
  const measured = flows.filter(isMeasured);
  const known = new Set(measured.map(({ from, to }) => `${from} ${to}`));
  const others = flows.filter((flow) => !isMeasured(flow) && !known.has(`${flow.from} ${flow.to}`));
  for (const flow of [...measured, ...others]) {
    const key = `${flow.from} ${flow.to}`;
    const before = sent.get(key) ?? { rate: 0, bytes: 0, measured: isMeasured(flow) };
    before.rate += flow.bytes_per_s ?? 0;
    before.bytes += flow.bytes;
    sent.set(key, before);
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

const amount = (one, counts) =>
  counts ? `${bytes(one.bytes)} a step` : one.rate ? rate(one.rate) : bytes(one.bytes);

function drawMatrix(flows) {
  const all = [...new Set(flows.flatMap((flow) => [flow.from, flow.to]))];
  const peers = all.sort((a, b) => nameOf(a).localeCompare(nameOf(b))).slice(0, matrix_peers_max);
  const wanted = JSON.stringify(peers.map((id) => [id, nameOf(id)]));
  if (wanted !== shape) build(peers);
  shape = wanted;
  const sent = sums(flows);
  // Rates of the last seconds are not compared with those while a step was averaged.
  const has_measured = flows.some((flow) => flow.source === "measured");
  const counts = (one) => has_measured && !one.measured;
  const measure = (one) => (counts(one) ? one.bytes : one.rate || one.bytes);
  const like = (one) => [...sent.values()].filter((other) => other.measured === one.measured);
  for (const [key, cell] of cells) {
    const one = sent.get(key);
    cell.classList.toggle("measured", Boolean(one?.measured));
    setText(cell, one ? amount(one, counts(one)) : "");
    const most = one ? Math.max(...like(one).map(measure), 1) : 1;
    const share = one ? Math.round((measure(one) / most) * darkest_percent) : 0;
    cell.style.background = `color-mix(in srgb, var(--accent) ${share}%, var(--raised))`;
  }
}

function drawTable() {
  const most = Math.max(...store.flows.map((flow) => flow.bytes_per_s ?? 0), 1);
  if (by("traffic-flows").open)
    table.update(store.flows.map((flow) => ({ ...flow, part: (flow.bytes_per_s ?? 0) / most })));
}

// Says what the numbers rest on; where they are of two kinds, also how to tell them apart.
function words(flows) {
  const kinds = Object.keys(told).filter((kind) => flows.some((flow) => flow.source === kind));
  if (kinds.length < 2) return told[kinds[0]] ?? "";
  return `Underlined: ${told.measured}. The rest: ${told.certificate}; nobody here could measure it.`;
}

listen(["flows", "peers"], () => {
  const { flows } = store;
  show(by("traffic-flows"), flows.length > 0);
  show(matrix, flows.length > 0);
  show(by("no-traffic"), flows.length === 0);
  const tells = (store.run?.mode ?? "peer") === "peer";
  setText(by("no-traffic"), tells ? "Nothing was sent yet." : untold);
  setText(by("traffic-words"), words(flows));
  if (flows.length > 0) drawMatrix(flows);
  drawTable();
});
by("traffic-flows").addEventListener("toggle", drawTable);
