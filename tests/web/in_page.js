// What the checks ask the page, by name (browser.py): what a person would read or do. An answer is
// plain data, or a promise of it.

const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
// A saved page has a map of its scripts.
const root = document.getElementById("saved") ? "dedloc" : "";
const store = async () => (await import(`${root}/store.js`)).store;

const inPage = {
  text: (selector) => one(selector)?.innerText ?? "",
  texts: (selector) => all(selector).map((node) => node.innerText),
  count: (selector) => all(selector).length,
  wait: async (ms) => (await wait(ms), true),
  shown: (selector) => one(selector).checkVisibility(),
  attribute: (selector, name) => one(selector).getAttribute(name),
  address: () => location.href,
  background: () => getComputedStyle(document.body).backgroundColor,
  widths: () => [document.documentElement.scrollWidth, innerWidth],
  scrollTo: (selector) => one(selector).scrollIntoView({ behavior: "instant" }),
  toTop: () => scrollTo({ top: 0, behavior: "instant" }),
  click: (selector) => one(selector).click(),
  focus: (selector) => one(selector).focus(),
  send: (field) => one(field).form.requestSubmit(),
  clear: (field) => ((one(field).value = ""), true),
  open: (details, is_open) => ((one(details).open = is_open), true),
  choose(selector, value) {
    one(selector).value = value;
    for (const kind of ["input", "change"])
      one(selector).dispatchEvent(new Event(kind, { bubbles: true }));
  },

  // ---- numbers ----------------------------------------------------------------------------------

  card: (id) => document.getElementById(`value-${id}`).dataset.value,
  // [step, loss] of one moment.
  newest: () => [inPage.card("step"), inPage.card("loss")],
  // {chart: [[step, measure, value]]}, from the tables under the charts.
  curves() {
    const tables = all(".chart").map((chart) => {
      chart.querySelector("figcaption button").click();
      const rows = all("tbody tr", chart).map(({ children: [step, name, value] }) => [
        Number(step.innerText),
        name.innerText,
        Number(value.dataset.value),
      ]);
      chart.querySelector("figcaption button").click();
      return [chart.id, rows];
    });
    return Object.fromEntries(tables);
  },
  cells: (rows) => all(rows).map((row) => [...row.children].map((cell) => cell.textContent)),
  durations: async (seconds) => seconds.map((await import("/format.js")).duration),
  contributions: async () => {
    const { ledger } = await store();
    return ledger && [ledger.samples, ledger.people.map((person) => person.samples)];
  },
  people: async () =>
    Object.fromEntries((await store()).ledger.people.map((one) => [one.name, one.samples])),
  // {name: [seconds, as the table of contributions words them]}.
  attended: async () => {
    const { ledger } = await store();
    const { duration } = await import(`${root}/format.js`);
    return Object.fromEntries(
      ledger.people.map(({ name, attended_s }) => [name, [attended_s, duration(attended_s)]]),
    );
  },
  // The words of a table's column, by the row's first cell.
  column(table, title) {
    return Object.fromEntries(
      all(`${table} tbody tr`).map((row) => [
        row.querySelector("bdi").textContent,
        row.querySelector(`[data-label="${title}"]`).textContent,
      ]),
    );
  },
  points: async (name) =>
    ((await store()).series.get(name)?.points ?? []).map(([, step, value]) => [step, value]),
  lanes: () =>
    all("#lanes svg[role=img]").map((svg) => [
      svg.getAttribute("aria-label"),
      svg.querySelectorAll(".span").length,
    ]),
  rowOf(name) {
    const row = all("#peers-table tbody tr").find(
      (each) => each.querySelector("bdi")?.textContent === name,
    );
    if (!row) return null;
    const evidence = row.querySelector("code")?.title ?? "";
    return { text: row.innerText, gone: row.classList.contains("gone"), evidence };
  },
  isolated: () =>
    all("#peers-table bdi").every((node) => getComputedStyle(node).unicodeBidi.includes("isolate")),

  // ---- keyboard and ears ------------------------------------------------------------------------

  beginTabbing() {
    window.reached = [];
    scrollTo(0, 0);
    document.activeElement.blur();
    document.body.tabIndex = -1;
    document.body.focus();
    document.body.removeAttribute("tabindex");
  },
  // Where the focus is; null: nowhere on the page.
  focused() {
    const node = document.activeElement;
    if (node === document.body) return null;
    window.reached.push(node);
    const box = node.getBoundingClientRect();
    const head = one(".head").getBoundingClientRect();
    const beneath = !node.closest(".head") && !node.classList.contains("skip");
    return {
      what: node.id || node.textContent.slice(0, 20) || node.tagName,
      outline: getComputedStyle(node).outlineStyle,
      seen: box.width > 0 && box.height > 0,
      hidden_by_head: beneath && box.bottom <= head.bottom,
    };
  },
  tabbedInOrder: () =>
    window.reached.every((node, n) => {
      const place = n === 0 ? 4 : window.reached[n - 1].compareDocumentPosition(node);
      return (place & Node.DOCUMENT_POSITION_FOLLOWING) !== 0;
    }),
  // Until so many events came: [changes of the live region, events, seconds].
  async chatter(events, seconds_max) {
    let changes = 0;
    const watch = new MutationObserver((list) => {
      changes += list.length;
    });
    const what = { childList: true, characterData: true, subtree: true };
    watch.observe(document.getElementById("said"), what);
    const kept = await store();
    const before = kept.last_event;
    const begun = Date.now();
    const seconds = () => (Date.now() - begun) / 1000;
    while (kept.last_event - before < events && seconds() < seconds_max) await wait(100);
    watch.disconnect();
    return [changes, kept.last_event - before, seconds()];
  },
  async axe(rules) {
    const told = await axe.run(document, { runOnly: { type: "tag", values: rules } });
    const wrong = told.violations.map(({ id, help, nodes }) => [
      id,
      help,
      ...nodes.slice(0, 3).map((node) => node.html.slice(0, 160)),
    ]);
    return { passes: told.passes.length, wrong };
  },

  // ---- memory -----------------------------------------------------------------------------------

  // Events as the stream brings them; answers the lengths of all lists, and the count of elements.
  async feed(from, count, seconds) {
    const { takeEvent, store: kept } = await import("/store.js");
    const told = (step, kind, fields, more = {}) =>
      takeEvent({
        number: kept.last_event + 1,
        time: 2e9 + step * seconds,
        kind,
        step,
        text: `${kind} ${step}`,
        fields,
        ...more,
      });
    const parts = { computing_s: 0.1, waiting_s: 0.1, averaging_s: 0.05, applying_s: 0.05 };
    const counts = { samples: 1024, members: 4, contributors: 4, left_out: 0, attempt: 0 };
    for (let step = from; step < from + count; ++step) {
      told(step, "plan", { last_peer: "12D3KooWx", last_s: 0.1 }, { routine: true });
      const fields = { step, seconds, loss: 1 / step, gradient_norm: 1, ...parts, ...counts };
      told(step, "step", fields, { routine: true });
      if (step % 10 === 0) told(step, "peer_lost", {}, { tone: "bad" });
    }
    await wait(1500);
    const longest = Math.max(...[...kept.series.values()].map((trace) => trace.points.length));
    const lists = [kept.rounds, kept.told, kept.routine].map(({ list }) => list.length);
    return { longest: Math.max(longest, ...lists), elements: all("*").length };
  },
};
