// Numbers, times and sizes in words; a unit stays with its number. Pure.

// 12345 → "12,345"; 0.043219 → "0.04322"; four digits that count, whole numbers as they are.
export function number(value) {
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(3);
  return value.toLocaleString("en", { maximumSignificantDigits: Math.max(4, digits(size)) });
}

const digits = (size) => (size >= 1 ? Math.floor(Math.log10(size)) + 1 : 1);

// 12345 → "12.3k", for axes and narrow cells.
export function short(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && size < 1e-3) return value.toExponential(0);
  const [unit, prefix] = scaleOf(size);
  return `${trimmed(value / unit)}${prefix}`;
}

const trimmed = (value) => String(Number(value.toPrecision(3)));

// [unit, prefix]: the largest that is no larger than `size`.
const scales = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];
const scaleOf = (size) => scales.find(([unit]) => size >= unit) ?? [1, ""];

export function percent(fraction) {
  if (!Number.isFinite(fraction)) return "–";
  return `${trimmed(fraction * 100)}\u00a0%`;
}

export const wholePercent = (fraction) => percent(Math.round(fraction * 100) / 100);

// 3.2 → "3.2 s"; 4000 → "1 h 7 min".
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 1e-3) return "0\u00a0s";
  if (seconds < 1) return `${Math.round(seconds * 1000)}\u00a0ms`;
  if (seconds < 60) return `${trimmed(seconds)}\u00a0s`;
  const whole = Math.round(seconds);
  const [days, hours] = [Math.floor(whole / 86400), Math.floor((whole % 86400) / 3600)];
  const minutes = Math.floor((whole % 3600) / 60);
  if (days > 0) return `${days}\u00a0d ${hours}\u00a0h`;
  if (hours > 0) return `${hours}\u00a0h ${minutes}\u00a0min`;
  return `${minutes}\u00a0min ${whole % 60}\u00a0s`;
}

// Bytes a second as lines are sold: "12.3 Mb/s".
export function rate(bytesPerSecond) {
  if (!bytesPerSecond || !Number.isFinite(bytesPerSecond)) return "–";
  const bits = bytesPerSecond * 8;
  const [unit, prefix] = scaleOf(Math.min(bits, 1e9)); // no line is sold by the Tb/s
  return `${trimmed(bits / unit)}\u00a0${prefix}b/s`;
}

export function bytes(count) {
  if (!Number.isFinite(count)) return "–";
  if (count < 1e3) return `${count}\u00a0bytes`;
  const [unit, prefix] = scaleOf(count);
  return `${trimmed(count / unit)}\u00a0${prefix}B`;
}

const clock = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const day = new Intl.DateTimeFormat("en-GB", {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});

// Seconds since 1970 → "14:03:22", on this computer's clock.
export const atClock = (seconds) => (seconds ? clock.format(seconds * 1000) : "–");
export const atDay = (seconds) => (seconds ? day.format(seconds * 1000) : "–");

export const plural = (count, one, many = `${one}s`) =>
  `${number(count)} ${count === 1 ? one : many}`;
