// The page to type in: sends a prompt, and shows the text as it is written, or pictures.

import "./theme.js";
import { by, make } from "./dom.js";
import { takeToken } from "./token.js";

const put = (id, words) => {
  by(id).textContent = words;
};

const token = takeToken("dedloc-api-token");
const headers = token ? { Authorization: `Bearer ${token}` } : {};

class Refused extends Error {}

async function ask(path, body, signal) {
  const sent = body && { method: "POST", body: JSON.stringify(body) };
  const answer = await fetch(path, {
    ...sent,
    headers: body ? { ...headers, "Content-Type": "application/json" } : headers,
    cache: "no-store",
    signal,
  });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Refused(told.error?.message ?? `the server answered ${answer.status}`);
}

// The events of a stream, parsed, up to [DONE].
async function* eventsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (true) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the connection ended before the text did");
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      if (!part.startsWith("data: ")) continue;
      if (part === "data: [DONE]") return;
      const event = JSON.parse(part.slice(6));
      if (event.error) throw new Refused(event.error.message);
      yield event;
    }
  }
}

// What a screen reader is told: whole sentences, as they come.
class Said {
  constructor() {
    by("said").replaceChildren();
    this.rest = "";
  }
  add(text, is_last = false) {
    this.rest += text;
    const end = is_last ? this.rest.length : this.rest.search(/[.!?;:\n।۔。][^.!?;:\n।۔。]*$/) + 1;
    const words = this.rest.slice(0, end).trim();
    this.rest = this.rest.slice(end);
    if (!words) return;
    by("said").append(make("p", {}, words));
  }
}

let model = null;
let asking = null; // an AbortController

async function look() {
  try {
    const told = await (await ask("/v1/models")).json();
    [model] = told.data;
  } catch (error) {
    put("state", error instanceof Refused ? error.message : "the server does not answer");
    return;
  }
  const facts = model.dedloc;
  document.body.dataset.kind = facts.kind;
  put("model", model.id);
  document.title = `${model.id} – dedloc`;
  const follows = facts.follows ? ", of a run that goes on" : "";
  const context = facts.context ? `, sees ${facts.context} tokens` : "";
  put("state", `step ${facts.step}${follows}${context}`);
  put("prompt-label", facts.kind === "text" ? "Text to go on with" : "What to draw");
  if (!asking) put("send", facts.kind === "text" ? "Write" : "Draw");
}

const number = (id) => (by(id).value === "" ? undefined : Number(by(id).value));

function options() {
  const asked = { model: model.id, prompt: by("prompt").value, temperature: number("temperature") };
  asked.seed = number("seed");
  if (model.dedloc.kind === "pictures") return { ...asked, n: number("count") };
  const stop = by("stop").value;
  return {
    ...asked,
    max_tokens: number("tokens"),
    top_p: number("top-p"),
    ...(stop && { stop }),
    stream: true,
    stream_options: { include_usage: true },
  };
}

const reasons = { stop: "the text ended", length: "as many tokens as were asked for, or fit" };

async function write(signal) {
  const asked = options();
  const answer = await ask("/v1/completions", asked, signal);
  const said = new Said();
  put("asked", asked.prompt);
  put("written", "");
  put("facts", "");
  let reason = "";
  let tokens = 0;
  let step = "";
  try {
    for await (const event of eventsOf(answer)) {
      tokens = event.usage?.completion_tokens ?? tokens;
      step = event.system_fingerprint;
      const [choice] = event.choices;
      if (!choice) continue;
      by("written").append(choice.text);
      said.add(choice.text);
      reason = choice.finish_reason ?? reason;
    }
  } finally {
    said.add("", true);
  }
  put("facts", `${tokens} tokens; ${reasons[reason] ?? reason}; ${step}`);
}

async function draw(signal) {
  const asked = options();
  const answer = await ask("/v1/images/generations", asked, signal);
  const told = await answer.json();
  if (told.error) throw new Refused(told.error.message);
  const pictures = told.data.map(({ b64_json }, at) => {
    const alt = `${asked.prompt}, picture ${at + 1} of ${told.data.length}`;
    return make("li", {}, make("img", { src: `data:image/png;base64,${b64_json}`, alt }));
  });
  by("pictures").replaceChildren(...pictures);
  put("facts", (told.remarks ?? []).join("; "));
  new Said().add(`${pictures.length} pictures of ${asked.prompt}`, true);
}

async function send(event) {
  event.preventDefault();
  if (asking || !model) return;
  asking = new AbortController();
  by("send").disabled = true;
  by("cancel").disabled = false;
  by("trouble").hidden = true;
  by("answer").hidden = false;
  put("doing", model.dedloc.kind === "text" ? "writing" : "drawing");
  let end = "done";
  try {
    await (model.dedloc.kind === "text" ? write : draw)(asking.signal);
  } catch (error) {
    end = asking.signal.aborted ? "stopped" : "";
    by("trouble").hidden = asking.signal.aborted;
    if (!asking.signal.aborted)
      put("trouble", error instanceof Refused ? error.message : "the server does not answer");
  }
  asking = null;
  by("send").disabled = false;
  by("cancel").disabled = true;
  put("doing", end);
  look();
}

by("ask").addEventListener("submit", send);
by("cancel").addEventListener("click", () => asking?.abort());
by("copy").addEventListener("click", () =>
  navigator.clipboard?.writeText(by("asked").textContent + by("written").textContent),
);
by("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) by("ask").requestSubmit();
});
look();
setInterval(() => document.hidden || asking || look(), 15000);
