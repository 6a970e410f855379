// Exact money in the browser: whole units of 10^-9 in Numbers, which stay exact below 2^53.

export const UNIT = 1_000_000_000;
export const MAX_BET = 1_000_000 * UNIT;

/** Read a decimal text of at most nine places as units; null when it is none. */
export function toUnits(text) {
  const parts = /^\s*(\d{0,7})(?:[.,](\d{0,9}))?\s*$/.exec(String(text));
  if (!parts || (!parts[1] && !parts[2])) return null;
  return Number(parts[1] || 0) * UNIT + Number((parts[2] || "").padEnd(9, "0"));
}

/** Write units as the shortest decimal text, with at least so many places. */
export function showUnits(units, places = 3) {
  const sign = units < 0 ? "-" : "";
  const rest = String(Math.abs(units) % UNIT).padStart(9, "0").replace(/0+$/, "").padEnd(places, "0");
  return `${sign}${Math.floor(Math.abs(units) / UNIT)}${rest ? `.${rest}` : ""}`;
}

/** Give a JSON number of coins as units. */
export const fromCoins = (coins) => Math.round(coins * UNIT);

/** Give units as the JSON number that reads back as the same units. */
export const toCoins = (units) => Number(showUnits(units, 0));

/** Change the bet as a button does; amounts stay between 0 and MAX_BET. */
export function adjust(bet, button, balance) {
  const changed = {
    CLEAR: () => 0,
    INC_001: () => bet + UNIT / 1000,
    INC_01: () => bet + UNIT / 100,
    INC_10: () => bet + UNIT / 10,
    INC_1: () => bet + UNIT,
    HALF: () => Math.floor(bet / 2),
    DOUBLE: () => bet * 2,
    MAX: () => balance,
  }[button]();
  return Math.max(0, Math.min(changed, MAX_BET));
}
