// Numbers and names as people read them. Names come from model files, so any text can be in them.

const BYTE_UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// "4.21 MiB"; whole bytes below 1,024.
export function formatBytes(bytes: number): string {
  let unit = 0;
  let value = Math.abs(bytes);
  while (value >= 1023.995 && unit + 1 < BYTE_UNITS.length) {
    value /= 1024;
    ++unit;
  }
  const sign = bytes < 0 ? "\u2212" : "";
  if (unit === 0)
    return `${sign}${groupDigits(value)} ${value === 1 ? "byte" : "bytes"}`;
  return `${sign}${value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0)} ${BYTE_UNITS[unit]}`;
}

/// "1.25 GiB", "96 MiB": exact, in the largest unit that takes at most three decimals. Marks of an axis are
/// multiples of a power of two.
export function formatTick(bytes: number): string {
  let unit = BYTE_UNITS.length - 1;
  while (unit > 0 && (bytes < 1024 ** unit || bytes * 8 % 1024 ** unit !== 0))
    --unit;
  const [whole, decimals] = String(bytes / 1024 ** unit).split(".");
  return `${groupDigits(Number(whole))}${decimals ? `.${decimals}` : ""} ${unit === 0 && bytes === 1 ? "byte" : BYTE_UNITS[unit]}`;
}

/// As formatBytes, with a plus sign where it grows.
export function formatChange(bytes: number): string {
  return bytes > 0 ? "+" + formatBytes(bytes) : formatBytes(bytes);
}

/// "1,234,567".
export function groupDigits(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",").replace("-", "\u2212");
}

/// "4,409,796 bytes (4.21 MiB)".
export function formatBytesExact(bytes: number): string {
  const exact = `${groupDigits(bytes)} ${bytes === 1 ? "byte" : "bytes"}`;
  return bytes < 1024 ? exact : `${exact} (${formatBytes(bytes)})`;
}

/// "5.60 ms"; three significant digits.
export function formatSeconds(seconds: number): string {
  const units: [number, string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "\u00b5s"], [1e-9, "ns"]];
  if (seconds === 0)
    return "0 s";
  for (const [size, name] of units)
    if (seconds >= 0.9995 * size) // what rounds to 1,000 of the next is 1 of this
      return `${(seconds / size).toPrecision(3).replace(/e\+?(\d+)$/, "e$1")} ${name}`;
  return `${(seconds / 1e-9).toPrecision(2)} ns`;
}

/// "9.7 %".
export function formatPercent(fraction: number): string {
  const percent = 100 * fraction;
  return `${percent !== 0 && Math.abs(percent) < 0.1 ? percent.toPrecision(1) : percent.toFixed(1)} %`.replace("-", "\u2212");
}

// What a line of text cannot show, or what would reorder the text around it: controls, separators,
// zero-width characters, direction marks, lone halves of surrogate pairs.
const INVISIBLE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/// The text with everything invisible spelled out: "a\u{202e}b".
export function visible(text: string): string {
  return text.replace(INVISIBLE, (c) => `\\u{${c.charCodeAt(0).toString(16)}}`);
}

/// The visible text as a beginning, which a narrow column may cut off, and the end, which it may not:
/// names of one module differ there.
export function splitName(text: string, limit: number, tail: number): [string, string] {
  const characters = [...shorten(text, limit)];
  const at = Math.max(characters.length - tail, 0);
  return [characters.slice(0, at).join(""), characters.slice(at).join("")];
}

/// At most `limit` characters of the visible text: the ends, which say most, with an ellipsis between.
export function shorten(text: string, limit: number): string {
  if (text.length <= limit)
    return visible(text);
  const tail = Math.floor((limit - 1) / 2);
  const head = limit - 1 - tail;
  return visible(text.slice(0, head)) + "\u2026" + visible(text.slice(text.length - tail));
}

function isWithin(name: string, module: string): boolean {
  return name.startsWith(module) && (name.length === module.length || name[module.length] === ".");
}

/// A name by its module: "lm_head linear" for the node `node_linear_112` of lm_head, "conv1.weight map" for `map of conv1.weight`.
/// Exporters number nodes through the whole model, which tells nobody where they are. Without a module the name stays.
export function nameByModule(name: string, module: string): string {
  if (!module || isWithin(name, module))
    return name;
  const of = name.indexOf(" of ");
  if (of < 0)
    return `${module} ${name.startsWith("/") ? name.slice(name.lastIndexOf("/") + 1) : name.replace(/^node_(.+?)(?:_\d+)?$/s, "$1")}`;
  const source = name.slice(of + 4), more = / and \d+ more$/.exec(source)?.[0] ?? "";
  return `${isWithin(source, module) ? source.slice(0, source.length - more.length) : module} ${name.slice(0, of)}${more}`;
}
