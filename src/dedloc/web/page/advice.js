// Why a step takes as long as it does, and what would help: what `dedloc why` says.

import { by, make, sentence, setText, show } from "./dom.js";
import { duration, plural, wholePercent } from "./format.js";
import { listen, store } from "./store.js";

// An observer cannot tell what the rest of a step is.
const all_parts = ["computing", "waiting", "averaging", "applying", "rest"];

// `command` in a sentence is set as code.
function withCode(words) {
  const parts = words.split("`");
  return parts.flatMap((part, n) => (n % 2 === 1 ? make("code", {}, part) : sentence(part)));
}

const seenBy = (why) => (why.seen_by ? `, as ${why.seen_by} sees it` : "");
const share = (part, whole) => (whole > 0 ? part / whole : 0);

let drawn = "";

listen(["run"], () => {
  const { why } = store.run;
  show(by("no-advice"), !why);
  show(by("advice-bar"), Boolean(why));
  const key = JSON.stringify(why);
  if (!why || key === drawn) return;
  drawn = key;
  const parts = all_parts.filter((part) => Number.isFinite(why.step[`${part}_s`]));
  const seconds = parts.map((part) => why.step[`${part}_s`] ?? 0);
  const whole = seconds.reduce((sum, one) => sum + one, 0);
  setText(
    by("advice-words"),
    [`${duration(whole)} a step, mean of ${plural(why.steps, "step")}`, seenBy(why)].join(""),
  );
  const bar = make(
    "div",
    { class: "stacked", "aria-hidden": "true" },
    ...parts.map((part, n) => {
      const piece = make("i", { class: part === "rest" ? "other" : part });
      piece.style.flexGrow = share(seconds[n], whole);
      return piece;
    }),
  );
  const key_list = make(
    "ul",
    { class: "key" },
    ...parts.map((part, n) =>
      make(
        "li",
        {},
        make("i", { class: part === "rest" ? "other" : part }),
        `${part} ${duration(seconds[n])} (${wholePercent(share(seconds[n], whole))})`,
      ),
    ),
  );
  by("advice-bar").replaceChildren(bar, key_list);
  by("findings").replaceChildren(...why.findings.map((one) => make("li", {}, ...withCode(one))));
  show(by("helps-title"), why.advice.length > 0);
  by("helps").replaceChildren(...why.advice.map((one) => make("li", {}, ...withCode(one.text))));
});
