// Experts of a mixture: who serves which, and how often each was updated; and what a model makes of
// prompts: pictures, or words.

import { by, make, name, setText, show } from "./dom.js";
import { duration, number } from "./format.js";
import { listen, nameOf, store } from "./store.js";
import { pictureOf, wordsOf } from "./stream.js";
import { Table } from "./table.js";

const tiles_max = 512;

const servers = new Table(
  "Servers of experts",
  [
    {
      title: "Server",
      key: (one) => one.name,
      cell: (one) => name(one.name),
      sort: (one) => one.name,
    },
    {
      title: "Experts",
      number: true,
      cell: (one) =>
        [number(one.experts), one.experts_max && `of ${number(one.experts_max)}`]
          .filter(Boolean)
          .join(" "),
      sort: (one) => one.experts,
    },
    {
      title: "Calls a second",
      number: true,
      cell: (one) => number(one.calls_per_s),
      sort: (one) => one.calls_per_s ?? 0,
    },
    {
      title: "Queue",
      number: true,
      cell: (one) => (Number.isFinite(one.queue_ms) ? duration(one.queue_ms / 1000) : "–"),
      sort: (one) => one.queue_ms ?? 0,
    },
    {
      title: "Failed calls",
      number: true,
      cell: (one) => number(one.failed),
      sort: (one) => one.failed ?? 0,
    },
  ],
  { sorted: { column: 0, down: false } },
);
by("experts-servers").append(servers.element);

const tiles = new Map();

function tileOf(uid) {
  if (!tiles.has(uid)) {
    const [who, more] = [make("bdi"), make("span", { class: "soft" })];
    tiles.set(uid, {
      who,
      more,
      tile: make("li", {}, make("b", { class: "mono" }, uid), make("br"), who, make("br"), more),
    });
    by("experts-grid").append(tiles.get(uid).tile);
  }
  return tiles.get(uid);
}

function drawTile(expert) {
  const { who, more, tile } = tileOf(expert.uid);
  setText(who, expert.server ? nameOf(expert.server) : "nobody serves it");
  setText(more, expert.answers === false ? "does not answer" : `${number(expert.updates)} updates`);
  tile.className = expert.server && expert.answers !== false ? "" : "bad";
}

listen(["peers"], () => {
  const { experts } = store;
  show(by("experts"), Boolean(experts));
  if (!experts) return;
  setText(by("experts-words"), `${number(experts.served)} of ${number(experts.count)} served`);
  servers.update(experts.servers ?? []);
  const grid = (experts.grid ?? []).slice(0, tiles_max);
  const there = new Set(grid.map((one) => one.uid));
  for (const [uid, { tile }] of tiles)
    if (!there.has(uid)) {
      tile.remove();
      tiles.delete(uid);
    }
  grid.forEach(drawTile);
});

// ---- prompts ------------------------------------------------------------------------------------

let sheets = "";

const captioned = (step, ...shown) =>
  make("figure", {}, make("figcaption", {}, `step ${number(step)}`), ...shown);

function picture(step) {
  const words = `What the model draws of the prompts at step ${step}`;
  const image = { src: pictureOf(`${step}.png`), alt: words, loading: "lazy" };
  return captioned(step, make("img", image));
}

// Answers are words of a model: shown as they are, in their own direction.
function text(step) {
  const answers = make("pre", { dir: "auto", tabindex: 0, "aria-label": `Answers, step ${step}` });
  wordsOf(`${step}.txt`).then((words) => setText(answers, words));
  return captioned(step, answers);
}

listen(["run"], () => {
  const { steps = [], texts = [] } = store.run.prompts ?? {};
  show(by("prompts"), steps.length + texts.length > 0);
  const now = JSON.stringify([steps, texts]);
  if (now === sheets) return;
  sheets = now;
  const newest = (list, shown) => [...list].reverse().map(shown);
  by("pictures").replaceChildren(...newest(steps, picture), ...newest(texts, text));
  by("pictures").classList.toggle("texts", steps.length === 0);
});
