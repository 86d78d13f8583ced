// Replay: how fast a finished run goes by, and where in it one is.

import { by, make, setAttribute, setText, show } from "./dom.js";
import { atDay, duration } from "./format.js";
import { listen, store } from "./store.js";
import { act } from "./stream.js";

const speeds = [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256];
const parts = 1000;

const option = (speed) => make("option", { value: speed }, `${Number(speed.toPrecision(3))} ×`);
by("replay-speed").append(...speeds.map(option));

// A speed of the command line that is not in the list joins it.
function offer(speed) {
  const there = [...by("replay-speed").options].some((one) => Number(one.value) === speed);
  if (!there) by("replay-speed").append(option(speed));
}

let moves = false; // the place, by hand

listen(["run"], () => {
  const { replay } = store.run;
  show(by("replay"), Boolean(replay));
  if (!replay) return;
  setText(by("replay-play"), replay.playing ? "Pause" : "Play");
  offer(replay.speed);
  if (document.activeElement !== by("replay-speed"))
    by("replay-speed").value = String(replay.speed);
  const whole = replay.to - replay.from;
  if (!moves)
    by("replay-at").value = String(whole > 0 ? ((replay.at - replay.from) / whole) * parts : 0);
  const words = `${duration(Math.max(0, replay.at - replay.from))} of ${duration(whole)}`;
  setAttribute(by("replay-at"), "aria-valuetext", words);
  setText(by("replay-time"), `${words} · ${atDay(replay.at)}`);
});

async function control(body) {
  const told = await act("api/replay", body);
  if (told.ok === false) setText(by("said"), told.error);
}

by("replay-play").addEventListener("click", () => control({ playing: !store.run.replay.playing }));
by("replay-speed").addEventListener("change", () =>
  control({ speed: Number(by("replay-speed").value) }),
);
by("replay-at").addEventListener("input", () => {
  moves = true;
});
by("replay-at").addEventListener("change", async () => {
  const { from, to } = store.run.replay;
  await control({ at: from + (Number(by("replay-at").value) / parts) * (to - from) });
  moves = false;
});
