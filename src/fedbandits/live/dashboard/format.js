// Numbers and times as text.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const NOTHING = "–";

export const count = (value) => (value == null ? NOTHING : whole.format(value));

export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

export function probability(value) {
  if (value == null) return NOTHING;
  return value > 0 && value < 0.001 ? "<0.001" : value.toFixed(3);
}

export const TINY = 1e-9; // smaller values are rounding errors

export function measure(value) {
  if (value == null) return NOTHING;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < TINY) return `<${TINY}`;
  if (size >= 1e6 || size < 1e-3) return value.toExponential(1).replace("e+", "e");
  return size >= 1000 ? count(value) : String(Number(value.toPrecision(3)));
}

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

// Seconds in their largest units: "3 h 12 min".
export function duration(seconds, units = 2) {
  if (seconds == null) return NOTHING;
  let left = Math.max(0, Math.floor(seconds));
  const first = UNITS.findIndex(([, size]) => left >= size);
  if (first < 0) return "under 1\u00a0s";
  const parts = [];
  for (const [unit, size] of UNITS.slice(first, first + units)) {
    const times = Math.floor(left / size);
    left -= times * size;
    if (times) parts.push(`${times}\u00a0${unit}`);
  }
  return parts.join(" ");
}

const two = (value) => String(value).padStart(2, "0");

export function clock(seconds) {
  const date = new Date(seconds * 1000);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
}

export function day(seconds) {
  const date = new Date(seconds * 1000);
  return [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
}

// A past time: its hour and minute within a day, otherwise its date.
export function moment(seconds, now) {
  return now - seconds < 86400 ? clock(seconds).slice(0, 5) : day(seconds);
}

export function shorten(text, letters) {
  const all = [...text];
  return all.length > letters ? `${all.slice(0, letters - 1).join("")}…` : text;
}
