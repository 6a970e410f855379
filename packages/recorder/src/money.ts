import { InvalidRecordError } from "./errors.js";

/** An amount of money: a number or decimal text in the currency, or a bigint in the smallest unit. */
export type Amount = number | string | bigint;

/** Decimals of the smallest unit in which the server keeps money (10^-9). */
export const DECIMALS = 9;

const SHAPE = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?$/;
const LARGEST = 2n ** 63n - 1n;

export interface ExactAmount {
  readonly units: bigint;
  /** Whether digits below the smallest unit were rounded away, half to even. */
  readonly rounded: boolean;
}

/**
 * Turn an amount into whole smallest units. A number is read by its shortest decimal text, the one that JavaScript
 * prints, so that 10123.45 is exactly 10123450000000 units.
 */
export function toUnits(amount: Amount, name = "amount", decimals = DECIMALS): ExactAmount {
  const exact = typeof amount === "bigint" ? { units: amount, rounded: false } : parse(String(amount), name, decimals);
  if (exact.units > LARGEST || exact.units < -LARGEST) {
    throw new InvalidRecordError(`expected ${name} of at most 64 bits in units of 10^-${decimals}, found ${amount}`);
  }
  return exact;
}

/** Give the decimal text of an amount in the currency, such as a price. */
export function toDecimalText(amount: number | string, name: string): string {
  const text = String(amount).trim();
  const [, , whole = "", fraction = ""] = SHAPE.exec(text) ?? [];
  if (whole + fraction === "") throw new InvalidRecordError(`expected ${name} as a finite decimal number, found ${text}`);
  return text;
}

function parse(given: string, name: string, decimals: number): ExactAmount {
  const text = given.trim();
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = SHAPE.exec(text) ?? [];
  if (whole + fraction === "") throw new InvalidRecordError(`expected ${name} as a finite decimal number, found ${text}`);
  const digits = BigInt(whole + fraction);
  const shift = decimals - fraction.length + Number(exponent);
  let units: bigint;
  let rounded = false;
  if (shift >= 0) {
    units = digits * 10n ** BigInt(shift);
  } else {
    const divisor = 10n ** BigInt(-shift);
    const rest = digits % divisor;
    units = digits / divisor;
    rounded = rest !== 0n;
    if (rest * 2n > divisor || (rest * 2n === divisor && units % 2n === 1n)) units += 1n;
  }
  return { units: sign === "-" ? -units : units, rounded };
}
