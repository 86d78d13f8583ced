// What happened, newest first, and the few words of it that a screen reader hears by itself.

import { by, make, sentence, setText, show } from "./dom.js";
import { atClock, atDay } from "./format.js";
import { listen, store, touch } from "./store.js";

const shown_max = 100;
const said_every_ms = 10_000;

const rows = new Map();

function rowOf(event) {
  if (!rows.has(event.number)) {
    const when = make(
      "time",
      { datetime: new Date(event.time * 1000).toISOString(), title: atDay(event.time) },
      atClock(event.time),
    );
    rows.set(
      event.number,
      make(
        "li",
        { class: (event.tone ?? "neutral") === "neutral" ? null : event.tone },
        when,
        make("span", {}, ...sentence(event.text)),
      ),
    );
  }
  return rows.get(event.number);
}

function draw() {
  const all = by("all-events").checked;
  const events = all
    ? [...store.told.list, ...store.routine.list].sort((a, b) => a.number - b.number)
    : store.told.list;
  const newest = events
    .filter((event) => event.text)
    .slice(-shown_max)
    .reverse();
  const wanted = new Set(newest.map((event) => event.number));
  for (const [number, row] of rows)
    if (!wanted.has(number)) {
      row.remove();
      rows.delete(number);
    }
  const list = by("log-list");
  newest.forEach((event, place) => {
    const row = rowOf(event);
    if (list.children[place] !== row) list.insertBefore(row, list.children[place] ?? null);
  });
  show(by("no-events"), newest.length === 0);
  show(list, newest.length > 0);
  sayLater();
}

// ---- said aloud ---------------------------------------------------------------------------------

let said = null; // the number of the newest event that was said or was there when the page came
let timer = null;

function sayLater() {
  said ??= store.last_event;
  if (timer) return;
  const news = store.told.list.filter(
    (event) => event.number > said && event.text && (event.tone ?? "neutral") !== "neutral",
  );
  if (news.length === 0) return;
  say(news);
  timer = setTimeout(() => {
    timer = null;
    sayLater();
  }, said_every_ms);
}

// Says the two newest of `news`, and how many more there were.
function say(news) {
  said = store.last_event;
  const words = news.slice(-2).map((event) => event.text);
  if (news.length > 2) words.unshift(`${news.length - 2} more events.`);
  setText(by("said"), words.join(". "));
}

listen(["events"], draw);
by("all-events").addEventListener("change", () => touch("events"));
