// Peers and people: who is there, what each does, how trusted it is, and what certificates say that
// each has brought.

import { revoke } from "./control.js";
import { by, make, name, sentence, setText, show } from "./dom.js";
import {
  atClock,
  duration,
  number,
  percent,
  plural,
  rate,
  short,
  wholePercent,
} from "./format.js";
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
  const person = peer.person && peer.person !== peer.name;
  return [
    name(peer.name, { title: peer.id }),
    peer.is_us && tag("you"),
    peer.order && tag(peer.order.order, "bad"),
    peer.role !== "trainer" && tag(peer.role),
    person && make("small", {}, "a device of ", name(peer.person)),
  ]
    .filter(Boolean)
    .flatMap((part) => [part, " "]);
}

const marks = { equal: ["same", "good"], different: ["differs", "bad"], none: ["", "soft"] };

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
function orderWords(order) {
  const evidence = make("code", { title: order.evidence }, order.evidence.slice(0, 12));
  return make(
    "p",
    {},
    make("span", { class: "bad" }, order.order),
    ` at step ${number(order.step)}: `,
    ...sentence(order.offence),
    ...(order.evidence ? [make("span", { class: "soft" }, ", evidence "), evidence] : []),
  );
}

function errorWords(error) {
  const when = make("span", { class: "soft" }, `${atClock(error.time)} `);
  return make("p", {}, when, ...sentence(error.text));
}

const notes = (peer) => [
  peer.order && orderWords(peer.order),
  peer.last_error && errorWords(peer.last_error),
  checksWords(peer.checks) && make("p", {}, `checks: ${checksWords(peer.checks)}`),
];

function lineWords({ upload_bytes_per_s: up, download_bytes_per_s: down }) {
  if (!up && !down) return "–";
  return [make("div", {}, `↑ ${rate(up)}`), make("div", {}, `↓ ${rate(down)}`)];
}

// By certified steps that have its samples, not by its own word.
const tookPart = () => ({
  title: "Took part",
  number: true,
  cell: (one) => (one.attended_s ? duration(one.attended_s) : "–"),
  sort: (one) => one.attended_s ?? 0,
});

const peers = new Table(
  "All peers",
  [
    {
      title: "Peer",
      key: (peer) => [peer.name, peer.person, peer.is_us, peer.role, peer.order?.order],
      cell: whoCell,
      sort: (peer) => peer.name,
    },
    { title: "Doing", cell: (peer) => peer.doing, sort: (peer) => peer.doing },
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
      cell: (peer) => (peer.share ? [meter(peer.share), wholePercent(peer.share)] : "–"),
      sort: (peer) => peer.share,
    },
    tookPart(),
    { title: "Step", number: true, cell: (peer) => number(peer.step), sort: (peer) => peer.step },
    { title: "State", key: (peer) => [peer.state_hash, peer.mark], cell: stateCell },
    {
      title: "Line",
      number: true,
      key: (peer) => [rate(peer.upload_bytes_per_s), rate(peer.download_bytes_per_s)],
      cell: lineWords,
      sort: (peer) => peer.upload_bytes_per_s,
    },
    {
      title: "Round trip",
      number: true,
      cell: (peer) => (peer.round_trip_s ? duration(peer.round_trip_s) : "–"),
      sort: (peer) => peer.round_trip_s,
    },
    { title: "Version", cell: (peer) => peer.version },
    {
      title: "Notes",
      wide: true,
      key: (peer) => [peer.order, peer.last_error, peer.checks],
      cell: notes,
    },
  ],
  {
    rowClass: (peer) => [peer.gone && "gone", peer.is_us && "us"].filter(Boolean).join(" ") || null,
  },
);
by("peers-table").append(peers.element);

const isBanned = (peer) => peer.order?.order === "banned";
const has_notes = (peer) => peer.order || peer.last_error || checksWords(peer.checks);

const people = new Table(
  "People and their samples",
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
    tookPart(),
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

listen(["peers"], () => {
  peers.update(store.peers);
  peers.showColumn("Notes", store.peers.some(has_notes));
  peers.showColumn("Took part", Boolean(store.ledger?.certified));
  const here = store.peers.filter((peer) => !peer.gone);
  const banned = store.peers.filter(isBanned).length;
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
        banned: devices.filter(isBanned).length,
        may_revoke: may_revoke && devices.every((peer) => !peer.is_us),
      };
    }),
  );
  people.showColumn("Took part", Boolean(ledger.certified));
  people.showColumn("Admission", may_revoke);
  people.showColumn("Bans", store.peers.some(isBanned));
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
