// The price of a round on a canvas: the curve, own entries and exits, the sidebet's stretch, the rug.
// One path of at most a few thousand points; drawn when something changed, and between ticks only while it moves.

const COLORS = {
  up: "#2ee6a6", down: "#ff5468", amber: "#ffb547", blue: "#6c9bff",
  grid: "rgba(141,152,174,.11)", label: "#5c667c", text: "#e9edf5", ground: "#10141d",
};
const NICE = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];

export const times = (price) => `${price >= 100 ? price.toFixed(1) : price.toFixed(price < 0.1 ? 3 : 2)}x`;

/** Choose the lines of the price axis: even steps over a narrow range, 1-2-5 over a wide one. */
export function priceLines(low, high) {
  if (high / low > 4) return NICE.filter((value) => value > low && value < high);
  const step = NICE.find((value) => (high - low) / value <= 6) || 1;
  const lines = [];
  for (let n = Math.ceil(low / step); n * step < high; n++) lines.push(n * step);
  return lines;
}

export class Chart {
  constructor(canvas, { small = false } = {}) {
    this.canvas = canvas;
    this.small = small;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.view = { prices: [1], marks: [], rugged: false, entry: 0, bet: null, tickMs: 250, dim: false };
    this.since = 0;
    this.moving = false;
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  /** Show a view: prices by tick, marks [{tick, price, side}], entry price, bet {start, end}, rugged, dim. */
  show(view) {
    if ((view.prices || []).length !== this.view.prices.length) this.since = performance.now();
    this.view = { ...this.view, ...view };
    if (this.small || this.still.matches || this.view.dim) this.draw();
    else if (!this.moving) this.move();
  }

  move() {
    this.moving = true;
    requestAnimationFrame(() => {
      this.draw();
      if (performance.now() - this.since < this.view.tickMs) this.move();
      else this.moving = false;
    });
  }

  /** Give how far the last tick has been drawn, 0 to 1. */
  progress() {
    if (this.small || this.still.matches || this.view.rugged) return 1;
    return Math.min(1, (performance.now() - this.since) / Math.min(this.view.tickMs, 180));
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) [this.canvas.width, this.canvas.height] = [w, h];
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    return { pen, width, height };
  }

  draw() {
    const { pen, width, height } = this.fit();
    if (!width || !height) return;
    const { prices, rugged, dim } = this.view;
    const last = prices.length - 1;
    const shown = rugged ? prices.slice(0, -1) : prices;
    const low = Math.min(...shown, 1) * 0.93;
    const high = Math.max(...shown, 1) * 1.07;
    const span = Math.max(this.small ? last : 40, last * (this.small ? 1 : 1.06), 1);
    const edge = this.small ? { left: 10, right: 46, top: 12, bottom: 20 } : { left: 14, right: 64, top: 104, bottom: 26 };
    if (!this.small && height < 260) edge.top = 84;
    const inner = { width: width - edge.left - edge.right, height: height - edge.top - edge.bottom };
    const log = high / low > 4;
    const share = (price) => (log
      ? Math.log(Math.max(price, low) / low) / Math.log(high / low)
      : (Math.max(price, low) - low) / (high - low));
    const at = {
      x: (tick) => edge.left + (tick / span) * inner.width,
      y: (price) => edge.top + (1 - share(price)) * inner.height,
      left: edge.left, right: edge.left + inner.width, top: edge.top, bottom: edge.top + inner.height,
    };
    pen.globalAlpha = dim ? 0.3 : 1;
    this.drawGrid(pen, at, low, high, span);
    this.drawBet(pen, at, span);
    this.drawCurve(pen, at);
    this.drawEntry(pen, at);
    for (const mark of this.view.marks) this.drawMark(pen, at, mark);
    pen.globalAlpha = 1;
  }

  drawGrid(pen, at, low, high, span) {
    pen.font = "11px Inter, system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillStyle = COLORS.label;
    pen.strokeStyle = COLORS.grid;
    pen.lineWidth = 1;
    for (const price of priceLines(low, high)) {
      const y = Math.round(at.y(price)) + 0.5;
      pen.beginPath();
      pen.moveTo(at.left, y);
      pen.lineTo(at.right, y);
      pen.stroke();
      pen.fillText(times(price), at.right + 8, y);
    }
    const step = NICE.find((value) => value >= 10 && span / value <= (at.right - at.left) / 90) || 1000;
    pen.textAlign = "center";
    for (let tick = step; tick < span; tick += step) pen.fillText(String(tick), at.x(tick), at.bottom + 13);
    pen.textAlign = "left";
    const base = Math.round(at.y(1)) + 0.5;
    pen.strokeStyle = "rgba(141,152,174,.34)";
    pen.setLineDash([2, 4]);
    pen.beginPath();
    pen.moveTo(at.left, base);
    pen.lineTo(at.right, base);
    pen.stroke();
    pen.setLineDash([]);
  }

  drawBet(pen, at, span) {
    const { bet } = this.view;
    if (!bet) return;
    const [from, to] = [at.x(bet.start), at.x(Math.min(bet.end, span))];
    pen.fillStyle = "rgba(108,155,255,.09)";
    pen.fillRect(from, at.top, to - from, at.bottom - at.top);
    pen.fillStyle = "rgba(108,155,255,.55)";
    pen.fillRect(from, at.bottom - 2, to - from, 2);
  }

  drawCurve(pen, at) {
    const { prices, rugged } = this.view;
    const last = prices.length - 1;
    const end = rugged ? last - 1 : last;
    const part = this.progress();
    const before = prices[Math.max(0, end - 1)];
    const head = { tick: end - (end > 0 ? 1 - part : 0), price: before + (prices[end] - before) * (end > 0 ? part : 1) };
    const color = prices[end] >= 1 ? COLORS.up : COLORS.down;
    pen.beginPath();
    pen.moveTo(at.x(0), at.y(prices[0]));
    for (let tick = 1; tick < end; tick++) pen.lineTo(at.x(tick), at.y(prices[tick]));
    pen.lineTo(at.x(head.tick), at.y(head.price));
    pen.strokeStyle = color;
    pen.lineWidth = this.small ? 1.6 : 2.4;
    pen.lineJoin = "round";
    pen.stroke();
    pen.lineTo(at.x(head.tick), at.bottom);
    pen.lineTo(at.x(0), at.bottom);
    pen.closePath();
    const shade = pen.createLinearGradient(0, at.top, 0, at.bottom);
    shade.addColorStop(0, color === COLORS.up ? "rgba(46,230,166,.24)" : "rgba(255,84,104,.2)");
    shade.addColorStop(1, "rgba(16,20,29,0)");
    pen.fillStyle = shade;
    pen.fill();
    if (rugged) this.drawRug(pen, at, last);
    else if (!this.small && !this.view.dim) this.drawHead(pen, at, head, color);
  }

  drawHead(pen, at, head, color) {
    const [x, y] = [at.x(head.tick), at.y(head.price)];
    pen.fillStyle = color;
    pen.globalAlpha *= 0.2;
    disc(pen, x, y, 11);
    pen.globalAlpha *= 5;
    disc(pen, x, y, 4.5);
    label(pen, at.right + 3, y, times(head.price), color, "#04110c");
  }

  drawRug(pen, at, last) {
    const { prices } = this.view;
    const [x, y] = [at.x(last), at.y(prices[Math.max(0, last - 1)])];
    pen.strokeStyle = COLORS.down;
    pen.lineWidth = this.small ? 1.6 : 2.6;
    pen.beginPath();
    pen.moveTo(at.x(Math.max(0, last - 1)), y);
    pen.lineTo(x, at.bottom);
    pen.stroke();
    if (this.small) return;
    const shade = pen.createLinearGradient(0, at.top, 0, at.bottom);
    shade.addColorStop(0, "rgba(255,84,104,0)");
    shade.addColorStop(1, "rgba(255,84,104,.16)");
    pen.fillStyle = shade;
    pen.fillRect(at.left, at.top, at.right - at.left, at.bottom - at.top);
    pen.fillStyle = COLORS.down;
    disc(pen, x, at.bottom, 4.5);
    label(pen, at.right + 3, at.bottom - 9, times(prices[last]), COLORS.down, "#1d0307");
  }

  drawEntry(pen, at) {
    if (!this.view.entry || this.view.rugged) return;
    const y = Math.round(at.y(this.view.entry)) + 0.5;
    pen.strokeStyle = "rgba(255,181,71,.7)";
    pen.setLineDash([5, 4]);
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(at.left, y);
    pen.lineTo(at.right, y);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = COLORS.amber;
    pen.font = "600 11px Inter, system-ui, sans-serif";
    pen.fillText("entry", at.left + 8, y - 9);
  }

  drawMark(pen, at, { tick, price, side }) {
    const [x, y] = [at.x(tick), at.y(price)];
    const way = side === "buy" ? 1 : -1;
    pen.fillStyle = side === "buy" ? COLORS.up : COLORS.amber;
    pen.strokeStyle = COLORS.ground;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(x, y + way * 5);
    pen.lineTo(x - 6.5, y + way * 16);
    pen.lineTo(x + 6.5, y + way * 16);
    pen.closePath();
    pen.stroke();
    pen.fill();
  }
}

function disc(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
}

function label(pen, x, y, text, color, ink) {
  pen.font = "700 12px Inter, system-ui, sans-serif";
  const width = Math.max(50, pen.measureText(text).width + 10);
  pen.fillStyle = color;
  pen.beginPath();
  pen.roundRect(x, y - 10, width, 20, 5);
  pen.fill();
  pen.fillStyle = ink;
  pen.fillText(text, x + 6, y + 0.5);
}
