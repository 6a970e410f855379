// One chart on a canvas, without dependencies: lines, steps, areas, bands, bars, markers with intervals, levels, spans.
//
// A page describes each chart in a JSON block inside a figure with data-chart; a live page calls
// new playproof.Chart(node, description) and then update(), append() or moveCursor().
// A line is drawn through the first, lowest, highest and last point of every pixel column: 100,000 points cost one pass
// over typed arrays. Crosshair and tooltip are elements above the canvas, so hovering draws nothing.

(() => {
  "use strict";

  const PALETTE = ["blue", "good", "warn", "violet", "teal", "bad", "pink", "olive"];
  const DASHES = { dash: [7, 5], dot: [2, 4] };
  const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
  const TIME_STEPS = [1, 2, 5, 10, 15, 30].map((n) => n * SECOND).concat(
    [1, 2, 5, 10, 15, 30].map((n) => n * MINUTE), [1, 2, 3, 6, 12].map((n) => n * HOUR),
    [1, 2, 7, 14, 30, 91, 182, 365, 730, 1826].map((n) => n * DAY));
  const INSET = 7; // pixels between the frame and the outermost points
  const NEAR = 24; // pixels within which a point answers to the pointer
  const FONT = "11.5px system-ui, sans-serif";

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const isNumber = (value) => typeof value === "number" && !Number.isNaN(value);

  function element(tag, className = "", text = "") {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text) node.textContent = text;
    return node;
  }

  // Numbers as text

  /** Write a number with so many significant digits, without trailing zeros; very large and small ones with a power. */
  function brief(value, digits = 4) {
    if (!isNumber(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e9 || size < 1e-6) return value.toExponential(2).replace("e+", "e");
    const text = value.toFixed(clamp(digits - 1 - Math.floor(Math.log10(size)), 0, 10));
    const [whole, rest = ""] = (text.includes(".") ? text.replace(/\.?0+$/, "") : text).split(".");
    const grouped = size >= 10000 ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole;
    return rest ? `${grouped}.${rest}` : grouped;
  }

  function timeText(value, step) {
    const iso = new Date(value).toISOString();
    if (step >= DAY) return iso.slice(0, 10);
    return step >= MINUTE ? `${iso.slice(5, 10)} ${iso.slice(11, 16)}` : iso.slice(11, 19);
  }

  /** Write a value as its axis does; `digits` are significant ones. */
  function valueText(axis, value, digits = 4) {
    if (!isNumber(value)) return "unknown";
    if (axis.kind === "category") return axis.categories[Math.round(value)] ?? "";
    if (axis.kind === "time") return `${new Date(value).toISOString().slice(0, 19).replace("T", " ")} UTC`;
    if (axis.percent) return `${brief(100 * value, digits)} %`;
    return `${brief(value, digits)}${axis.unit ?? ""}`;
  }

  // Scales: from values to pixels

  class Scale {
    constructor(axis, [low, high], [from, to]) {
      this.axis = axis;
      this.log = axis.kind === "log";
      this.low = low;
      this.high = high;
      this.start = this.log ? Math.log10(low) : low;
      const width = (this.log ? Math.log10(high) : high) - this.start;
      this.from = from;
      this.factor = (to - from) / (width || 1);
    }

    at(value) {
      return this.from + ((this.log ? Math.log10(value) : value) - this.start) * this.factor;
    }

    value(pixel) {
      const share = this.start + (pixel - this.from) / this.factor;
      return this.log ? 10 ** share : share;
    }

    ticks(count) {
      const { axis, low, high } = this;
      if (axis.kind === "category") return axis.categories.map((name, index) => [index, name]);
      if (this.log && high / low > 3) return this.logTicks(count);
      if (axis.kind === "time") {
        const step = TIME_STEPS.find((item) => (high - low) / item <= count) ?? TIME_STEPS.at(-1);
        return multiples(low, high, step).map((value) => [value, timeText(value, step)]);
      }
      const step = niceStep((high - low) / count);
      const size = Math.max(Math.abs(low), Math.abs(high), step) * (axis.percent ? 100 : 1);
      const digits = 1 + Math.max(0, Math.floor(Math.log10(size)) - Math.floor(Math.log10(step * (axis.percent ? 100 : 1))));
      return multiples(low, high, step).map((value) => [value, valueText(axis, value, digits + 1)]);
    }

    logTicks(count) {
      const decades = Math.log10(this.high / this.low);
      const leads = decades > count ? [1] : decades > 2 ? [1, 3] : [1, 2, 5];
      const skip = Math.max(1, Math.ceil(decades / count));
      const values = [];
      for (let power = Math.floor(Math.log10(this.low)); power <= Math.ceil(Math.log10(this.high)); power++)
        for (const lead of leads) {
          const value = Number(`${lead}e${power}`);
          if (power % skip === 0 && value >= this.low * 0.999 && value <= this.high * 1.001) values.push(value);
        }
      return values.map((value) => [value, valueText(this.axis, value, 2)]);
    }
  }

  function niceStep(rough) {
    if (!(rough > 0)) return 1;
    const unit = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((lead) => lead * unit).find((step) => step >= rough * 0.999) ?? 10 * unit;
  }

  function multiples(low, high, step) {
    const values = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) values.push(Number((n * step).toPrecision(12)) + 0);
    return values;
  }

  // Series: typed columns that can grow

  class Column {
    constructor(values) {
      this.length = values.length;
      this.data = Float64Array.from(values, (value) => (value === null || value === undefined ? NaN : value));
    }

    push(values) {
      if (this.length + values.length > this.data.length) {
        const grown = new Float64Array(Math.max(64, 2 * (this.length + values.length)));
        grown.set(this.data.subarray(0, this.length));
        this.data = grown;
      }
      for (const value of values) this.data[this.length++] = value === null || value === undefined ? NaN : value;
    }

    get values() {
      return this.data.subarray(0, this.length);
    }
  }

  class Series {
    constructor(described, index) {
      Object.assign(this, { width: 2, colour: PALETTE[index % PALETTE.length], kind: "line" }, described);
      this.columns = {};
      for (const name of ["x", "y", "low", "high"]) if (described[name]) this.columns[name] = new Column(described[name]);
      this.sorted = true;
      this.refresh(1);
    }

    append(rows) {
      for (const [name, values] of Object.entries(rows)) this.columns[name].push(values);
      this.refresh(Math.max(1, this.size));
    }

    /** Take the columns as they are now; points from `start` on are new. */
    refresh(start) {
      const { x, y, low, high } = this.columns;
      this.x = x.values;
      this.y = y?.values;
      this.low = low?.values;
      this.high = high?.values;
      this.size = this.x.length;
      for (let i = start; i < this.size && this.sorted; i++) this.sorted = !(this.x[i] < this.x[i - 1]);
    }

    /** Give the first and the last index that a range of x shows, with a neighbour on each side. */
    window(low, high) {
      if (!this.sorted) return [0, this.size - 1];
      return [Math.max(0, firstFrom(this.x, low) - 1), Math.min(this.size - 1, firstFrom(this.x, high))];
    }
  }

  /** Give the first index whose value is not below `value`. */
  function firstFrom(values, value) {
    let [low, high] = [0, values.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Thin points to what pixel columns can show: the first, lowest, highest and last of each; gaps stay gaps. */
  function thin(xs, ys, first, last, scaleX, scaleY, width) {
    const points = [];
    if (last - first < 4 * width) {
      for (let i = first; i <= last; i++) points.push(scaleX.at(xs[i]), scaleY.at(ys[i]));
      return points;
    }
    let column = null, start = 0, low = 0, high = 0, end = 0;
    const close = () => {
      if (column === null) return;
      points.push(column, start);
      if (low !== start || high !== start) points.push(column, low, column, high, column, end);
      column = null;
    };
    for (let i = first; i <= last; i++) {
      const y = scaleY.at(ys[i]);
      if (!Number.isFinite(y)) {
        close();
        points.push(NaN, NaN);
        continue;
      }
      const at = Math.round(scaleX.at(xs[i]));
      if (at !== column) {
        close();
        column = at;
        start = low = high = y;
      } else if (y < low) low = y;
      else if (y > high) high = y;
      end = y;
    }
    close();
    return points;
  }

  function trace(pen, points, step) {
    let drawing = false, before = 0;
    for (let i = 0; i < points.length; i += 2) {
      const [x, y] = [points[i], points[i + 1]];
      if (!Number.isFinite(y)) {
        drawing = false;
        continue;
      }
      if (!drawing) pen.moveTo(x, y);
      else {
        if (step) pen.lineTo(x, before);
        pen.lineTo(x, y);
      }
      drawing = true;
      before = y;
    }
  }

  const SYMBOLS = {
    circle: (pen, x, y, r) => pen.arc(x, y, r, 0, 2 * Math.PI),
    up: (pen, x, y, r) => polygon(pen, [[x, y + 0.2 * r], [x - r, y + 2 * r], [x + r, y + 2 * r]]),
    down: (pen, x, y, r) => polygon(pen, [[x, y - 0.2 * r], [x - r, y - 2 * r], [x + r, y - 2 * r]]),
    star: (pen, x, y, r) => polygon(pen, Array.from({ length: 10 }, (_, i) => {
      const [angle, reach] = [(i * Math.PI) / 5 - Math.PI / 2, i % 2 ? 0.55 * r : 1.35 * r];
      return [x + reach * Math.cos(angle), y + reach * Math.sin(angle)];
    })),
  };
  const STROKES = {
    cross: (pen, x, y, r) => [[-1, -1, 1, 1], [-1, 1, 1, -1]].forEach(([a, b, c, d]) => { pen.moveTo(x + a * r, y + b * r); pen.lineTo(x + c * r, y + d * r); }),
    dash: (pen, x, y, r, upright) => { pen.moveTo(x - (upright ? 0 : 2 * r), y - (upright ? 1.6 * r : 0)); pen.lineTo(x + (upright ? 0 : 2 * r), y + (upright ? 1.6 * r : 0)); },
  };

  function polygon(pen, corners) {
    corners.forEach(([x, y], index) => (index ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.closePath();
  }

  class Chart {
    /** Draw a described chart into a node; `described` has series, and may have x, y, right, height, levels, spans. */
    constructor(node, described) {
      this.node = node;
      this.hidden = new Set();
      this.zoomed = null;
      this.scheduled = 0;
      this.pointers = new Map();
      this.box = element("div", "chart-box");
      this.canvas = element("canvas");
      this.canvas.setAttribute("role", "img");
      this.cursor = element("i", "chart-cursor");
      this.rule = element("i", "chart-rule");
      this.brush = element("i", "chart-brush");
      this.tip = element("div", "chart-tip");
      this.tip.setAttribute("role", "status");
      this.back = element("button", "chart-back", "whole range");
      this.back.type = "button";
      for (const part of [this.cursor, this.rule, this.brush, this.tip, this.back]) part.hidden = true;
      this.box.append(this.canvas, this.rule, this.cursor, this.brush, this.tip, this.back);
      this.legend = element("div", "chart-legend");
      node.classList.add("chart");
      const numbers = node.querySelector("details");
      if (numbers) numbers.before(this.box, this.legend);
      else node.append(this.box, this.legend);
      this.update(described);
      this.listen();
      this.watch = new ResizeObserver(() => this.schedule());
      this.watch.observe(this.box);
      charts.add(this);
    }

    /** Show another description; what was hidden or zoomed stays so where it still exists. */
    update(described) {
      this.described = described;
      this.axes = { x: { kind: "linear", ...described.x }, y: { kind: "linear", ...described.y }, right: { kind: "linear", ...described.right } };
      this.series = described.series.map((item, index) => new Series(item, index));
      this.stack();
      const { height = 320, label = described.title ?? "chart", hover = "x", zoom = true, keys = true } = described;
      this.hover = hover;
      this.zooms = zoom;
      if (height !== "fill") this.box.style.height = `${height}px`;
      this.canvas.setAttribute("aria-label", label);
      if (hover && keys) this.box.tabIndex = 0; // a page with keys of its own keeps them
      this.box.setAttribute("role", "group");
      this.box.setAttribute("aria-label", zoom ? `${label}: arrow keys read points, plus and minus zoom, 0 shows all` : label);
      this.showLegend();
      this.schedule();
    }

    /** Add points to a series: append(0, { x: [7], y: [1.5] }). */
    append(index, rows) {
      this.series[index].append(rows);
      this.stack();
      this.schedule();
    }

    /** Put the standing cursor on a value of x, or take it away with null. */
    moveCursor(x) {
      this.cursorAt = x;
      this.placeCursor();
    }

    placeCursor() {
      const shown = isNumber(this.cursorAt) && this.frame;
      this.cursor.hidden = !shown;
      if (!shown) return;
      const { top, bottom } = this.frame;
      this.cursor.style.transform = `translate(${this.scaleX.at(this.cursorAt).toFixed(1)}px, ${top}px)`;
      this.cursor.style.height = `${bottom - top}px`;
    }

    /** Give the value of x below a position of the pointer. */
    xAt(clientX) {
      return this.scaleX.value(clientX - this.box.getBoundingClientRect().left);
    }

    destroy() {
      this.watch.disconnect();
      cancelAnimationFrame(this.scheduled);
      charts.delete(this);
      for (const part of [this.box, this.legend]) part.remove();
    }

    schedule() {
      cancelAnimationFrame(this.scheduled);
      this.scheduled = requestAnimationFrame(() => this.draw());
    }

    get shown() {
      return this.series.filter((item) => !this.hidden.has(item.name));
    }

    /** Lay stacked areas and bars upon each other, those that are shown. */
    stack() {
      if (!this.described.stacked) return;
      const tops = new Map();
      for (const item of this.shown.filter((one) => one.kind === "area" || one.kind === "bar")) {
        item.low = new Float64Array(item.size);
        item.high = new Float64Array(item.size);
        for (let i = 0; i < item.size; i++) {
          const base = tops.get(item.x[i]) ?? 0;
          item.low[i] = base;
          item.high[i] = base + (item.y[i] || 0);
          tops.set(item.x[i], item.high[i]);
        }
      }
    }

    // Layout

    /** Tell whether values run along x and names stand on y. */
    get lying() {
      return this.axes.y.kind === "category";
    }

    extent(axisName) {
      const axis = this.axes[axisName];
      if (axis.kind === "category") return [-0.5, axis.categories.length - 0.5];
      let [low, high] = [Infinity, -Infinity];
      const take = (value) => {
        if (!Number.isFinite(value) || (axis.kind === "log" && value <= 0)) return;
        if (value < low) low = value;
        if (value > high) high = value;
      };
      const along = axisName === "x" ? this.lying : true;
      for (const item of this.shown) {
        if (axisName === "y" && item.right) continue;
        if (axisName === "right" && !item.right) continue;
        const [first, last] = axisName === "x" ? [0, item.size - 1] : item.window(...this.rangeX);
        const main = axisName === "x" ? item.x : item.y;
        const spread = item.low && (axisName === "x" ? this.lying : !this.lying);
        for (let i = first; i <= last; i++) {
          if (axisName !== "x" && item.sorted && (item.x[i] < this.rangeX[0] || item.x[i] > this.rangeX[1]) && last - first > 2) continue;
          if (main && !(spread && this.described.stacked)) take(main[i]);
          if (spread) { take(item.low[i]); take(item.high[i]); }
        }
        if (item.kind === "bar" && (axisName === "x") === this.lying && axis.kind !== "log") take(0);
        if (item.kind === "bar" && axisName === "x" && !this.lying && item.size) {
          const half = 0.5 * (item.size > 1 ? (item.x[item.size - 1] - item.x[0]) / (item.size - 1) : 1);
          take(item.x[0] - half);
          take(item.x[item.size - 1] + half);
        }
        if (item.kind === "area" && axisName !== "x") take(0);
      }
      for (const level of this.described.levels ?? []) if ((level.axis ?? "y") === axisName) take(level.value);
      if (axis.zero && along) take(0);
      if (low > high) return axis.kind === "log" ? [0.1, 10] : [0, 1];
      const [given, up] = axis.range ?? [];
      if (isNumber(given)) low = given;
      if (isNumber(up)) high = up;
      if (low === high) return axis.kind === "log" ? [low / 2, high * 2] : [low - (Math.abs(low) * 0.05 || 0.5), high + (Math.abs(high) * 0.05 || 0.5)];
      if (axisName === "x" && !this.lying) return [low, high];
      const room = axis.kind === "log" ? (high / low) ** 0.06 : 0.06 * (high - low);
      const free = (value, end, away) => (isNumber(end) || (value === 0 && axis.kind !== "log") ? value : away);
      return axis.kind === "log"
        ? [isNumber(given) ? low : low / room, isNumber(up) ? high : high * room]
        : [free(low, given, low - room), free(high, up, high + room)];
    }

    layout(width, height, pen) {
      const { x, y, right } = this.axes;
      const small = this.described.small;
      const side = y.side === "right";
      this.rangeX = this.zoomed ?? this.extent("x");
      const rangeY = this.extent("y");
      const frame = { top: y.title && !small ? 22 : 8, bottom: height - (small === "bare" ? 6 : x.title ? 38 : 22), left: 8, right: width - 8 };
      if (y.top) frame.top = y.top;
      const wide = (labels) => Math.max(0, ...labels.map(([, text]) => pen.measureText(text).width));
      const rough = new Scale(y, rangeY, [frame.bottom, frame.top]);
      this.ticksY = rough.ticks(clamp((frame.bottom - frame.top) / 45, 2, 8));
      const most = this.lying ? 0.42 * width : 0.3 * width;
      const room = this.described.gutter ?? Math.min(most, wide(this.ticksY)) + 10;
      if (side) frame.right -= room;
      else frame.left = room;
      const hasRight = this.shown.some((item) => item.right);
      if (hasRight) {
        this.ticksRight = new Scale(right, this.extent("right"), [frame.bottom, frame.top]).ticks(4);
        frame.right -= wide(this.ticksRight) + 8;
      }
      if (x.kind === "category") {
        this.tilted = wide(x.categories.map((name) => [0, name])) > (frame.right - frame.left) / x.categories.length - 6;
        if (this.tilted) frame.bottom -= Math.min(60, 0.6 * wide(x.categories.map((name) => [0, name])));
      }
      this.frame = frame;
      const inset = x.kind === "category" || small ? 0 : INSET;
      this.scaleX = new Scale(x, this.rangeX, [frame.left + inset, frame.right - inset]);
      // names are read from the top down, numbers grow upwards
      const ends = this.lying ? [frame.top, frame.bottom] : [frame.bottom, frame.top];
      this.scaleY = new Scale(y, rangeY, ends);
      this.scaleRight = hasRight ? new Scale(right, this.extent("right"), ends) : null;
      this.ticksX = this.scaleX.ticks(clamp((frame.right - frame.left) / (x.kind === "time" ? 110 : 58), 2, 12));
    }

    // Drawing

    colour(name) {
      return this.colours.get(name) ?? this.colours.set(name, getComputedStyle(this.node).getPropertyValue(`--${name}`).trim() || name).get(name);
    }

    draw() {
      const { clientWidth: width, clientHeight: height } = this.box;
      if (!width || !height) return;
      const ratio = window.devicePixelRatio || 1;
      const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
      if (this.canvas.width !== w || this.canvas.height !== h) [this.canvas.width, this.canvas.height] = [w, h];
      const pen = this.canvas.getContext("2d");
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, width, height);
      pen.font = FONT;
      this.colours = new Map();
      this.layout(width, height, pen);
      pen.globalAlpha = this.alpha = this.described.dim ? 0.35 : 1;
      this.drawAxes(pen, width, height);
      const { left, right, top, bottom } = this.frame;
      pen.save();
      pen.beginPath();
      pen.rect(left - 6, top - 6, right - left + 12, bottom - top + 7);
      pen.clip();
      for (const span of this.described.spans ?? []) this.drawSpan(pen, span);
      for (const level of this.described.levels ?? []) this.drawLevel(pen, level);
      const order = { band: 0, area: 0, bar: 1, line: 2, marker: 3 };
      const bars = this.shown.filter((item) => item.kind === "bar");
      for (const item of [...this.shown].sort((a, b) => order[a.kind] - order[b.kind])) {
        const scaleY = item.right ? this.scaleRight : this.scaleY;
        const [first, last] = item.window(...this.rangeX);
        const draw = { band: this.drawBand, area: this.drawBand, bar: this.drawBars, line: this.drawLine, marker: this.drawMarkers }[item.kind];
        pen.globalAlpha = this.alpha;
        if (item.size) draw.call(this, pen, item, scaleY, first, last, bars);
      }
      pen.restore();
      for (const item of this.shown) if (item.head) this.drawHead(pen, item);
      pen.globalAlpha = 1;
      this.placeCursor();
      this.back.hidden = !this.zoomed;
      this.node.dataset.drawn = String(Number(this.node.dataset.drawn ?? 0) + 1);
    }

    drawAxes(pen, width, height) {
      const { frame, axes } = this;
      const small = this.described.small;
      pen.textBaseline = "middle";
      pen.lineWidth = 1;
      const line = (x1, y1, x2, y2, colour) => {
        pen.strokeStyle = this.colour(colour);
        pen.beginPath();
        pen.moveTo(x1, y1);
        pen.lineTo(x2, y2);
        pen.stroke();
      };
      const fitted = (text, room) => {
        let cut = text;
        while (cut.length > 2 && pen.measureText(cut).width > room) cut = `${cut.slice(0, -2)}…`;
        return cut;
      };
      for (const [value, text] of this.ticksY) {
        const y = Math.round(this.scaleY.at(value)) + 0.5;
        if (!this.lying) line(frame.left, y, frame.right, y, value === 0 && this.scaleY.low < 0 ? "faint" : "grid");
        pen.fillStyle = this.colour(this.lying ? "ink" : "dim");
        const onRight = axes.y.side === "right";
        pen.textAlign = onRight ? "left" : "right";
        pen.fillText(fitted(text, onRight ? width : frame.left - 8), onRight ? frame.right + 7 : frame.left - 7, y);
      }
      pen.fillStyle = this.colour("dim");
      if (this.scaleRight) {
        pen.textAlign = "left";
        for (const [value, text] of this.ticksRight) pen.fillText(text, frame.right + 6, this.scaleRight.at(value));
      }
      if (small !== "bare") {
        let end = -Infinity;
        for (const [value, text] of this.ticksX) {
          const x = Math.round(this.scaleX.at(value)) + 0.5;
          if (x < frame.left - 1 || x > frame.right + 1) continue;
          if (this.lying) line(x, frame.top, x, frame.bottom, value === 0 ? "faint" : "grid");
          pen.fillStyle = this.colour("dim");
          if (this.tilted) {
            pen.save();
            pen.translate(x, frame.bottom + 8);
            pen.rotate(-0.6);
            pen.textAlign = "right";
            pen.fillText(fitted(text, 100), 0, 0);
            pen.restore();
            continue;
          }
          const half = pen.measureText(text).width / 2;
          const middle = clamp(x, half + 1, width - half - 1);
          if (middle - half < end + 8) continue; // a label that would touch the one before is left out
          end = middle + half;
          pen.textAlign = "center";
          pen.fillText(text, middle, frame.bottom + 12);
        }
        if (axes.x.title) {
          pen.textAlign = "right";
          pen.fillText(axes.x.title, frame.right, height - 8);
        }
        line(frame.left, Math.round(frame.bottom) + 0.5, frame.right, Math.round(frame.bottom) + 0.5, "line");
      }
      if (axes.y.title && !small) {
        pen.textAlign = "left";
        pen.fillText(axes.y.title, this.lying ? 2 : 4, 8);
      }
      if (this.scaleRight && axes.right.title) {
        pen.textAlign = "right";
        pen.fillText(axes.right.title, width - 2, 8);
      }
    }

    drawSpan(pen, { from, to, colour }) {
      const [start, end] = [this.scaleX.at(from), this.scaleX.at(Math.min(to, this.rangeX[1]))];
      pen.fillStyle = this.colour(colour);
      pen.globalAlpha = 0.11 * this.alpha;
      pen.fillRect(start, this.frame.top, Math.max(1, end - start), this.frame.bottom - this.frame.top);
      pen.globalAlpha = this.alpha;
    }

    drawLevel(pen, { value, axis = "y", colour = "dim", dash = "dash", name, labelled }) {
      pen.strokeStyle = pen.fillStyle = this.colour(colour);
      pen.lineWidth = 1.5;
      pen.setLineDash(DASHES[dash] ?? []);
      pen.beginPath();
      const at = Math.round((axis === "x" ? this.scaleX : this.scaleY).at(value)) + 0.5;
      if (axis === "x") { pen.moveTo(at, this.frame.top); pen.lineTo(at, this.frame.bottom); }
      else { pen.moveTo(this.frame.left, at); pen.lineTo(this.frame.right, at); }
      pen.stroke();
      pen.setLineDash([]);
      if (!labelled) return;
      pen.textAlign = "left";
      pen.fillText(name, this.frame.left + 8, at - 9);
    }

    drawLine(pen, item, scaleY, first, last) {
      const points = thin(item.x, item.y, first, last, this.scaleX, scaleY, this.box.clientWidth);
      pen.strokeStyle = this.colour(item.colour);
      pen.lineWidth = item.width;
      pen.lineJoin = "round";
      pen.setLineDash(DASHES[item.dash] ?? []);
      pen.beginPath();
      trace(pen, points, item.step);
      pen.stroke();
      pen.setLineDash([]);
      if (item.fill && points.length) {
        const shade = pen.createLinearGradient(0, this.frame.top, 0, this.frame.bottom);
        shade.addColorStop(0, this.colour(item.colour));
        shade.addColorStop(1, `${this.colour(item.colour)}00`); // colours are #rrggbb, so this is the same one, clear
        pen.lineTo(points.at(-2), this.frame.bottom);
        pen.lineTo(points[0], this.frame.bottom);
        pen.globalAlpha = 0.22 * this.alpha;
        pen.fillStyle = shade;
        pen.fill();
        pen.globalAlpha = this.alpha;
      }
      if (item.points || (last === first && item.size === 1)) this.drawMarkers(pen, item, scaleY, first, last);
    }

    /** Fill between low and high; an area lies between its base and its value. */
    drawBand(pen, item, scaleY, first, last) {
      const width = this.box.clientWidth;
      const zero = item.low ? null : new Float64Array(item.size);
      const upper = thin(item.x, item.high ?? item.y, first, last, this.scaleX, scaleY, width);
      const lower = thin(item.x, item.low ?? zero, first, last, this.scaleX, scaleY, width);
      pen.fillStyle = this.colour(item.colour);
      pen.globalAlpha = (item.kind === "area" ? 0.75 : 0.18) * this.alpha;
      const runs = [[], []];
      [upper, lower].forEach((points, side) => {
        let run = null;
        for (let i = 0; i < points.length; i += 2) {
          if (!Number.isFinite(points[i + 1])) run = null;
          else {
            if (!run) runs[side].push((run = []));
            if (item.step && run.length) run.push([points[i], run.at(-1)[1]]);
            run.push([points[i], points[i + 1]]);
          }
        }
      });
      pen.beginPath();
      runs[0].forEach((run, index) => polygon(pen, [...run, ...(runs[1][index] ?? []).reverse()]));
      pen.fill();
      pen.globalAlpha = this.alpha;
    }

    drawBars(pen, item, scaleY, first, last, bars) {
      const lying = this.lying;
      const [names, values] = lying ? [scaleY, this.scaleX] : [this.scaleX, scaleY];
      const groups = this.described.stacked ? 1 : Math.max(1, bars.length);
      const spacing = item.size > 1 && names.axis.kind !== "category" ? Math.abs(item.x[item.size - 1] - item.x[0]) / (item.size - 1) : 1;
      const room = Math.abs(names.at(spacing) - names.at(0)) || 20;
      const whole = names.axis.kind === "category" ? Math.min(0.76 * room, 46 * groups) : Math.max(1, room - (room > 5 ? 1 : 0));
      const thick = whole / groups;
      const shift = groups > 1 ? bars.indexOf(item) * thick - whole / 2 : -whole / 2;
      const base = values.log ? values.low : 0;
      let column = NaN, lowest = 0, highest = 0; // of bars narrower than a pixel only those are drawn that stand out
      for (let i = first; i <= last; i++) {
        const [name, value] = lying ? [item.y[i], item.x[i]] : [item.x[i], item.y[i]];
        if (!Number.isFinite(value)) continue;
        const [start, end] = this.described.stacked ? [item.low[i], item.high[i]] : [base, value];
        const [from, to] = [values.at(values.log ? Math.max(start, values.low) : start), values.at(values.log ? Math.max(end, values.low) : end)];
        const at = names.at(name) + shift;
        if (thick <= 1) {
          if (Math.round(at) === column && Math.min(from, to) >= lowest && Math.max(from, to) <= highest) continue;
          if (Math.round(at) !== column) [column, lowest, highest] = [Math.round(at), Infinity, -Infinity];
          [lowest, highest] = [Math.min(lowest, from, to), Math.max(highest, from, to)];
        }
        pen.fillStyle = this.colour(value < 0 && item.negative ? item.negative : item.colour);
        pen.globalAlpha = (item.right ? 0.35 : 0.9) * this.alpha;
        const length = value ? Math.max(1, Math.abs(to - from)) : 0;
        if (lying) pen.fillRect(Math.min(from, to), at, length, Math.max(1, thick - 1));
        else pen.fillRect(at, Math.min(from, to), Math.max(1, thick - (groups > 1 ? 1 : 0)), length);
        pen.globalAlpha = this.alpha;
        if (item.low && !this.described.stacked) this.drawInterval(pen, { ...item, colour: "ink", columns: null }, scaleY, i, at + thick / 2);
      }
    }

    drawInterval(pen, item, scaleY, i, middle = null) {
      const values = this.lying ? this.scaleX : scaleY;
      const low = clamp(values.at(values.log ? Math.max(item.low[i], values.low) : item.low[i]), -9e3, 9e3);
      const high = clamp(values.at(item.high[i]), -9e3, 9e3);
      if (!Number.isFinite(low) || !Number.isFinite(high)) return;
      const at = middle ?? (this.lying ? scaleY.at(item.y[i]) : this.scaleX.at(item.x[i])) + (item.shift ?? 0);
      pen.strokeStyle = this.colour(item.colour);
      pen.lineWidth = item.thick ? 9 : 1.6;
      pen.globalAlpha = (item.thick ? 0.35 : 0.9) * this.alpha;
      const cap = item.thick ? 0 : 4;
      pen.beginPath();
      const stroke = (a, b, c, d) => (this.lying ? (pen.moveTo(a, b), pen.lineTo(c, d)) : (pen.moveTo(b, a), pen.lineTo(d, c)));
      stroke(low, at, high, at);
      if (cap) for (const end of [low, high]) stroke(end, at - cap, end, at + cap);
      pen.stroke();
      pen.globalAlpha = this.alpha;
    }

    drawMarkers(pen, item, scaleY, first, last) {
      const radius = item.radius ?? (item.kind === "line" ? 3 : 4.5);
      const symbol = item.symbol ?? "circle";
      const taken = last - first > 5000 ? new Set() : null;
      for (let i = first; i <= last; i++) {
        const [x, y] = [this.scaleX.at(item.x[i]), scaleY.at(item.y[i]) + (this.lying ? item.shift ?? 0 : 0)];
        if (!Number.isFinite(x) || !Number.isFinite(y)) continue;
        if (taken) {
          // of thousands of points only those are drawn that do not cover each other
          const cell = Math.round(x / 2) * 65536 + Math.round(y / 2);
          if (taken.has(cell)) continue;
          taken.add(cell);
        }
        if (item.low) this.drawInterval(pen, item, scaleY, i);
        if (symbol === "none") continue;
        pen.fillStyle = this.colour(item.colour);
        pen.globalAlpha = (item.tint ? 0.15 + 0.85 * item.tint[i] : 1) * this.alpha;
        const edge = clamp(y, this.frame.top - 2, this.frame.bottom);
        pen.beginPath();
        if (SYMBOLS[symbol]) {
          SYMBOLS[symbol](pen, x, edge, radius);
          pen.fill();
          pen.strokeStyle = this.colour("card");
          pen.lineWidth = 1;
          if (radius > 2) pen.stroke();
        } else {
          STROKES[symbol](pen, x, edge, radius, this.lying);
          pen.strokeStyle = this.colour(item.colour);
          pen.lineWidth = 2.4;
          pen.stroke();
        }
      }
      pen.globalAlpha = this.alpha;
    }

    /** Mark the end of a live line: a dot, and its value on the axis. */
    drawHead(pen, item) {
      const last = item.size - 1;
      const [x, y] = [this.scaleX.at(item.x[last]), clamp(this.scaleY.at(item.y[last]), this.frame.top, this.frame.bottom)];
      pen.fillStyle = this.colour(item.colour);
      for (const [radius, alpha] of [[11, 0.2], [4.5, 1]]) {
        pen.globalAlpha = alpha * this.alpha;
        pen.beginPath();
        pen.arc(x, y, radius, 0, 2 * Math.PI);
        pen.fill();
      }
      const text = item.head;
      pen.font = `700 12px system-ui, sans-serif`;
      pen.beginPath();
      pen.roundRect(this.frame.right + 3, y - 10, Math.max(48, pen.measureText(text).width + 11), 20, 5);
      pen.fill();
      pen.fillStyle = this.colour("paper");
      pen.textAlign = "left";
      pen.fillText(text, this.frame.right + 9, y + 0.5);
      pen.font = FONT;
    }

    // Legend

    showLegend() {
      const { levels = [], legend = true } = this.described;
      this.legend.hidden = !legend;
      if (!legend) return;
      const entries = [...this.series.filter((item) => item.legend !== false), ...levels.filter((level) => level.name && !level.labelled)];
      this.legend.hidden = entries.length < 2 && !levels.length;
      this.legend.replaceChildren(...entries.map((item) => {
        const isSeries = item instanceof Series;
        const entry = element(isSeries ? "button" : "span");
        const swatch = element("i", `swatch-${isSeries ? item.kind : "level"}${item.dash ? " dashed" : ""}`);
        swatch.style.setProperty("--c", `var(--${item.colour ?? "dim"})`);
        entry.append(swatch, element("span", "", item.name));
        if (!isSeries) return entry;
        entry.type = "button";
        entry.setAttribute("aria-pressed", String(!this.hidden.has(item.name)));
        entry.addEventListener("click", () => {
          if (!this.hidden.delete(item.name)) this.hidden.add(item.name);
          entry.setAttribute("aria-pressed", String(!this.hidden.has(item.name)));
          this.stack();
          this.schedule();
        });
        return entry;
      }));
    }

    // Reading points

    /** Give the points nearest to a pixel: one of each series, those within reach. */
    nearest(px, py) {
      const hits = [];
      for (const item of this.shown) {
        if (item.silent) continue;
        const scaleY = item.right ? this.scaleRight : this.scaleY;
        const [first, last] = item.window(...this.rangeX);
        const x = this.scaleX.value(px);
        let [from, to] = [first, last];
        if (item.sorted && this.hover === "x" && !this.lying && item.size) {
          const index = clamp(firstFrom(item.x, x), 0, item.size - 1);
          [from, to] = [Math.max(first, index - 1), Math.min(last, index)];
        }
        let best = null;
        for (let i = from; i <= to; i++) {
          const [dx, dy] = [Math.abs(this.scaleX.at(item.x[i]) - px), item.y ? Math.abs(scaleY.at(item.y[i]) - py) : 0];
          if (Number.isNaN(dx) || Number.isNaN(dy)) continue;
          const distance = this.hover === "point" ? Math.hypot(dx, dy) : this.lying ? dy : dx;
          if (!best || distance < best.distance) best = { item, index: i, distance };
        }
        const room = Math.abs(this.scaleX.at(1) - this.scaleX.at(0)) / 2;
        const reach = this.lying || this.axes.x.kind === "category" ? Infinity : Math.max(NEAR, item.kind === "bar" || item.step ? Math.min(room, 200) : 0);
        if (best && best.distance <= reach) hits.push(best);
      }
      if (!hits.length) return [];
      const closest = hits.reduce((a, b) => (b.distance < a.distance ? b : a));
      if (this.hover === "point") return [closest];
      // a series whose nearest point lies elsewhere would be read as a value at this place
      const key = (hit) => (this.lying ? hit.item.y[hit.index] : this.scaleX.at(hit.item.x[hit.index]));
      return hits.filter((hit) => Math.abs(key(hit) - key(closest)) <= (this.lying ? 0.01 : NEAR / 2));
    }

    showTip(px, py) {
      const hits = this.hover ? this.nearest(px, py) : [];
      if (!hits.length) return this.hideTip();
      const { item, index } = hits.reduce((a, b) => (b.distance < a.distance ? b : a));
      const { x, y } = this.axes;
      const rows = [element("b", "", this.lying ? valueText(y, item.y[index]) : `${x.title ? `${x.title} ` : ""}${valueText(x, item.x[index], 7)}`)];
      for (const hit of hits) {
        const row = element("span");
        const swatch = element("i", `swatch-${hit.item.kind}`);
        swatch.style.setProperty("--c", `var(--${hit.item.colour})`);
        row.append(swatch, `${hit.item.name ? `${hit.item.name}: ` : ""}${this.pointText(hit)}`);
        rows.push(row);
        const note = hit.item.text?.[hit.index];
        if (note) rows.push(element("small", "", note));
      }
      this.tip.replaceChildren(...rows);
      this.tip.hidden = false;
      const { frame } = this;
      const at = this.lying ? px : this.scaleX.at(item.x[index]);
      this.rule.hidden = false;
      const level = this.lying ? this.scaleY.at(item.y[index]) : 0;
      this.rule.style.transform = this.lying ? `translate(${frame.left}px, ${level}px)` : `translate(${at}px, ${frame.top}px)`;
      this.rule.style.width = this.lying ? `${frame.right - frame.left}px` : "0";
      this.rule.style.height = this.lying ? "0" : `${frame.bottom - frame.top}px`;
      const { offsetWidth, offsetHeight } = this.tip;
      const { clientWidth, clientHeight } = this.box;
      const left = at + 14 + offsetWidth > clientWidth ? at - offsetWidth - 14 : at + 14;
      this.tip.style.transform = `translate(${clamp(left, 0, Math.max(0, clientWidth - offsetWidth)).toFixed(0)}px, ${clamp(py - offsetHeight - 12, 0, Math.max(0, clientHeight - offsetHeight)).toFixed(0)}px)`;
      this.reading = { item, index };
      return hits;
    }

    pointText({ item, index }) {
      const axis = this.lying ? this.axes.x : item.right ? this.axes.right : this.axes.y;
      const value = this.lying ? item.x : item.y;
      const shown = value ? valueText(axis, value[index]) : "";
      if (!item.columns?.low) return shown;
      const span = `${valueText(axis, item.columns.low.values[index])} to ${valueText(axis, item.columns.high.values[index])}`;
      return shown ? `${shown} (${span})` : span;
    }

    hideTip() {
      this.tip.hidden = this.rule.hidden = true;
      this.reading = null;
    }

    // Pointer and keys

    zoomTo(low, high) {
      const [least, most] = this.extent("x");
      const log = this.axes.x.kind === "log";
      if (!(high > low) || this.axes.x.kind === "category") return;
      const whole = low <= least && high >= most;
      this.zoomed = whole ? null : [log ? low : Math.max(low, least), Math.min(high, most)];
      this.hideTip();
      this.schedule();
    }

    /** Zoom by a factor around a pixel. */
    zoomBy(factor, px) {
      const { scaleX, frame } = this;
      const [left, right] = [scaleX.from, scaleX.from + (frame.right - scaleX.from) - (scaleX.from - frame.left)];
      this.zoomTo(scaleX.value(px - (px - left) * factor), scaleX.value(px + (right - px) * factor));
    }

    reset() {
      this.zoomed = null;
      this.schedule();
    }

    listen() {
      const { box } = this;
      const at = (event) => {
        const rect = box.getBoundingClientRect();
        return [event.clientX - rect.left, event.clientY - rect.top];
      };
      const inside = (px) => this.frame && px >= this.frame.left - 4 && px <= this.frame.right + 4;
      let start = null, pinch = 0;
      box.addEventListener("pointermove", (event) => {
        const [px, py] = at(event);
        if (!this.frame || !this.hover) return;
        if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, px);
        if (this.pointers.size === 2 && this.zooms) {
          const [a, b] = [...this.pointers.values()];
          const gap = Math.abs(a - b);
          if (pinch && gap) this.zoomBy(pinch / gap, (a + b) / 2);
          pinch = gap;
        } else if (start !== null && event.pointerType === "mouse" && Math.abs(px - start) > 4) {
          const [from, to] = [start, clamp(px, this.frame.left, this.frame.right)].sort((a, b) => a - b);
          this.hideTip();
          this.brush.hidden = false;
          this.brush.style.transform = `translate(${from}px, ${this.frame.top}px)`;
          this.brush.style.width = `${to - from}px`;
          this.brush.style.height = `${this.frame.bottom - this.frame.top}px`;
        } else if (inside(px) || this.lying) this.showTip(px, py);
        else this.hideTip();
      });
      box.addEventListener("pointerdown", (event) => {
        const [px, py] = at(event);
        this.pointers.set(event.pointerId, px);
        pinch = 0;
        if (event.target === this.back || !this.hover) return;
        if (event.pointerType === "mouse" && event.button === 0 && this.zooms && inside(px)) {
          start = clamp(px, this.frame.left, this.frame.right);
          box.setPointerCapture(event.pointerId);
        } else this.showTip(px, py);
      });
      const release = (event) => {
        this.pointers.delete(event.pointerId);
        if (start !== null && event.type === "pointerup") {
          const [from, to] = [start, clamp(at(event)[0], this.frame.left, this.frame.right)].sort((a, b) => a - b);
          if (to - from > 6) this.zoomTo(this.scaleX.value(from), this.scaleX.value(to));
        }
        start = null;
        this.brush.hidden = true;
      };
      box.addEventListener("pointerup", release);
      box.addEventListener("pointercancel", release);
      box.addEventListener("pointerleave", () => this.hideTip());
      box.addEventListener("blur", () => this.hideTip());
      box.addEventListener("dblclick", () => this.reset());
      this.back.addEventListener("click", () => this.reset());
      box.addEventListener("wheel", (event) => {
        // the page scrolls until the chart was clicked or Ctrl is held
        if (!this.zooms || !(event.ctrlKey || event.metaKey || box.contains(document.activeElement))) return;
        event.preventDefault();
        this.zoomBy(event.deltaY > 0 ? 1.25 : 0.8, at(event)[0]);
      }, { passive: false });
      box.addEventListener("keydown", (event) => {
        if (!this.hover || event.target !== box || event.ctrlKey || event.metaKey || event.altKey) return;
        const middle = (this.frame.left + this.frame.right) / 2;
        const act = {
          ArrowRight: () => this.read(1), ArrowLeft: () => this.read(-1), ArrowDown: () => this.lying && this.read(1), ArrowUp: () => this.lying && this.read(-1),
          Home: () => this.read(-Infinity), End: () => this.read(Infinity), Escape: () => this.hideTip(),
        }[event.key] ?? (this.zooms && { "+": () => this.zoomBy(0.6, middle), "=": () => this.zoomBy(0.6, middle), "-": () => this.zoomBy(1.6, middle), 0: () => this.reset() }[event.key]);
        if (!act || act() === false) return;
        event.preventDefault();
        event.stopPropagation();
      });
    }

    /** Read the next point by key, of the series that was read last. */
    read(step) {
      const item = this.shown.includes(this.reading?.item) ? this.reading.item : this.shown.find((one) => !one.silent && one.size);
      if (!item) return;
      const [first, last] = item.window(...this.rangeX);
      const index = clamp(this.reading ? this.reading.index + step : step > 0 && step < Infinity ? first : step < 0 && step > -Infinity ? last : first + step, first, last);
      const scaleY = item.right ? this.scaleRight : this.scaleY;
      const y = item.y ? scaleY.at(item.y[index]) : this.frame.top + 20;
      this.showTip(this.scaleX.at(item.x[index]), Number.isFinite(y) ? y : this.frame.top + 20);
      this.reading = { item, index };
    }
  }

  const charts = new Set();
  const redraw = () => charts.forEach((chart) => chart.draw());

  /** Draw every chart that the page describes and that is not drawn yet. */
  function mount(root = document) {
    for (const node of root.querySelectorAll("[data-chart]:not(.chart)"))
      new Chart(node, JSON.parse(node.querySelector('script[type="application/json"]').textContent));
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // paper is white: the class gives the light colours while the canvas is drawn for it
  addEventListener("beforeprint", () => { document.documentElement.classList.add("printing"); redraw(); });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("printing"); redraw(); });
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => mount());
  else mount();

  window.playproof = Object.freeze({ Chart, mount, brief, PALETTE });
})();
