// The store: all that the page knows of the run, bounded, and who wants to hear that it changed.
// The page draws at most four times a second, and not while nobody sees it.

import { addMeasures, Newest, Trace } from "./trace.js";

const rounds_max = 200;
const stretches_max = 256;
const told_events_max = 512;
const routine_events_max = 256;
const draw_every_ms = 250;

export const store = {
  run: null,
  peers: [],
  ledger: null,
  experts: null,
  series: new Map(), // name → Trace
  rounds: new Newest(rounds_max),
  timeline: new Map(), // peer → [[from, to, phase]]
  flows: [],
  lines: [],
  told: new Newest(told_events_max), // events that are no routine
  routine: new Newest(routine_events_max),
  last_event: 0, // numbers: of the newest one heard, …
  series_last: 0, // … in the snapshot that the series began with, …
  rounds_last: 0, // … and in that of the rounds
  plan: null, // of the round that is being made
  clock_ahead: 0, // seconds of the peer's clock before this computer's
  stopped_at: null, // the run's clock, of a page that was saved
};

const listeners = [];
const changed = new Set();
let timer = null;

// `draw` is called after any of the topics changed: run, peers, series, rounds, flows, events.
export function listen(topics, draw) {
  listeners.push({ topics, draw });
}

export function touch(...topics) {
  for (const topic of topics) changed.add(topic);
  timer ??= setTimeout(drawChanged, draw_every_ms);
}

function drawChanged() {
  timer = null;
  if (document.hidden) return;
  const topics = [...changed];
  changed.clear();
  for (const { topics: wanted, draw } of listeners) {
    if (!wanted.some((topic) => topics.includes(topic))) continue;
    try {
      draw();
    } catch (error) {
      console.error(error); // the other parts of the page go on
    }
  }
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && changed.size > 0) drawChanged();
});

// ---- what the server tells ----------------------------------------------------------------------

export function takeRun(run) {
  store.run = run;
  touch("run");
}

export function takePeers(told) {
  store.peers = told.peers ?? [];
  store.ledger = told.ledger ?? null;
  store.experts = told.experts ?? null;
  const here = new Set(store.peers.map((peer) => peer.id));
  for (const id of store.timeline.keys()) if (!here.has(id)) store.timeline.delete(id);
  touch("peers", "rounds");
}

// A snapshot; what was heard since it was made is added to it.
export function takeSeries(told) {
  store.series = new Map(Object.entries(told.series).map(([name, one]) => [name, new Trace(one)]));
  store.series_last = told.last ?? store.last_event;
  for (const event of heardAfter(store.series_last)) addMeasures(store.series, event);
  touch("series");
}

export function takeRounds(told) {
  store.rounds.set(told.rounds ?? []);
  store.rounds_last = told.last ?? store.last_event;
  for (const event of heardAfter(store.rounds_last)) addRound(event);
  store.timeline.clear();
  takeTimeline(told.timeline ?? {});
}

const heardAfter = (number) => store.routine.list.filter((event) => event.number > number);

export function takeTimeline(told) {
  for (const [peer, stretches] of Object.entries(told)) {
    const known = store.timeline.get(peer) ?? [];
    for (const stretch of stretches) {
      if (known.length > 0 && known.at(-1)[0] === stretch[0]) known.pop();
      known.push(stretch);
    }
    store.timeline.set(peer, known.slice(-stretches_max));
  }
  touch("rounds");
}

export function takeFlows(told) {
  store.flows = told.flows ?? [];
  store.lines = told.lines ?? [];
  touch("flows");
}

export function takeEvents(told) {
  store.told.set([]);
  store.routine.set([]);
  store.last_event = told.last ?? 0;
  for (const event of told.events) keepEvent(event);
  touch("events");
}

// A new event, from the stream.
export function takeEvent(event) {
  if (event.number <= store.last_event) return;
  store.last_event = event.number;
  keepEvent(event);
  if (event.number > store.series_last && addMeasures(store.series, event)) touch("series");
  if (event.number > store.rounds_last) addRound(event);
  touch("events");
}

function keepEvent(event) {
  (event.routine ? store.routine : store.told).add(event);
}

// Rounds as /api/rounds has them: what the leader planned comes from the plan before the step.
function addRound(event) {
  if (event.kind === "plan") store.plan = event.fields;
  if (event.kind !== "step") return;
  const plan = store.plan ?? {};
  store.plan = null;
  store.rounds.add({
    ...event.fields,
    time: event.time,
    waited_for: plan.last_peer ?? null,
    waited_s: plan.last_s ?? null,
    bottleneck: plan.bottleneck ?? null,
    bottleneck_peer: plan.bottleneck_peer ?? null,
    bottleneck_mbit: plan.bottleneck_mbit ?? null,
  });
  touch("rounds");
}

// ---- questions ----------------------------------------------------------------------------------

export function nameOf(id) {
  if (!id) return "";
  return store.peers.find((peer) => peer.id === id)?.name ?? `…${id.slice(-8)}`;
}

// The run's clock: the replay's place, else now as the peer's clock has it.
export function clock() {
  if (store.stopped_at !== null) return store.stopped_at;
  if (!store.run) return Date.now() / 1000;
  if (store.run.replay) return store.run.replay.at;
  return Date.now() / 1000 + store.clock_ahead;
}
