// LineChart: curves of measures as SVG, drawn to the pixel that there is. A pointer or the arrow
// keys read a point; a table has the same numbers. Smoothing is TensorBoard's: a mean whose older
// values fade, without the pull of a zero at its start.

import { make, makeSvg, setAttribute, setText } from "./dom.js";
import { duration, number, short } from "./format.js";

const height = 190;
const margin = { left: 50, right: 12, top: 10, bottom: 24 };
const table_rows_max = 200;
const dots_up_to = 40;
const least_range = 0.02; // of the y axis, of its values

export function smoothed(values, weight) {
  let last = 0;
  return values.map((value, index) => {
    last = last * weight + (1 - weight) * value;
    return last / (1 - weight ** (index + 1));
  });
}

// Round numbers between low and high, some `count` of them.
export function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * 0.999);
  const places = [];
  for (let n = Math.ceil(low / step); n * step <= high + step * 1e-9; ++n) {
    places.push(n * step);
    if (places.length > 2 * count + 2) break; // numbers too close to each other to count
  }
  return places;
}

function logTicks(low, high) {
  const places = [];
  const factors = Math.log10(high / low) < 2.5 ? [1, 2, 5] : [1];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power)
    for (const factor of factors) {
      const at = factor * 10 ** power;
      if (at >= low * 0.999 && at <= high * 1.001) places.push(at);
    }
  return places.length >= 2 ? places : ticks(low, high, 4);
}

const units = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

export class LineChart {
  constructor(id, title, words = number) {
    this.words = words;
    this.title = title;
    this.cursor = null; // x, in the axis' unit
    this.svg = makeSvg("svg", { "aria-hidden": "true", focusable: "false", height });
    this.plot = make(
      "div",
      {
        class: "plot",
        tabindex: 0,
        role: "slider",
        "aria-label": `${title}: points`,
        "aria-valuemin": 0,
        "aria-valuemax": 0,
        "aria-valuenow": 0,
        "aria-valuetext": "no points yet",
        onkeydown: (event) => this.key(event),
        onpointermove: (event) => this.point(event),
        onpointerleave: () => this.leave(),
        onblur: () => this.leave(),
      },
      this.svg,
    );
    this.readout = make("p", { class: "readout" });
    this.key_list = make("ul", { class: "key" });
    this.table = make("div", {
      class: "table scroll",
      id: `${id}-table`,
      hidden: true,
      tabindex: 0,
      role: "region",
      "aria-label": `${title}, as a table`,
    });
    this.button = make(
      "button",
      {
        type: "button",
        class: "plain",
        "aria-expanded": "false",
        "aria-controls": `${id}-table`,
        "aria-label": `${title} as a table`,
        onclick: () => this.toggleTable(),
      },
      "Table",
    );
    this.element = make(
      "figure",
      { class: "chart", id, "aria-labelledby": `${id}-title` },
      make("figcaption", {}, make("h3", { id: `${id}-title` }, title), this.button),
      this.key_list,
      this.plot,
      this.readout,
      this.table,
    );
    new ResizeObserver(() => this.last && this.draw(this.last)).observe(this.plot);
  }

  // what: {series: [{name, points: [[time, step, value]], colour, noisy}], axis: "step" | "time",
  // smoothing, log, goal}; only what is noisy is smoothed.
  draw(what) {
    this.last = what;
    this.width = Math.max(160, this.plot.clientWidth);
    this.curves = what.series
      .map((series) => this.curveOf(series, what))
      .filter((curve) => curve.x.length > 0);
    this.drawKey(what.series);
    const lines = this.curves.length > 0 ? this.lines(what) : [this.nothing()];
    setAttribute(this.svg, "viewBox", `0 0 ${this.width} ${height}`);
    this.svg.replaceChildren(...lines);
    this.drawCursor();
    if (!this.table.hidden) this.fillTable();
  }

  curveOf(series, { axis, smoothing, log }) {
    const curve = { name: series.name, colour: series.colour, x: [], raw: [], points: [] };
    const begun = series.points[0]?.[0] ?? 0;
    for (const point of series.points) {
      if (!Number.isFinite(point[2]) || (log && point[2] <= 0)) continue;
      curve.x.push(axis === "step" ? point[1] : point[0] - begun);
      curve.raw.push(point[2]);
      curve.points.push(point);
    }
    curve.is_smoothed = smoothing > 0 && series.noisy;
    curve.y = curve.is_smoothed ? smoothed(curve.raw, smoothing) : curve.raw;
    return curve;
  }

  nothing() {
    return makeSvg(
      "text",
      { x: this.width / 2, y: height / 2, "text-anchor": "middle" },
      "no points yet",
    );
  }

  scale({ log, goal }) {
    const all = (values) => this.curves.flatMap(values);
    const xs = all((curve) => [curve.x[0], curve.x.at(-1)]);
    const ys = all((curve) => [...extremes(curve.raw), ...extremes(curve.y)]);
    if (goal) ys.push(goal);
    let [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    if (x1 <= x0) [x0, x1] = [x0 - 1, x1 + 1];
    const fold = log ? Math.log10 : (value) => value;
    let [low, high] = [fold(y0), fold(y1)];
    // A measure that hardly changes is a straight line, not its last digits blown up.
    const least = Math.max(Math.abs(high), Math.abs(low)) * least_range || 1;
    const air = Math.max((high - low) * 0.05, (least - (high - low)) / 2);
    const floor = !log && y0 >= 0 && low - air < 0 ? 0 : low - air;
    [low, high] = [floor, high + air];
    const [wide, tall] = [
      this.width - margin.left - margin.right,
      height - margin.top - margin.bottom,
    ];
    this.x = (value) => margin.left + ((value - x0) / (x1 - x0)) * wide;
    this.y = (value) => margin.top + (1 - (fold(value) - low) / (high - low)) * tall;
    this.backX = (pixel) => x0 + ((pixel - margin.left) / wide) * (x1 - x0);
    const y_ticks = log ? logTicks(10 ** low, 10 ** high) : ticks(low, high, 4);
    return { x0, x1, y_ticks };
  }

  lines(what) {
    const { x0, x1, y_ticks } = this.scale(what);
    const [unit, unit_name] =
      what.axis === "step" ? [1, ""] : (units.find(([size]) => x1 >= size * 2) ?? [1, "s"]);
    const drawn = [];
    for (const at of y_ticks) {
      const y = this.y(at);
      drawn.push(
        this.across("grid", y),
        makeSvg("text", { x: margin.left - 7, y: y + 4, "text-anchor": "end" }, short(at)),
      );
    }
    for (const at of ticks(x0 / unit, x1 / unit, this.width / 90)) {
      if (what.axis === "step" && !Number.isInteger(at)) continue;
      drawn.push(
        makeSvg(
          "text",
          { x: this.x(at * unit), y: height - 6, "text-anchor": "middle" },
          `${short(at)}${unit_name && ` ${unit_name}`}`,
        ),
      );
    }
    if (what.goal) drawn.push(this.across("goal", this.y(what.goal)));
    for (const curve of this.curves) drawn.push(...this.curveLines(curve));
    this.cursor_line = makeSvg("line", {
      class: "cross",
      y1: margin.top,
      y2: height - margin.bottom,
      visibility: "hidden",
    });
    drawn.push(this.cursor_line);
    return drawn;
  }

  across(kind, y) {
    return makeSvg("line", {
      class: kind,
      x1: margin.left,
      x2: this.width - margin.right,
      y1: y,
      y2: y,
    });
  }

  curveLines(curve) {
    const path = (ys) =>
      ys.map((y, n) => `${this.x(curve.x[n]).toFixed(1)},${this.y(y).toFixed(1)}`).join(" ");
    const group = makeSvg("g", { class: `c${curve.colour}` });
    if (curve.is_smoothed)
      group.append(makeSvg("polyline", { class: "raw", points: path(curve.raw) }));
    group.append(makeSvg("polyline", { class: "curve", points: path(curve.y) }));
    if (curve.x.length <= dots_up_to)
      curve.x.forEach((x, n) =>
        group.append(
          makeSvg("circle", { class: "dot", cx: this.x(x), cy: this.y(curve.y[n]), r: 2.5 }),
        ),
      );
    return [group];
  }

  drawKey(series) {
    this.readout.classList.toggle("long", series.length > 1);
    this.key_list.hidden = series.length < 2;
    const names = JSON.stringify(series.map((one) => [one.name, one.colour]));
    if (names === this.key_names) return;
    this.key_names = names;
    this.key_list.replaceChildren(
      ...series.map((one) =>
        make("li", {}, make("i", { class: `c${one.colour}` }), make("bdi", {}, one.name)),
      ),
    );
  }

  // ---- reading a point --------------------------------------------------------------------------

  key(event) {
    const xs = this.curves?.[0]?.x ?? [];
    if (xs.length === 0) return;
    const here = this.cursor === null ? xs.length - 1 : nearest(xs, this.cursor);
    const many = Math.max(1, Math.round(xs.length / 10));
    const moves = {
      ArrowLeft: here - 1,
      ArrowDown: here - 1,
      ArrowRight: here + 1,
      ArrowUp: here + 1,
      PageDown: here - many,
      PageUp: here + many,
      Home: 0,
      End: xs.length - 1,
    };
    if (event.key === "Escape") return this.leave();
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.cursor = xs[Math.min(xs.length - 1, Math.max(0, moves[event.key]))];
    this.by_key = true;
    this.drawCursor();
  }

  point(event) {
    if (!this.curves?.length) return;
    this.cursor = this.backX(event.clientX - this.plot.getBoundingClientRect().left);
    this.by_key = false;
    this.drawCursor();
  }

  leave() {
    this.cursor = null;
    this.by_key = false;
    if (this.last) this.drawCursor();
  }

  drawCursor() {
    const curves = this.curves ?? [];
    if (curves.length === 0) return setText(this.readout, "");
    const xs = curves[0].x;
    const at = this.cursor === null ? xs.length - 1 : nearest(xs, this.cursor);
    const where = this.cursor === null ? xs.at(-1) : xs[at];
    setAttribute(this.cursor_line, "visibility", this.cursor === null ? "hidden" : "visible");
    for (const end of ["x1", "x2"]) setAttribute(this.cursor_line, end, this.x(where));
    const words = this.wordsAt(where);
    setText(this.readout, words);
    // While a reader stands on it, new points do not speak.
    if (document.activeElement === this.plot && !this.by_key) return;
    setAttribute(this.plot, "aria-valuemax", xs.length - 1);
    setAttribute(this.plot, "aria-valuenow", at);
    setAttribute(this.plot, "aria-valuetext", words);
  }

  wordsAt(where) {
    const place = this.last.axis === "step" ? `step ${number(where)}` : `after ${duration(where)}`;
    const told = this.curves.map((curve) => {
      const n = this.cursor === null ? curve.x.length - 1 : nearest(curve.x, where);
      const far =
        this.last.axis === "step" && curve.x[n] !== where ? ` (step ${number(curve.x[n])})` : "";
      const mean = curve.is_smoothed ? `, smoothed ${this.words(curve.y[n])}` : "";
      return `${curve.name} ${this.words(curve.raw[n])}${mean}${far}`;
    });
    return `${place}: ${told.join(" · ")}`;
  }

  // ---- the table --------------------------------------------------------------------------------

  toggleTable() {
    this.table.hidden = !this.table.hidden;
    this.button.setAttribute("aria-expanded", String(!this.table.hidden));
    if (!this.table.hidden) this.fillTable();
  }

  // Values as the event log has them, newest first.
  fillTable() {
    const rows = [];
    for (const curve of this.curves)
      for (const [time, step, value] of curve.points) rows.push([curve.name, time, step, value]);
    rows.sort((a, b) => b[1] - a[1]);
    const cells = (row) => [
      make("td", { class: "num" }, String(row[2])),
      make("td", {}, make("bdi", {}, row[0])),
      make("td", { class: "num", "data-value": row[3] }, String(row[3])),
    ];
    const head = make(
      "tr",
      {},
      make("th", { scope: "col", class: "num" }, "Step"),
      make("th", { scope: "col" }, "Measure"),
      make("th", { scope: "col", class: "num" }, "Value"),
    );
    const caption =
      rows.length > table_rows_max
        ? `The newest ${table_rows_max} of ${number(rows.length)} points.`
        : "All points.";
    this.table.replaceChildren(
      make(
        "table",
        {},
        make("caption", {}, caption),
        make("thead", {}, head),
        make(
          "tbody",
          {},
          ...rows.slice(0, table_rows_max).map((row) => make("tr", {}, ...cells(row))),
        ),
      ),
    );
  }
}

function extremes(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

// The place of what is nearest to x; xs grow.
export function nearest(xs, x) {
  let [low, high] = [0, xs.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
}
