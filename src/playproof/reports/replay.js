"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SPEEDS = [1, 2, 4, 8, 16, 32, 64, 128];
const PALETTE = ["--blue", "--good", "--warn", "--violet", "--teal", "--bad"];
const MARKS = { entry: ["▲", "--good", 15], exit: ["▼", "--warn", -7], bet: ["●", "--violet", 4], won: ["★", "--good", -7],
  lost: ["✕", "--bad", 4], end: ["", "--bad", 0] };
const LEFT = 62, RIGHT = 12;
const at = { episode: -1, point: 0, playing: false, speed: 3 };
let episode = null, panels = [], timer = 0, last = 0;

const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
const draw = (tag, attributes = {}, text = "") => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== "") node.textContent = text;
  return node;
};
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/* A column is a list, or only its changes: where they are and what comes. */
function expand(column) {
  if (Array.isArray(column)) return column;
  const out = new Array(column.n);
  column.at.forEach((start, place) => out.fill(column.v[place], start, column.at[place + 1] ?? column.n));
  return out;
}

function opened(told) {
  const words = expand(told.actions).map((place) => told.words[place]);
  return { ...told, words, steps: words.length,
    lines: told.lines.map((line) => ({ ...line, v: expand(line.v) })),
    rewards: expand(told.rewards), rows: told.rows.map(expand),
    missing: told.missing && told.missing.map(expand),
    components: Object.fromEntries(Object.entries(told.components).map(([name, of]) => [name, expand(of)])),
    thoughts: told.thoughts.map((head) => ({ choices: head.choices, p: head.p.map(expand) })),
    predictions: Object.fromEntries(Object.entries(told.predictions).map(([name, of]) => [name, expand(of)])) };
}

/* Money is whole numbers of the smallest unit: written without loss. */
function exact(value, whole) {
  if (value === null || value === undefined) return "unknown";
  if (whole === 1 || !Number.isInteger(Number(value))) return String(value);
  const units = BigInt(value), size = units < 0n ? -units : units, digits = String(whole).length - 1;
  return `${units < 0n ? "-" : ""}${size / BigInt(whole)}.${String(size % BigInt(whole)).padStart(digits, "0")}`;
}
const scaled = (value, whole) => (value === null || value === undefined ? null : Number(value) / whole);
function brief(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-7 || size >= 1e9)) return value.toExponential(1);
  return size >= 100 ? value.toFixed(1) : size >= 1 ? value.toFixed(2) : plain(value, 3);
}
function plain(value, digits) {
  if (value === 0) return "0";
  const places = clamp(digits - 1 - Math.floor(Math.log10(Math.abs(value))), 0, 12), text = value.toFixed(places);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
const signed = (value, whole) => (value === null ? "no P&L told" : `${Number(value) >= 0 ? "+" : ""}${brief(scaled(value, whole))}`);
const sign = (value) => (value === null ? "dim" : Number(value) > 0 ? "up" : Number(value) < 0 ? "down" : "dim");
const percent = (value) => (value === null ? "unknown" : `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)} %`);

/* Charts. */
function ticks(low, high, log, many) {
  if (log) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const lead of [1, 2, 5]) {
        const value = lead * 10 ** power;
        if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
      }
    return found.length > 6 ? found.filter((_, place) => place % 2 === 0) : found;
  }
  const rough = (high - low) / many, unit = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((it) => it * unit).find((it) => it >= rough) || 1;
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) found.push(+value.toPrecision(12));
  return found;
}

/* The end of a window may lie far below all that came before: it is drawn as a fall, and does not set the scale. */
function span(lists, ending) {
  const inside = lists.flatMap((of) => (ending ? of.slice(0, -1) : of)).filter((it) => it !== null);
  const all = lists.flat().filter((it) => it !== null);
  if (!all.length) return [0, 1];
  let [low, high] = [Math.min(...all), Math.max(...all)];
  if (ending && inside.length && low < 0.5 * Math.min(...inside)) low = Math.min(...inside);
  if (low === high) { const pad = Math.abs(low) * 0.01 || 1; low -= pad; high += pad; }
  return [low, high];
}

function drawn(line) {
  const values = line.v.map((value) => scaled(value, line.whole));
  const first = values.find((it) => it !== null);
  if (line.drawn === "move") return values.map((it) => (it === null ? null : 100 * (it / first - 1)));
  return line.drawn === "change" ? values.map((it) => (it === null ? null : it - first)) : values;
}

function path(values, x, y, stepped) {
  let text = "", pen = false;
  values.forEach((value, place) => {
    if (value === null) { pen = false; return; }
    const [px, py] = [x(place).toFixed(1), y(value).toFixed(1)];
    if (pen && stepped) text += `H${px}V${py}`;
    else text += `${pen ? "L" : "M"}${px},${py}`;
    pen = true;
  });
  return text;
}

class Panel {
  constructor(title, height) {
    this.title = title; this.height = height;
    this.width = $("charts").clientWidth - 14;
    this.svg = draw("svg", { viewBox: `0 0 ${this.width} ${height}`, height, role: "img", "aria-label": title });
    this.top = 20; this.bottom = height - 6;
    const reach = Math.max(1, episode.steps);
    this.x = (point) => LEFT + (point / reach) * (this.width - LEFT - RIGHT);
    this.name = draw("text", { x: LEFT, y: 12, class: "name" }, title);
    this.svg.append(this.name);
  }
  axis(low, high, log = false, unit = "") {
    const scale = log ? Math.log : (value) => value;
    const pad = log ? 1 : 0;
    [low, high] = [scale(low), scale(high)];
    this.y = (value) => {
      const share = ((log ? Math.log(Math.max(value, 1e-12)) : value) - low) / (high - low);
      return clamp(this.bottom - share * (this.bottom - this.top), this.top - pad, this.bottom);
    };
    const back = log ? Math.exp : (value) => value;
    for (const value of ticks(back(low), back(high), log, this.height > 150 ? 5 : 2.5)) {
      const y = this.y(value);
      this.svg.append(draw("line", { x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y, stroke: "var(--line)" }));
      this.svg.append(draw("text", { x: LEFT - 7, y: y + 4, "text-anchor": "end" }, `${plain(value, 5)}${unit}`));
    }
  }
  shade(values) {
    let start = null;
    [...values, 0].forEach((value, point) => {
      if (value && start === null) start = point;
      else if (!value && start !== null) {
        const [from, to] = [this.x(start), this.x(Math.min(point, episode.steps))];
        this.svg.append(draw("rect", { x: from, width: Math.max(1, to - from), y: this.top,
          height: this.bottom - this.top, fill: "var(--held)" }));
        start = null;
      }
    });
  }
  finish() {
    this.cursor = draw("line", { y1: this.top - 4, y2: this.bottom, stroke: "var(--ink)", "stroke-width": 1, opacity: 0.75 });
    this.svg.append(this.cursor);
    $("charts").append(this.svg);
    panels.push(this);
  }
  move(point) {
    this.cursor.setAttribute("x1", this.x(point));
    this.cursor.setAttribute("x2", this.x(point));
    if (this.at) this.at(point);
  }
}

function linePanel(title, lines, tall) {
  const panel = new Panel(title, tall ? 290 : 92);
  const values = lines.map(drawn);
  const ending = tall && episode.marks.some((mark) => mark.kind === "end" && lines.some((line) => line.name === mark.line));
  const [low, high] = lines[0].chance ? [0, Math.max(0.4, ...values.flat())] : span(values, ending);
  const room = tall ? 0.06 * (high - low) : 0.08 * (high - low);
  const log = tall && lines[0].drawn === "value" && low > 0 && high / low > 6;
  panel.axis(log ? low * 0.94 : low - room, log ? high * 1.08 : high + room, log, lines[0].drawn === "move" ? " %" : "");
  if (tall) {
    const held = episode.lines.filter((line) => line.panel.startsWith("position"));
    panel.shade(Array.from({ length: episode.steps + 1 }, (_, point) => held.some((line) => Number(line.v[point]) !== 0 && line.v[point] !== null) ? 1 : 0));
  }
  const dots = [];
  lines.forEach((line, place) => {
    const colour = `var(${PALETTE[place % PALETTE.length]})`;
    panel.svg.append(draw("path", { d: path(values[place], panel.x, panel.y, line.stepped), fill: "none",
      stroke: colour, "stroke-width": tall ? 2 : 1.6, "stroke-linejoin": "round" }));
    const dot = draw("circle", { r: 3.5, fill: colour, stroke: "var(--card)" });
    dots.push(dot);
  });
  for (const mark of episode.marks) {
    const place = lines.findIndex((line) => line.name === mark.line);
    if (place < 0) continue;
    const [sign, colour, shift] = MARKS[mark.kind];
    const x = panel.x(mark.point), value = values[place][mark.point];
    if (mark.kind === "end" && tall)
      panel.svg.append(draw("line", { x1: x, x2: x, y1: panel.top - 4, y2: panel.bottom, stroke: "var(--bad)", "stroke-width": 2, "stroke-dasharray": "3 3" }));
    if (!sign || value === null) continue;
    const node = draw("text", { x, y: clamp(panel.y(value) + shift, panel.top + 8, panel.bottom + 4), "text-anchor": "middle", style: `fill: var(${colour}); font-size: 14px; font-weight: 700` }, sign);
    node.append(draw("title", {}, mark.text));
    panel.svg.append(node);
  }
  panel.svg.append(...dots);
  panel.at = (point) => {
    const narrow = panel.width < 480 && lines.length > 2;
    panel.name.replaceChildren(draw("tspan", {}, narrow ? "" : title));
    panel.name.setAttribute("x", narrow ? 6 : LEFT);
    lines.forEach((line, place) => {
      const colour = `var(${PALETTE[place % PALETTE.length]})`, value = values[place][point];
      dots[place].setAttribute("visibility", value === null ? "hidden" : "visible");
      if (value !== null) { dots[place].setAttribute("cx", panel.x(point)); dots[place].setAttribute("cy", panel.y(value)); }
      if (narrow && !Number(line.v[point])) return;
      const label = lines.length > 1 ? `${line.name} ` : "";
      const shown = line.drawn === "change" ? `${value > 0 ? "+" : ""}${brief(value)}` : line.chance ? percent(value) : brief(scaled(line.v[point], line.whole));
      panel.name.append(draw("tspan", { dx: narrow ? 6 : 12, style: `fill: ${colour}` }, `${label}${shown}`));
    });
  };
  panel.finish();
}

function barPanel(title, values) {
  const panel = new Panel(title, 84);
  const known = values.filter((it) => it !== null);
  const most = Math.max(1e-12, ...known.map(Math.abs));
  const low = Math.min(0, ...known), high = Math.max(0, ...known);
  panel.axis(low || -most * 0.05, high || most * 0.05);
  const wide = Math.max(1, panel.x(1) - panel.x(0) - 1);
  values.forEach((value, step) => {
    if (!value) return;
    const [from, to] = [panel.y(0), panel.y(value)];
    panel.svg.append(draw("rect", { x: panel.x(step), width: wide, y: Math.min(from, to), height: Math.max(1, Math.abs(to - from)), fill: `var(${value > 0 ? "--good" : "--bad"})` }));
  });
  panel.at = (point) => { panel.name.textContent = point < values.length ? `${title}  ${brief(values[point])}` : title; };
  panel.finish();
}

function chancePanel(head) {
  const panel = new Panel("chances of its choices", 96);
  panel.axis(0, 1);
  const reach = head.p[0].length, floor = new Array(reach).fill(0);
  head.choices.forEach((name, place) => {
    const upper = floor.map((low, step) => low + head.p[place][step]);
    const there = upper.map((value, step) => `${panel.x(step).toFixed(1)},${panel.y(value).toFixed(1)}L${panel.x(step + 1).toFixed(1)},${panel.y(value).toFixed(1)}`);
    const back = floor.map((value, step) => `${panel.x(step + 1).toFixed(1)},${panel.y(value).toFixed(1)}L${panel.x(step).toFixed(1)},${panel.y(value).toFixed(1)}`).reverse();
    panel.svg.append(draw("path", { d: `M${[...there, ...back].join("L")}Z`, fill: `var(${place ? PALETTE[(place - 1) % PALETTE.length] : "--line"})`, opacity: place ? 0.85 : 0.55 }));
    floor.splice(0, reach, ...upper);
  });
  panel.at = (point) => {
    panel.name.replaceChildren(draw("tspan", {}, "chances of its choices"));
    if (point < reach) head.choices.forEach((name, place) => {
      if (panel.width < 480 && head.p[place][point] < 0.005) return;
      const colour = place ? `var(${PALETTE[(place - 1) % PALETTE.length]})` : "var(--dim)";
      panel.name.append(draw("tspan", { dx: 12, style: `fill: ${colour}` }, `${name} ${percent(head.p[place][point])}`));
    });
  };
  panel.finish();
}

function charts() {
  $("charts").replaceChildren();
  panels = [];
  const names = [...new Set(episode.lines.map((line) => line.panel).filter(Boolean))];
  names.forEach((name, place) => linePanel(name, episode.lines.filter((line) => line.panel === name), place === 0));
  if (episode.rewards.length) barPanel(data.reward, episode.rewards);
  if (episode.thoughts.length) chancePanel(episode.thoughts[0]);
  const told = Object.entries(episode.predictions);
  if (told.length) linePanel("chance of the end", told.map(([name, of]) => ({ name: name.replaceAll("_", " "), v: [...of, null], whole: 1, stepped: true, drawn: "value", chance: true })), false);
}

/* What stands beside them. */
function row(name, value, unit, kind = "") {
  return make("tr", { class: kind }, make("td", {}, name), make("td", { class: "v" }, value), make("td", { class: "u" }, unit));
}
function cell(name, value, unit, kind = "") {
  return make("div", { class: kind }, make("span", {}, name), make("b", {}, value), make("small", {}, unit));
}

function values(point) {
  $("values").replaceChildren(...episode.lines.map((line) => {
    const before = point ? line.v[point - 1] : line.v[point], value = line.v[point];
    const kind = value === null ? "unknown" : before !== value ? "changed" : "";
    return row(line.name, exact(value, line.whole), line.unit, kind);
  }));
}

function bar(name, value, chosen, colour) {
  const node = make("div", { class: `bar${chosen ? " chosen" : ""}` }, make("span", { title: name }, name), make("b"), make("span", { class: "num" }, percent(value)));
  node.style.setProperty("--w", `${100 * (value ?? 0)}%`);
  node.style.setProperty("--c", `var(${colour})`);
  return node;
}

function thoughts(point) {
  const box = $("thoughts");
  box.replaceChildren();
  if (point >= episode.steps) { box.append(make("p", { class: "dim" }, "The window is over.")); return; }
  const chosen = episode.words[point].split(" + ");
  episode.thoughts.forEach((head, number) => {
    if (number) box.append(make("div", { style: "height: 8px" }));
    head.choices.forEach((name, place) => {
      const chance = head.p[place][point], taken = chosen.includes(name);
      if (!number || chance >= 0.005 || taken) box.append(bar(name, chance, taken, place ? PALETTE[(place - 1) % PALETTE.length] : "--dim"));
    });
  });
  for (const [name, of] of Object.entries(episode.predictions)) box.append(bar(name.replaceAll("_", " "), of[point], false, "--bad"));
}

function seen(point) {
  if (!episode.rows.length) return;
  $("rows").replaceChildren(...episode.features.map((name, place) => {
    const value = episode.rows[place][point], before = episode.rows[place][Math.max(0, point - 1)];
    const unknown = episode.missing && episode.missing[place][point];
    return cell(name, unknown ? "unknown" : String(value), data.units[name] ?? "", unknown ? "unknown" : value !== before ? "changed" : "");
  }));
}

function said(point) {
  const texts = episode.said[Math.min(point, episode.said.length - 1)] ?? [];
  $("texts").replaceChildren(...texts.map((it) => {
    if (it.kind === "told") return make("details", {}, make("summary", {}, `${it.who} prompt`), make("div", { class: "said" }, it.text));
    return make("div", { class: `said said-${it.kind}` }, make("small", {}, `${it.who} ${it.kind}`), it.text);
  }));
}

function go(point) {
  at.point = clamp(point, 0, episode.steps);
  const p = at.point, over = p >= episode.steps, clock = episode.lines[0];
  panels.forEach((panel) => panel.move(p));
  $("step").textContent = over ? `end, after ${episode.steps} steps` : `step ${p + 1} of ${episode.steps}`;
  $("clock").textContent = clock ? `${clock.name} ${clock.v[p] ?? "–"}` : "";
  $("did").textContent = over ? "the end" : episode.words[p];
  $("did").className = over || episode.words[p] === "WAIT" || episode.words[p] === "hold" ? "dim" : "";
  const paid = over || !episode.rewards.length ? null : episode.rewards[p];
  const parts = over ? [] : Object.entries(episode.components).filter(([, of]) => of[p]).map(([name, of]) => `${name} ${brief(of[p])}`);
  $("paid").textContent = over ? `P&L of the window ${exact(episode.pnl, data.whole)} ${data.money}` : paid === null ? "" : `${data.reward} ${paid}${parts.length > 1 ? ` (${parts.join(", ")})` : ""}`;
  $("paid").className = `num ${sign(over ? episode.pnl : paid)}`;
  values(p); thoughts(p); seen(p); said(p);
  $("slider").value = p;
  for (const node of $("events").children) node.classList.toggle("dim", Number(node.dataset.point) > p);
  history.replaceState(null, "", `#${at.episode + 1}.${p}`);
}

function choose(number, point = 0) {
  at.episode = clamp(number, 0, data.episodes.length - 1);
  episode = opened(data.episodes[at.episode]);
  document.querySelectorAll("#strip button").forEach((node, place) => {
    node.setAttribute("aria-pressed", place === at.episode);
    if (place === at.episode) node.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  const many = data.episodes.length > 1, place = `${at.episode + 1} of ${data.episodes.length}: `;
  const flag = !many ? "" : at.episode === data.worst ? "the worst, " : at.episode === data.best ? "the best, " : "";
  $("which").replaceChildren(`${flag}${many ? place : ""}${episode.player} in ${episode.window}, `, make("b", { class: `num ${sign(episode.pnl)}` }, `${signed(episode.pnl, data.whole)} ${data.money}`));
  $("slider").max = episode.steps;
  $("seen").hidden = !episode.rows.length;
  $("said").hidden = !episode.said.length;
  $("thought").hidden = !episode.thoughts.length && !Object.keys(episode.predictions).length;
  $("about").textContent = episode.about;
  $("events").replaceChildren(...episode.marks.map((mark) => {
    const [sign, colour] = MARKS[mark.kind];
    const button = make("button", {}, make("span", { style: `color: var(${colour}); width: 1.1em` }, sign || "■"), make("span", {}, mark.text));
    button.addEventListener("click", () => { pause(); go(mark.point); });
    const item = make("li", {}, button);
    item.dataset.point = mark.point;
    return item;
  }));
  charts();
  go(point);
}

function strip() {
  const most = Math.max(1, ...data.episodes.map((it) => Math.abs(Number(it.pnl ?? 0))));
  $("strip").replaceChildren(...data.episodes.map((it, place) => {
    const flag = place === data.worst ? "worst" : place === data.best ? "best" : `${place + 1}`;
    const button = make("button", { title: `${it.player} in ${it.window}: ${exact(it.pnl, data.whole)} ${data.money}`, "aria-pressed": false },
      make("i"), make("span", { class: `num ${sign(it.pnl)}` }, signed(it.pnl, data.whole)), make("span", { class: "dim" }, flag));
    button.style.setProperty("--h", `${Math.max(4, 100 * Math.abs(Number(it.pnl ?? 0)) / most)}%`);
    button.style.setProperty("--c", `var(${it.pnl === null || Number(it.pnl) === 0 ? "--line" : Number(it.pnl) > 0 ? "--good" : "--bad"})`);
    button.addEventListener("click", () => { pause(); choose(place); });
    return button;
  }));
  $("strip").hidden = data.episodes.length < 2;
}

/* Playing. */
function frame(now) {
  if (!at.playing) return;
  const due = Math.floor(((now - last) / 1000) * SPEEDS[at.speed]);
  if (due > 0) { last = now; if (at.point + due >= episode.steps) { go(episode.steps); pause(); return; } go(at.point + due); }
  timer = requestAnimationFrame(frame);
}
function pause() { at.playing = false; cancelAnimationFrame(timer); $("play").textContent = "▶"; $("play").setAttribute("aria-label", "play"); }
function play() {
  if (at.point >= episode.steps) go(0);
  at.playing = true; last = performance.now(); $("play").textContent = "❚❚"; $("play").setAttribute("aria-label", "pause");
  timer = requestAnimationFrame(frame);
}
function faster(by) { at.speed = clamp(at.speed + by, 0, SPEEDS.length - 1); $("speed").textContent = `${SPEEDS[at.speed]}/s`; }
function event(by) {
  const points = episode.marks.map((mark) => mark.point).filter((point) => (by > 0 ? point > at.point : point < at.point));
  if (points.length) go(by > 0 ? Math.min(...points) : Math.max(...points));
}

const KEYS = {
  ArrowRight: (much) => { pause(); go(at.point + (much ? 10 : 1)); }, ArrowLeft: (much) => { pause(); go(at.point - (much ? 10 : 1)); },
  Home: () => { pause(); go(0); }, End: () => { pause(); go(episode.steps); },
  " ": () => (at.playing ? pause() : play()), "+": () => faster(1), "=": () => faster(1), "-": () => faster(-1),
  w: () => { pause(); choose(data.worst); }, b: () => { pause(); choose(data.best); },
  n: () => { pause(); choose(at.episode + 1); }, p: () => { pause(); choose(at.episode - 1); },
  e: () => { pause(); event(1); }, E: () => { pause(); event(-1); },
};
document.addEventListener("keydown", (pressed) => {
  const act = KEYS[pressed.key];
  if (!act || pressed.ctrlKey || pressed.metaKey || pressed.altKey) return;
  pressed.preventDefault();
  act(pressed.shiftKey);
});
for (const button of document.querySelectorAll("#keys [data-key]"))
  button.addEventListener("click", () => { KEYS[button.dataset.key](false); button.blur(); });
$("slider").addEventListener("input", () => { pause(); go(Number($("slider").value)); });
let dragging = false;
const point = (moved) => {
  const box = $("charts").getBoundingClientRect(), inner = box.width - 14 - LEFT - RIGHT;
  pause(); go(Math.round(((moved.clientX - box.left - 7 - LEFT) / inner) * episode.steps));
};
$("charts").addEventListener("pointerdown", (moved) => { dragging = true; point(moved); });
addEventListener("pointermove", (moved) => { if (dragging) point(moved); });
addEventListener("pointerup", () => { dragging = false; });
addEventListener("pointercancel", () => { dragging = false; });
let resizing = 0;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { charts(); go(at.point); }, 120); });
addEventListener("beforeprint", () => { charts(); go(at.point); });

strip();
faster(0);
const [asked, where] = location.hash.slice(1).split(".").map(Number);
choose(asked >= 1 ? asked - 1 : 0, where >= 0 ? where : 0);
