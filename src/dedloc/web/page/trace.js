// Bounded memories of what came: a page that stays open for a week holds no more than one that was
// opened just now.

const points_max = 1024;

// A measure's points [time, step, value], thinned as the server thins its own: when it is full,
// every second one goes, and from then on only each `every`-th stays, and the newest one besides.
export class Trace {
  constructor(told = { points: [], seen: 0, kept_every: 1 }) {
    this.points = told.points.slice(-points_max);
    this.seen = Math.max(told.seen, this.points.length);
    this.every = Math.max(1, told.kept_every);
  }

  add(point) {
    if (this.points.length > 0 && (this.seen - 1) % this.every !== 0) this.points.pop();
    this.points.push(point);
    ++this.seen;
    if (this.points.length <= points_max) return;
    const newest = this.points.at(-1);
    this.points = this.points.filter((_, index) => index % 2 === 0);
    if (this.points.at(-1) !== newest) this.points.push(newest);
    this.every *= 2;
  }
}

// The newest ones of a list, oldest first.
export class Newest {
  constructor(max) {
    this.max = max;
    this.list = [];
  }

  add(item) {
    this.list.push(item);
    if (this.list.length > this.max * 1.25) this.list = this.list.slice(-this.max);
  }

  set(items) {
    this.list = items.slice(-this.max);
  }
}

// Which measures an event tells: their names, as /api/series has them, and values.
function measuresOf(event) {
  const fields = event.fields ?? {};
  const told = [];
  const names =
    event.kind === "step" ? of_steps : event.kind === "evaluation" ? of_evaluations : {};
  for (const [field, name] of Object.entries(names))
    if (Number.isFinite(fields[field])) told.push([name, fields[field]]);
  return told;
}

// Adds an event's measures to `series`, name → Trace; answers whether there were any.
export function addMeasures(series, event) {
  const told = measuresOf(event);
  for (const [name, value] of told) {
    if (!series.has(name)) series.set(name, new Trace());
    series.get(name).add([event.time, event.fields.step ?? event.step, value]);
  }
  return told.length > 0;
}

const of_steps = {
  loss: "loss",
  samples: "samples",
  seconds: "step_s",
  learning_rate: "learning_rate",
  gradient_norm: "gradient_norm",
  contributors: "contributors",
  members: "members",
  left_out: "left_out",
  tau: "tau",
};
const of_evaluations = { accuracy: "accuracy", loss: "evaluation_loss" };
