// The price of a round, drawn by the shared chart module: the curve, own entries and exits, the sidebet's stretch, the
// rug. Between two ticks the head of the curve moves from one price to the next.

export const times = (price) => `${price >= 100 ? price.toFixed(1) : price.toFixed(price < 0.1 ? 3 : 2)}x`;

const WIDE_RANGE = 4; // prices that differ by more are drawn on a log axis
const HEAD_MS = 180;

export class PriceChart {
  constructor(node, { small = false } = {}) {
    this.node = node;
    this.small = small;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.view = { prices: [1], marks: [], rugged: false, entry: 0, bet: null, tickMs: 250, dim: false };
    this.since = 0;
    this.moving = false;
    this.chart = new playproof.Chart(node, this.describe());
  }

  /** Show a view: prices by tick, marks [{tick, price, side}], entry price, bet {start, end}, rugged, dim. */
  show(view) {
    if ((view.prices || []).length !== this.view.prices.length) this.since = performance.now();
    this.view = { ...this.view, ...view };
    if (this.moving) return;
    this.chart.update(this.describe());
    if (!this.small && !this.still.matches && !this.view.dim) this.move();
  }

  move() {
    this.moving = true;
    requestAnimationFrame(() => {
      this.chart.update(this.describe());
      if (performance.now() - this.since < this.view.tickMs) this.move();
      else this.moving = false;
    });
  }

  /** Give how far the last tick has been drawn, 0 to 1. */
  progress() {
    if (this.small || this.still.matches || this.view.rugged) return 1;
    return Math.min(1, (performance.now() - this.since) / Math.min(this.view.tickMs, HEAD_MS));
  }

  /** Describe what the chart module draws. */
  describe() {
    const { prices, rugged, dim, marks, entry, bet } = this.view;
    const last = prices.length - 1;
    const end = Math.max(0, rugged ? last - 1 : last);
    const shown = rugged && last ? prices.slice(0, -1) : [...prices];
    const [low, high] = [Math.min(...shown, 1) * 0.93, Math.max(...shown, 1) * 1.07];
    const ticks = shown.map((_, tick) => tick);
    const colour = prices[end] >= 1 ? "good" : "bad";
    if (end > 0) {
      const part = this.progress();
      ticks[end] = end - 1 + part;
      shown[end] = prices[end - 1] + (prices[end] - prices[end - 1]) * part;
    }
    const live = !this.small && !dim;
    const series = [{ name: "price", x: ticks, y: shown, colour, width: this.small ? 1.6 : 2.4, fill: true, head: live && !rugged ? times(shown[end]) : "" }];
    if (rugged && last) series.push({ name: "rug", x: [end, last], y: [prices[end], low], colour: "bad", width: this.small ? 1.6 : 2.6, silent: true, head: live ? times(prices[last]) : "" });
    for (const [side, symbol, ink] of [["buy", "up", "good"], ["sell", "down", "warn"]]) {
      const own = marks.filter((mark) => (mark.side === "buy") === (side === "buy"));
      if (own.length) series.push({ kind: "marker", name: side, x: own.map((mark) => mark.tick), y: own.map((mark) => mark.price), symbol, colour: ink, radius: 6 });
    }
    const levels = [{ value: 1, colour: "faint", dash: "dot" }];
    if (entry && !rugged) levels.push({ value: entry, name: "entry", colour: "warn", labelled: true });
    return {
      series, levels, dim, height: "fill", small: true, zoom: false, legend: false,
      label: "Price of the round by tick",
      hover: dim ? false : "x",
      spans: bet ? [{ from: bet.start, to: bet.end, colour: "blue" }] : rugged && live ? [{ from: 0, to: Infinity, colour: "bad" }] : [],
      gutter: this.small ? 46 : 62,
      x: { range: [0, Math.max(this.small ? last : 40, last * (this.small ? 1 : 1.06), 1)] },
      y: { kind: high / low > WIDE_RANGE ? "log" : "linear", range: [low, high], side: "right", unit: "x", top: this.small ? 12 : this.node.clientHeight < 260 ? 84 : 104 },
    };
  }
}
