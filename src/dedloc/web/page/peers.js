// Peers and people: who is there, what each does, how trusted it is, and what certificates say that
// each has brought.

import { revoke } from "./control.js";
import { by, make, name, setText, show } from "./dom.js";
import { atClock, duration, number, percent, plural, rate, short } from "./format.js";
import { listen, store } from "./store.js";
import { Table } from "./table.js";

const people_max = 200;

const tag = (words, tone = "soft") => make("span", { class: `tag ${tone}` }, words);

export function meter(part) {
  const inner = make("i");
  inner.style.width = `${Math.min(100, Math.max(0, part * 100)) || 0}%`;
  return make("span", { class: "meter", "aria-hidden": "true" }, inner);
}

function whoCell(peer) {
  return [
    name(peer.name, { title: peer.id }),
    " ",
    peer.is_us && tag("you"),
    " ",
    peer.order && tag(peer.order.order, "bad"),
  ].filter(Boolean);
}

const marks = { equal: ["= like most", "good"], different: ["differs", "bad"], none: ["", "soft"] };

function stateCell(peer) {
  const [words, tone] = marks[peer.mark] ?? marks.none;
  const hash = /^0*$/.test(peer.state_hash ?? "") ? "none" : peer.state_hash.slice(0, 8);
  return [make("span", { class: "mono" }, hash), " ", make("span", { class: tone }, words)];
}

function checksWords(checks) {
  if (!checks) return "";
  const told = [
    checks.made > 0 && `made ${number(checks.made)}`,
    checks.needed > 0 && `${checks.right} of ${checks.needed} right`,
    checks.disputed > 0 && `${number(checks.disputed)} disputed`,
  ];
  return told.filter(Boolean).join(", ");
}

// A ban with what it rests on: `dedloc audit` finds the evidence by this digest.
function orderCell({ order }) {
  if (!order) return "";
  return [
    make("span", { class: "bad" }, order.order),
    ` at step ${number(order.step)}: ${order.offence}`,
    order.evidence
      ? make(
          "span",
          { class: "soft" },
          " evidence ",
          make("code", { title: order.evidence }, order.evidence.slice(0, 12)),
        )
      : "",
  ];
}

const errorCell = ({ last_error: error }) =>
  error
    ? [make("span", { class: "soft" }, `${atClock(error.time)} `), make("bdi", {}, error.text)]
    : "";

const lineWords = (peer) =>
  peer.upload_bytes_per_s || peer.download_bytes_per_s
    ? `↑ ${rate(peer.upload_bytes_per_s)} ↓ ${rate(peer.download_bytes_per_s)}`
    : "";

const peers = new Table(
  "Peers",
  [
    {
      title: "Peer",
      key: (peer) => [peer.name, peer.is_us, peer.order?.order],
      cell: whoCell,
      sort: (peer) => peer.name,
    },
    {
      title: "Person",
      key: (peer) => peer.person,
      cell: (peer) => (peer.person ? name(peer.person) : ""),
      sort: (peer) => peer.person ?? "",
    },
    { title: "Role", cell: (peer) => peer.role, sort: (peer) => peer.role },
    { title: "Doing", cell: (peer) => peer.doing },
    {
      title: "Speed",
      number: true,
      cell: (peer) => (peer.samples_per_s ? `${short(peer.samples_per_s)}/s` : "–"),
      sort: (peer) => peer.samples_per_s,
    },
    {
      title: "Share",
      number: true,
      key: (peer) => Math.round(peer.share * 100),
      cell: (peer) =>
        peer.share ? [meter(peer.share), percent(Math.round(peer.share * 100) / 100)] : "–",
      sort: (peer) => peer.share,
    },
    { title: "Step", number: true, cell: (peer) => number(peer.step), sort: (peer) => peer.step },
    { title: "State", key: (peer) => [peer.state_hash, peer.mark], cell: stateCell },
    { title: "Line", cell: lineWords, sort: (peer) => peer.upload_bytes_per_s, number: true },
    {
      title: "Round trip",
      number: true,
      cell: (peer) => (peer.round_trip_s ? duration(peer.round_trip_s) : "–"),
      sort: (peer) => peer.round_trip_s,
    },
    { title: "Version", cell: (peer) => peer.version },
    { title: "Checks", cell: (peer) => checksWords(peer.checks) },
    { title: "Last error", wide: true, key: (peer) => peer.last_error, cell: errorCell },
    { title: "Ban", wide: true, key: (peer) => peer.order, cell: orderCell },
  ],
  {
    rowClass: (peer) => [peer.gone && "gone", peer.is_us && "us"].filter(Boolean).join(" ") || null,
  },
);
by("peers-table").append(peers.element);

// Columns that are empty for all are noise.
const seldom = {
  Person: (peer) => peer.person,
  Checks: (peer) => checksWords(peer.checks),
  "Last error": (peer) => peer.last_error,
  Ban: (peer) => peer.order,
};

const people = new Table(
  "Contributions",
  [
    {
      title: "Name",
      key: (one) => one.name,
      cell: (one) => name(one.name),
      sort: (one) => one.name,
    },
    {
      title: "Samples",
      number: true,
      cell: (one) => number(one.samples),
      sort: (one) => one.samples,
    },
    {
      title: "Share",
      number: true,
      key: (one) => Math.round(one.share * 1000),
      cell: (one) => [meter(one.share), percent(one.share)],
      sort: (one) => one.share,
    },
    {
      title: "Devices",
      number: true,
      cell: (one) => number(one.devices),
      sort: (one) => one.devices,
    },
    { title: "Here now", number: true, cell: (one) => number(one.here), sort: (one) => one.here },
    { title: "Bans", number: true, cell: (one) => (one.banned ? number(one.banned) : "") },
    {
      title: "Admission",
      key: (one) => [one.name, one.may_revoke],
      cell: (one) =>
        one.may_revoke
          ? make(
              "button",
              { type: "button", class: "plain danger", onclick: () => revoke(one.name) },
              "Revoke",
              make("span", { class: "aside" }, ` ${one.name}`),
            )
          : "",
    },
  ],
  { id: (one) => one.name, sorted: { column: 1, down: true } },
);
by("people-table").append(people.element);

listen(["peers", "run"], () => {
  peers.update(store.peers);
  for (const [title, has] of Object.entries(seldom)) peers.showColumn(title, store.peers.some(has));
  const here = store.peers.filter((peer) => !peer.gone);
  const banned = store.peers.filter((peer) => peer.order?.order === "banned").length;
  setText(
    by("peers-words"),
    [
      `${number(here.length)} here`,
      store.peers.length > here.length && `${number(store.peers.length - here.length)} gone`,
      banned > 0 && `${number(banned)} banned`,
    ]
      .filter(Boolean)
      .join(", "),
  );
});

const counted = ({ certified }) =>
  certified === false ? "the steps that were seen" : "certified steps";

listen(["peers", "run"], () => {
  const { ledger } = store;
  show(by("people"), Boolean(ledger));
  if (!ledger) return;
  const may_revoke = Boolean(store.run?.may?.includes("revoke") && store.run.run.by_invitation);
  const owner = (peer) => peer.person ?? peer.name;
  people.update(
    ledger.people.slice(0, people_max).map((one) => {
      const devices = store.peers.filter((peer) => owner(peer) === one.name);
      return {
        ...one,
        here: one.here ?? devices.filter((peer) => !peer.gone).length,
        banned: devices.filter((peer) => peer.order?.order === "banned").length,
        may_revoke: may_revoke && devices.every((peer) => !peer.is_us),
      };
    }),
  );
  people.showColumn("Admission", may_revoke);
  people.showColumn(
    "Bans",
    store.peers.some((peer) => peer.order?.order === "banned"),
  );
  const hidden = ledger.people.length - people_max;
  setText(
    by("people-words"),
    [
      `${number(ledger.samples)} samples in ${counted(ledger)}`,
      plural(ledger.people.length, "person", "people"),
      hidden > 0 && `the first ${people_max} are shown`,
    ]
      .filter(Boolean)
      .join(", "),
  );
});
