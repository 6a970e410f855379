// Verify a finished round in the browser: the seed's hash, and every price from the seed.
// The price algorithm v1, v2, v3 with the generator of seedrandom (ARC4); see fair.py for the same in Python.

const RUG_CHANCE = 0.005;
const GOD_CHANCE = 0.00001;
const BIG_CHANCE = 0.125;
const RUG_FACTOR = 1 - 0.98;
const MAX_TICKS = 5000;

/** Give the function that draws the doubles of seedrandom for a text seed. */
export function seedRandom(seed) {
  const key = [];
  let smear = 0;
  for (let j = 0; j < seed.length; j++) {
    smear ^= (key[j & 255] || 0) * 19;
    key[j & 255] = (smear + seed.charCodeAt(j)) & 255;
  }
  if (!key.length) key.push(0);
  const s = Array.from({ length: 256 }, (_, i) => i);
  for (let i = 0, j = 0; i < 256; i++) {
    j = (j + key[i % key.length] + s[i]) & 255;
    [s[i], s[j]] = [s[j], s[i]];
  }
  let i = 0;
  let j = 0;
  const byte = () => {
    i = (i + 1) & 255;
    const t = s[i];
    j = (j + t) & 255;
    s[i] = s[j];
    s[j] = t;
    return s[(s[i] + t) & 255];
  };
  for (let k = 0; k < 256; k++) byte();
  return () => {
    let n = 0;
    for (let k = 0; k < 6; k++) n = n * 256 + byte();
    let d = 2 ** 48;
    let x = 0;
    while (n < 2 ** 52) {
      n = (n + x) * 256;
      d *= 256;
      x = byte();
    }
    while (n >= 2 ** 53) {
      n /= 2;
      d /= 2;
      x >>>= 1;
    }
    return (n + x) / d;
  };
}

function nextPrice(price, version, uniform) {
  if (version === "v3" && uniform() < GOD_CHANCE && price <= 100) return price * 10;
  let change;
  if (uniform() < BIG_CHANCE) {
    const size = 0.15 + uniform() * (0.25 - 0.15);
    change = uniform() > 0.5 ? size : -size;
  } else {
    const drift = -0.02 + uniform() * 0.05;
    const root = Math.sqrt(price);
    const volatility = 0.005 * (version === "v1" ? root : Math.min(10, root));
    change = drift + volatility * (2 * uniform() - 1);
  }
  return Math.max(0, price * (1 + change));
}

/** Replay a published round from its seed. */
export function playRound(serverSeed, gameId, version = "v3") {
  const uniform = seedRandom(`${serverSeed}-${gameId}`);
  const prices = [1];
  while (prices.length <= MAX_TICKS) {
    if (uniform() < RUG_CHANCE) return [...prices, RUG_FACTOR * Math.min(...prices)];
    prices.push(nextPrice(prices[prices.length - 1], version, uniform));
  }
  return prices;
}

const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

/** Give the sha256 of a text; by hand where the browser offers none (plain http from another machine). */
export async function sha256(text) {
  const bytes = new TextEncoder().encode(text);
  if (globalThis.crypto && crypto.subtle) return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
  return sha256ByHand(bytes);
}

export function sha256ByHand(bytes) {
  const primes = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
  const fraction = (x) => Math.floor((x - Math.floor(x)) * 2 ** 32) | 0;
  const h = primes.slice(0, 8).map((p) => fraction(Math.sqrt(p)));
  const k = primes.map((p) => fraction(Math.cbrt(p)));
  const data = new Uint8Array(((bytes.length + 8) >> 6 << 6) + 64);
  data.set(bytes);
  data[bytes.length] = 0x80;
  new DataView(data.buffer).setUint32(data.length - 4, bytes.length * 8);
  const turn = (x, n) => (x >>> n) | (x << (32 - n));
  for (let start = 0; start < data.length; start += 64) {
    const w = Array.from({ length: 16 }, (_, t) => new DataView(data.buffer).getInt32(start + 4 * t));
    for (let t = 16; t < 64; t++) {
      const a = turn(w[t - 15], 7) ^ turn(w[t - 15], 18) ^ (w[t - 15] >>> 3);
      const b = turn(w[t - 2], 17) ^ turn(w[t - 2], 19) ^ (w[t - 2] >>> 10);
      w[t] = (w[t - 16] + a + w[t - 7] + b) | 0;
    }
    const v = [...h];
    for (let t = 0; t < 64; t++) {
      const e = turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25);
      const one = (v[7] + e + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[t] + w[t]) | 0;
      const a = turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22);
      const two = (a + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]))) | 0;
      v.unshift((one + two) | 0);
      v.pop();
      v[4] = (v[4] + one) | 0;
    }
    for (let n = 0; n < 8; n++) h[n] = (h[n] + v[n]) | 0;
  }
  return h.map((n) => (n >>> 0).toString(16).padStart(8, "0")).join("");
}

/** Check a gameHistory entry; `promised` is the hash seen before the round, if it was seen. */
export async function verifyRound(past, promised) {
  const { serverSeed, serverSeedHash } = past.provablyFair;
  const hash = await sha256(serverSeed);
  const replayed = playRound(serverSeed, past.id, past.gameVersion);
  const equal = past.prices.filter((price, tick) => price === replayed[tick]).length;
  return {
    hash,
    hashMatches: hash === serverSeedHash && (promised === undefined || hash === promised),
    promised: promised !== undefined,
    equal,
    total: Math.max(past.prices.length, replayed.length),
  };
}
