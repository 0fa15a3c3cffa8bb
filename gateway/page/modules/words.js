// Numbers, times and names as the page writes them: as collector/web/page/words.py does.

export const number = (value) => value.toLocaleString("en-US");
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;
export const upper = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
export const severity = (value) => (value === "record" ? "info" : value); // as pipeline/severities.py does
export const spaced = (text) => text.replaceAll("_", " ");

export function listed(parts) {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

// As collector/durations.py writes a span.
export function span(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0) return "0 s";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
}

export const between = (from, to) => span((Date.parse(to) - Date.parse(from)) / 1000);
export const moment = (iso) => `${iso.slice(0, 19).replace("T", " ")} UTC`;
export const clock = (iso) => `${iso.slice(11, 19)} UTC`;

// Natural order, so that node 10 comes after node 9.
export const { compare } = new Intl.Collator("en", { numeric: true });

const one = (digits, unit) => (value) => `${value.toFixed(digits)} ${unit}`;
export const FIGURES = {
  gpu_utilization_percent: ["Utilisation", one(0, "%")],
  power_watts: ["Power", one(0, "W")],
  temperature_celsius: ["Temperature", one(0, "°C")],
  thermal_margin_celsius: ["Margin to its limit", one(0, "°C")],
  memory_free_bytes: ["Memory free", (bytes) => `${(bytes / 2 ** 30).toFixed(1)} GiB`],
  nvlinks_up: ["NVLinks up", number],
  nvlinks_down: ["NVLinks down", number],
  rate_bits_per_second: ["Rate", (rate) => `${Math.round(rate / 1e9)} Gb/s`],
};
