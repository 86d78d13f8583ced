// Control: what this server lets the page do, and nothing else. Every action says what came of it.

import { by, make, setText, show } from "./dom.js";
import { number } from "./format.js";
import { listen, store, touch } from "./store.js";
import { act } from "./stream.js";

const answer = () => make("output", {});

function tell(output, told, words) {
  setText(output, told.ok === false ? told.error : words);
  output.className = told.ok === false ? "bad" : "good";
}

// Asks before what cannot be undone.
function sure(title, words, yes) {
  const dialog = by("sure");
  setText(by("sure-title"), title);
  setText(by("sure-words"), words);
  setText(by("sure-yes"), yes);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) =>
    dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }),
  );
}

// ---- pausing ------------------------------------------------------------------------------------

const pause_answer = answer();
const pause_button = make("button", { type: "button", onclick: pauseOrResume }, "Pause");
const pause_words = make("p", { class: "soft" });
const pause_box = make("div", {}, make("h3", {}, "Pause"), pause_words, pause_button, pause_answer);

async function pauseOrResume() {
  const resumes = store.run.paused;
  const told = await act(resumes ? "api/resume" : "api/pause");
  tell(
    pause_answer,
    told,
    resumes ? "This peer computes again." : "Paused: this peer computes nothing more.",
  );
  if (told.ok === false) setText(by("said"), told.error);
}
by("pause").addEventListener("click", pauseOrResume);

// ---- limits -------------------------------------------------------------------------------------

const line = (name) =>
  make("input", { type: "text", name, maxlength: 200, autocomplete: "off", spellcheck: "false" });
const [up, down] = [line("up"), line("down")];
const limit_answer = answer();
const limit_form = make(
  "form",
  { onsubmit: limit },
  make("h3", {}, "Limit the line"),
  make(
    "p",
    { class: "soft" },
    "In Mb/s; empty: no limit. 5,23:00-07:00=50 is 5 by day and 50 at night.",
  ),
  make(
    "div",
    { class: "fields" },
    make("label", {}, "Up", up),
    make("label", {}, "Down", down),
    make("button", {}, "Set"),
  ),
  limit_answer,
);

// A number of Mb/s, or hours with theirs as `--max-up` takes them.
function capOf({ value }) {
  const words = value.trim();
  return words === "" ? 0 : Number.isFinite(Number(words)) ? Number(words) : words;
}

function capWords({ up_mbit, down_mbit }) {
  if (!up_mbit && !down_mbit) return "No limit.";
  const most = (mbit) => (mbit ? `at most ${number(mbit)} Mb/s` : "no limit");
  return `Up: ${most(up_mbit)}; down: ${most(down_mbit)}.`;
}

async function limit(event) {
  event.preventDefault();
  const told = await act("api/limit", { up_mbit: capOf(up), down_mbit: capOf(down) });
  tell(limit_answer, told, capWords(told.caps ?? {}));
}

// ---- publishing ---------------------------------------------------------------------------------

const publish_answer = answer();
let waits_since = null; // the newest event when publishing was asked for

const publish_box = make(
  "form",
  { onsubmit: publish },
  make("h3", {}, "Publish the model"),
  make(
    "p",
    { class: "soft" },
    "The newest state is saved and goes where this peer was told to publish, between the " +
      "checkpoints that go there by themselves.",
  ),
  make("button", { id: "publish" }, "Publish now"),
  publish_answer,
);

async function publish(event) {
  event.preventDefault();
  const yes = await sure(
    "Publish the model as it is now?",
    "Whoever can read what this peer publishes can take it, and keep it.",
    "Publish",
  );
  if (!yes) return;
  const before = store.last_event;
  const told = await act("api/publish");
  tell(publish_answer, told, "Under way: the newest state is saved, then published.");
  waits_since = told.ok === false ? null : before;
  touch("events"); // what was asked for may have happened meanwhile
}

const is_end_of_publishing = ({ kind }) => kind === "published" || kind === "publish_failed";

listen(["events"], () => {
  if (waits_since === null) return;
  const end = store.told.list.find((one) => one.number > waits_since && is_end_of_publishing(one));
  if (!end) return;
  waits_since = null;
  const failed = end.kind === "publish_failed";
  tell(publish_answer, failed ? { ok: false, error: end.text } : {}, end.text);
  setText(by("said"), end.text);
});

// ---- people -------------------------------------------------------------------------------------

const nameField = (name) =>
  make("input", {
    type: "text",
    name,
    required: true,
    maxlength: 64,
    autocomplete: "off",
    dir: "auto",
  });
const who = nameField("who");
const invite_answer = answer();
const invitation = make("textarea", {
  readonly: true,
  rows: 4,
  "aria-label": "The invitation",
  hidden: true,
});
const copy = make("button", { type: "button", hidden: true, onclick: copyInvitation }, "Copy");
const invite_form = make(
  "form",
  { onsubmit: invite },
  make("h3", {}, "Invite a person"),
  make("p", { class: "soft" }, "The text that comes holds a secret: send it to that person only."),
  make("div", { class: "fields" }, make("label", {}, "Name", who), make("button", {}, "Invite")),
  invite_answer,
  invitation,
  copy,
);

async function invite(event) {
  event.preventDefault();
  const told = await act("api/invite", { name: who.value });
  tell(invite_answer, told, `An invitation for ${who.value}:`);
  invitation.value = told.text ?? "";
  show(invitation, Boolean(told.text));
  show(copy, Boolean(told.text));
}

async function copyInvitation() {
  invitation.select();
  try {
    await navigator.clipboard.writeText(invitation.value);
    setText(invite_answer, "Copied.");
  } catch {
    setText(invite_answer, "Selected: copy it with Ctrl+C.");
  }
}

const whom = nameField("whom");
const revoke_answer = answer();
const revoke_form = make(
  "form",
  {
    onsubmit: (event) => {
      event.preventDefault();
      revoke(whom.value);
    },
  },
  make("h3", {}, "Take an admission back"),
  make("p", { class: "soft" }, "It holds on all devices of that person."),
  make(
    "div",
    { class: "fields" },
    make("label", {}, "Name", whom),
    make("button", { class: "danger" }, "Revoke"),
  ),
  revoke_answer,
);

export async function revoke(person) {
  const yes = await sure(
    `Take the admission of ${person} back?`,
    "It holds on all devices of that person from the next certificate on, and for good.",
    "Revoke",
  );
  if (!yes) return;
  const told = await act("api/revoke", { name: person });
  const words = `The admission of ${person} is taken back.`;
  tell(revoke_answer, told, words);
  setText(by("said"), told.ok === false ? told.error : words);
}

// ---- what is allowed ----------------------------------------------------------------------------

const boxes = [
  ["pause", pause_box],
  ["limit", limit_form],
  ["publish", publish_box],
  ["invite", invite_form],
  ["revoke", revoke_form],
];
by("forms").append(...boxes.map(([, box]) => box));
let caps_shown = false;

listen(["run"], () => {
  const may = store.run.may ?? [];
  for (const [action, box] of boxes) show(box, may.includes(action));
  show(
    by("control"),
    boxes.some(([action]) => may.includes(action)),
  );
  show(by("pause"), may.includes("pause"));
  const words = store.run.paused ? "Go on" : "Pause";
  setText(by("pause"), words);
  setText(pause_button, words);
  by("pause").classList.toggle("primary", store.run.paused);
  setText(
    pause_words,
    store.run.paused
      ? "This peer is paused: it keeps the state and serves it, and computes nothing."
      : "This peer takes part. Paused, it stays connected and computes nothing.",
  );
  setText(by("control-words"), store.run.paused ? "paused" : "");
  if (caps_shown) return; // what was typed stays
  caps_shown = true;
  up.value = store.run.caps?.up_mbit || "";
  down.value = store.run.caps?.down_mbit || "";
});
