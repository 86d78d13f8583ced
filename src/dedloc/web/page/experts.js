// Experts of a mixture: who serves which, and how often each was updated; and what a model that
// draws has drawn.

import { by, make, name, setText, show } from "./dom.js";
import { number, percent } from "./format.js";
import { meter } from "./peers.js";
import { listen, nameOf, store } from "./store.js";
import { withToken } from "./stream.js";
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
      cell: (one) => number(one.experts),
      sort: (one) => one.experts,
    },
    {
      title: "Load",
      number: true,
      key: (one) => Math.round(one.load * 100),
      cell: (one) => [meter(one.load), percent(Math.round(one.load * 100) / 100)],
      sort: (one) => one.load,
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

// ---- pictures -----------------------------------------------------------------------------------

let drawn_steps = "";

listen(["run"], () => {
  const steps = store.run.prompts?.steps ?? [];
  show(by("prompts"), steps.length > 0);
  if (steps.join() === drawn_steps) return;
  drawn_steps = steps.join();
  by("pictures").replaceChildren(
    ...[...steps].reverse().map((step) =>
      make(
        "figure",
        {},
        make("img", {
          src: withToken(`api/prompts/${step}.png`),
          alt: `What the model draws of the prompts at step ${step}`,
          loading: "lazy",
        }),
        make("figcaption", {}, `step ${number(step)}`),
      ),
    ),
  );
});
