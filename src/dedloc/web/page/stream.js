// The stream of the run: asks for all there is, then hears what is new. A stream that ends is begun
// again, and the page says so meanwhile.

import * as from from "./store.js";
import { takeToken } from "./token.js";

const first_wait_s = 1;
const longest_wait_s = 15;
// After so long a silence the peer is asked whether it is there: a broken line tells nobody.
const silence_s = 40;
const answer_s = 10;

const saved = document.getElementById("saved");
let sheets = null; // of a page that was saved
const token = takeToken("dedloc-token");
const bearer = { Authorization: `Bearer ${token}` };

export const withToken = (path) =>
  `${path}${path.includes("?") ? "&" : "?"}token=${encodeURIComponent(token)}`;

class Refused extends Error {}

async function ask(path, signal) {
  const answer = await fetch(path, { headers: bearer, cache: "no-store", signal });
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  const why = body.error ?? `${path}: ${answer.status}`;
  throw answer.status === 401 || answer.status === 403 ? new Refused(why) : new Error(why);
}

// What became of prompts: "150.png" is a picture's address, "150.txt" a promise of words, which are
// empty where it is not there any more.
export const pictureOf = (name) =>
  sheets ? (sheets[name] ?? "data:,") : withToken(`api/prompts/${name}`);
export const wordsOf = async (name) => (sheets ? (sheets[name] ?? "") : askText(`api/prompts/${name}`));

async function askText(path) {
  try {
    const answer = await fetch(path, { headers: bearer, cache: "no-store" });
    return answer.ok ? await answer.text() : "";
  } catch {
    return "";
  }
}

// An action; answers {ok, …} or {ok: false, error}.
export async function act(path, body = {}) {
  try {
    const answer = await fetch(path, {
      method: "POST",
      headers: { ...bearer, "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const told = await answer.json().catch(() => ({}));
    return answer.ok
      ? told
      : { ok: false, error: told.error ?? `the peer answered ${answer.status}` };
  } catch {
    return { ok: false, error: "the peer does not answer" };
  }
}

export class Stream {
  // `tell(state, words)`: live, waiting, ended, refused or saved.
  constructor(tell) {
    this.tell = tell;
    this.wait_s = first_wait_s;
    this.tries = 0; // a newer one makes what an older one still does void
    this.is_over = false;
    if (!saved) setInterval(() => this.lookAfter(), 5000);
  }

  async begin() {
    if (saved) return this.showSaved();
    const mine = ++this.tries;
    this.close();
    try {
      await this.askAll();
      if (mine !== this.tries) return;
      this.listen();
    } catch (error) {
      if (mine !== this.tries) return;
      if (error instanceof Refused) this.tell("refused", error.message);
      else this.retry();
    }
  }

  // A page that was saved has all that there is, and nobody to ask.
  showSaved() {
    const { run, peers, series, rounds, flows, events, ...more } = JSON.parse(saved.textContent);
    sheets = more.sheets;
    from.store.stopped_at = run.now;
    from.takeEvents(events);
    from.takeRun({ ...run, may: [], replay: null });
    from.takePeers(peers);
    from.takeSeries(series);
    from.takeRounds(rounds);
    from.takeFlows(flows);
    this.tell("saved");
  }

  // Events first: what the others have beyond them is heard once more, and known.
  async askAll() {
    from.takeEvents(await ask("api/events?limit=1024"));
    const [run, peers, series, rounds, flows] = await Promise.all(
      ["run", "peers", "series", "rounds", "flows"].map((what) => ask(`api/${what}`)),
    );
    from.store.clock_ahead = run.now ? run.now - Date.now() / 1000 : 0;
    from.takeRun(run);
    from.takePeers(peers);
    from.takeSeries(series);
    from.takeRounds(rounds);
    from.takeFlows(flows);
  }

  listen() {
    const source = new EventSource(withToken(`api/stream?after=${from.store.last_event}`));
    this.source = source;
    const on = (kind, take) =>
      source.addEventListener(kind, (message) => {
        if (source !== this.source) return;
        this.heard();
        take(JSON.parse(message.data));
      });
    on("event", (event) => from.takeEvent(event));
    on("run", (run) => from.takeRun(run));
    on("peers", (peers) => from.takePeers(peers));
    on("flows", (flows) => from.takeFlows(flows));
    on("timeline", (timeline) => from.takeTimeline(timeline));
    on("gap", () => this.askAgain());
    on("reset", () => this.begin());
    on("over", (over) => this.end(over.reason));
    source.onopen = () => {
      this.wait_s = first_wait_s;
      this.is_over = false;
      this.heard();
    };
    source.onerror = () => {
      if (source === this.source) this.retry();
    };
  }

  heard() {
    this.heard_at = Date.now();
    this.tell("live");
  }

  // This viewer was too slow for some events: curves and rounds come whole.
  async askAgain() {
    try {
      from.takeSeries(await ask("api/series"));
      from.takeRounds(await ask("api/rounds"));
    } catch {
      this.retry();
    }
  }

  async lookAfter() {
    if (!this.source || Date.now() - this.heard_at < silence_s * 1000) return;
    const source = this.source;
    try {
      from.takeRun(await ask("api/run", AbortSignal.timeout(answer_s * 1000)));
      this.heard_at = Date.now();
    } catch {
      if (source === this.source) this.retry();
    }
  }

  // Says how long it waits; the next try asks for everything anew.
  retry() {
    this.close();
    const mine = ++this.tries;
    const wait_s = this.wait_s;
    this.wait_s = Math.min(longest_wait_s, wait_s * 2);
    if (!this.is_over) this.tell("waiting", `connection lost; the next try is in ${wait_s} s`);
    setTimeout(() => {
      if (mine === this.tries) this.begin();
    }, wait_s * 1000);
  }

  // A peer that ended in order may begin again at the same address.
  end(reason) {
    this.is_over = true;
    this.tell("ended", reason);
    this.wait_s = longest_wait_s;
    this.retry();
  }

  close() {
    this.source?.close();
    this.source = null;
  }
}
