import { InvalidRecordError } from "./errors.js";

const LENGTHS = [1, 2, 3, 4, 6, 8, 12, 24];

/** Give the id of the window that holds a time, such as 2025-01-15T10:00. Ids are in UTC; days are cut from midnight. */
export function getCurrentWindowId(now: Date = new Date(), windowHours = 1): string {
  if (!LENGTHS.includes(windowHours)) {
    throw new InvalidRecordError(`expected a window of ${LENGTHS.join(", ")} hours, found ${windowHours}`);
  }
  if (Number.isNaN(now.getTime())) throw new InvalidRecordError("expected a valid date, found Invalid Date");
  const start = new Date(now);
  start.setUTCHours(now.getUTCHours() - (now.getUTCHours() % windowHours), 0, 0, 0);
  return start.toISOString().slice(0, 16);
}

/** Give a window id without the zone, so that 2025-01-15T10:00Z and 2025-01-15T10:00 compare as equal. */
export function plainWindowId(windowId: string): string {
  return windowId.replace(/Z$/, "");
}
