// The page: its head, its list of parts, and the stream that feeds the rest.
//
//   stream.js   asks and listens          store.js   what is known, bounded (trace.js)
//   overview.js measures.js (chart.js) rounds.js peers.js traffic.js experts.js advice.js
//   happened.js control.js replay.js      a part of the page each; they draw from the store
//   shared/     what the page of `dedloc serve-api` has as well
//
// Nothing is loaded from elsewhere, and nothing that a peer says is read as HTML.

import "./overview.js";
import "./measures.js";
import "./rounds.js";
import "./peers.js";
import "./traffic.js";
import "./experts.js";
import "./advice.js";
import "./control.js";
import "./happened.js";
import "./replay.js";
import "./theme.js";
import { by, make, setText, show } from "./dom.js";
import { number } from "./format.js";
import { listen, store } from "./store.js";
import { Stream } from "./stream.js";

// ---- parts --------------------------------------------------------------------------------------

const short = { "advice-title": "Why", "events-title": "Events" };
const parts = [...document.querySelectorAll("main > section")].map((section) => {
  const title = section.querySelector("h2");
  const link = make("a", { href: `#${section.id}` }, short[title.id] ?? title.textContent);
  return { section, link, item: make("li", {}, link) };
});
by("parts").append(...parts.map((part) => part.item));

const showParts = () => parts.forEach(({ section, item }) => show(item, !section.hidden));
for (const { section } of parts)
  new MutationObserver(showParts).observe(section, {
    attributes: true,
    attributeFilter: ["hidden"],
  });
showParts();

// The part at the top of the window is the current one.
const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      const part = parts.find((one) => one.section === entry.target);
      part.is_seen = entry.isIntersecting;
    }
    const current = parts.find((part) => part.is_seen);
    for (const part of parts) part.link.toggleAttribute("aria-current", part === current);
  },
  { rootMargin: "-110px 0px -55% 0px" },
);
for (const { section } of parts) seen.observe(section);

// ---- the head -----------------------------------------------------------------------------------

listen(["run"], () => {
  const { run, progress } = store.run;
  setText(by("run-name"), run.name || "dedloc");
  setText(by("run-hash"), run.hash.slice(0, 8));
  document.title = `Step ${number(progress.step)} · ${run.name || run.hash.slice(0, 8)} · dedloc`;
});

const words = {
  live: "live",
  waiting: "connecting",
  ended: "ended",
  refused: "refused",
  saved: "saved",
};
let state = "";

// `more` is said once where the state changes, and stands on the page while it lasts.
function tell(now, more = "") {
  const is_replay = Boolean(store.run?.replay);
  setText(by("live"), now === "live" && is_replay ? "replay" : words[now]);
  const notices = {
    live: "",
    saved: "",
    waiting: store.run
      ? `The page hears nothing: ${more}. Numbers are from before.`
      : `The peer does not answer: ${more}.`,
    ended: `The peer has ended${more && `: ${more}`}. When it is there again, so is the page.`,
    refused: `${more}. Open the address that the peer printed, with its token.`,
  };
  setText(by("notice"), notices[now]);
  show(by("notice"), notices[now] !== "");
  if (now === state) return;
  if (state !== "" && now !== "refused" && now !== "saved")
    setText(by("said"), now === "live" ? "Live again." : notices[now]);
  state = now;
  by("live").dataset.state = now;
}

new Stream(tell).begin();
