import { InvalidRecordError } from "./errors.js";

const DEEPEST = 100;

/**
 * Write a value as JSON text. Unlike JSON.stringify it writes a bigint with all its digits, and it refuses what
 * JSON.stringify would turn into null or leave out: NaN, infinities, functions, symbols.
 */
export function toJson(value: unknown, path: string, depth = 0): string {
  if (depth > DEEPEST) throw new InvalidRecordError(`expected at most ${DEEPEST} levels at ${path.slice(0, 80)}, found more`);
  if (value === null || value === undefined) return "null";
  switch (typeof value) {
    case "string":
    case "boolean":
      return JSON.stringify(value);
    case "bigint":
      return value.toString();
    case "number":
      if (!Number.isFinite(value)) throw new InvalidRecordError(`expected a finite number at ${path}, found ${value}`);
      return JSON.stringify(value);
    case "object":
      break;
    default:
      throw new InvalidRecordError(`expected a JSON value at ${path}, found a ${typeof value}`);
  }
  if (Array.isArray(value)) {
    return `[${value.map((item, index) => toJson(item, `${path}[${index}]`, depth + 1)).join(",")}]`;
  }
  if (value instanceof Map || value instanceof Set) {
    throw new InvalidRecordError(`expected a plain object or array at ${path}, found a ${value.constructor.name}`);
  }
  const own = value as { toJSON?: unknown };
  if (typeof own.toJSON === "function") return toJson(own.toJSON(), path, depth + 1);
  const members: string[] = [];
  for (const [name, item] of Object.entries(value)) {
    if (item !== undefined) members.push(`${JSON.stringify(name)}:${toJson(item, `${path}.${name}`, depth + 1)}`);
  }
  return `{${members.join(",")}}`;
}
