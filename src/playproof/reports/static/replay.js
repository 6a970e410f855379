"use strict";
let data = null;
const $ = (id) => document.getElementById(id);
const SPEEDS = [1, 2, 4, 8, 16, 32, 64, 128];
const { PALETTE } = playproof;
/* Of the choices of a head, waiting first: as in reports/chart.py. */
const ACTIONS = ["dim", "good", "warn", "blue", "violet", "teal", "pink", "olive", "bad"];
/* For each kind of mark: its symbol in charts, its colour, its sign in the list. */
const MARKS = { entry: ["up", "good", "▲"], exit: ["down", "warn", "▼"], bet: ["circle", "blue", "●"], won: ["star", "good", "★"],
  lost: ["cross", "bad", "✕"], end: ["", "bad", "■"] };
const at = { episode: -1, point: 0, playing: false, speed: 3 };
let episode = null, panels = [], timer = 0, last = 0;

const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
/* Colours are set as properties: the page's policy allows no style attributes. */
const coloured = (node, colour) => { node.style.setProperty("--c", `var(--${colour})`); return node; };
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/* A column is a list, or only its changes: where they are and what comes. */
function expand(column) {
  if (Array.isArray(column)) return column;
  const out = new Array(column.n);
  column.at.forEach((start, index) => out.fill(column.v[index], start, column.at[index + 1] ?? column.n));
  return out;
}

function opened(payload) {
  const words = expand(payload.actions).map((index) => payload.words[index]);
  return { ...payload, words, steps: words.length,
    lines: payload.lines.map((line) => ({ ...line, v: expand(line.v) })),
    rewards: expand(payload.rewards), rows: payload.rows.map(expand),
    missing: payload.missing && payload.missing.map(expand),
    components: Object.fromEntries(Object.entries(payload.components).map(([name, of]) => [name, expand(of)])),
    thoughts: payload.thoughts.map((head) => ({ choices: head.choices, p: head.p.map(expand) })),
    predictions: Object.fromEntries(Object.entries(payload.predictions).map(([name, of]) => [name, expand(of)])) };
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

/* Charts: each panel is a chart of the shared module with a line of values above it; all have the same x. */

/* The end of a window may lie far below all that came before: it is drawn as a fall, and does not set the scale. */
function span(lists, ending) {
  const inside = lists.flatMap((values) => (ending ? values.slice(0, -1) : values)).filter((value) => value !== null);
  const all = lists.flat().filter((value) => value !== null);
  if (!all.length) return [0, 1];
  let [low, high] = [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))];
  const least = inside.reduce((a, b) => Math.min(a, b), Infinity);
  if (ending && inside.length && low < 0.5 * least) low = least;
  if (low === high) { const pad = Math.abs(low) * 0.01 || 1; low -= pad; high += pad; }
  return [low, high];
}

function drawn(line) {
  const values = line.v.map((value) => scaled(value, line.whole));
  const first = values.find((value) => value !== null);
  if (line.drawn === "move") return values.map((value) => (value === null ? null : 100 * (value / first - 1)));
  return line.drawn === "change" ? values.map((value) => (value === null ? null : value - first)) : values;
}

/* Add a panel; `entries(point)` gives what its name says there: pairs of a text and a colour. */
function addPanel(title, described, entries) {
  const node = make("div", { class: "panel" }), name = make("div", { class: "panel-name num" });
  node.append(name);
  $("charts").append(node);
  const chart = new playproof.Chart(node, { x: { range: [0, Math.max(1, episode.steps)] }, gutter: innerWidth < 520 ? 44 : 62, small: "bare", zoom: false, keys: false, hover: false, legend: false, label: title, ...described });
  panels.push({ chart, move: (point) => {
    chart.moveCursor(point);
    name.replaceChildren(make("b", {}, title), ...entries(point).map(([text, colour]) => coloured(make("span", {}, text), colour)));
  } });
}

function linePanel(title, lines, tall) {
  const values = lines.map(drawn), points = values[0].map((_, point) => point);
  const ends = episode.marks.filter((mark) => mark.kind === "end" && lines.some((line) => line.name === mark.line));
  const [low, high] = lines[0].chance ? [0, Math.max(0.4, ...values.flat())] : span(values, tall && ends.length);
  const room = (tall ? 0.06 : 0.08) * (high - low);
  const log = tall && lines[0].drawn === "value" && low > 0 && high / low > 6;
  const series = lines.map((line, index) => ({ name: line.name, x: points, y: values[index], step: line.stepped, width: tall ? 2 : 1.6, colour: PALETTE[index % PALETTE.length] }));
  for (const kind of new Set(episode.marks.map((mark) => mark.kind))) {
    const [symbol, colour] = MARKS[kind];
    const shown = episode.marks.filter((mark) => mark.kind === kind && lines.some((line) => line.name === mark.line));
    const heights = shown.map((mark) => values[lines.findIndex((line) => line.name === mark.line)][mark.point]);
    if (symbol && shown.length) series.push({ kind: "marker", name: kind, x: shown.map((mark) => mark.point), y: heights, symbol, colour, text: shown.map((mark) => mark.text) });
  }
  const held = episode.lines.filter((line) => line.panel.startsWith("position"));
  const spans = tall ? stretches(points.map((point) => held.some((line) => line.v[point] !== null && Number(line.v[point]) !== 0))) : [];
  addPanel(title, {
    height: tall ? 290 : 76, series, spans, hover: tall ? "point" : false,
    y: { kind: log ? "log" : "linear", range: log ? [low * 0.94, high * 1.08] : [low - room, high + room], unit: lines[0].drawn === "move" ? " %" : "", percent: Boolean(lines[0].chance) },
    levels: tall ? ends.map((mark) => ({ value: mark.point, axis: "x", colour: "bad", dash: "dot" })) : [],
  }, (point) => lines.flatMap((line, index) => {
    const value = values[index][point];
    if (lines.length > 2 && innerWidth < 520 && !Number(line.v[point])) return [];
    const text = line.drawn === "change" ? `${value > 0 ? "+" : ""}${brief(value)}` : line.chance ? percent(value ?? null) : brief(scaled(line.v[point], line.whole));
    return [[`${lines.length > 1 ? `${line.name} ` : ""}${text}`, PALETTE[index % PALETTE.length]]];
  }));
}

/* Give the stretches of points at which something holds. */
function stretches(holds) {
  const spans = [];
  holds.forEach((held, point) => {
    if (held && !holds[point - 1]) spans.push({ from: point, to: episode.steps, colour: "good" });
    if (!held && holds[point - 1]) spans.at(-1).to = point;
  });
  return spans;
}

function barPanel(title, values) {
  const points = values.map((_, step) => step + 0.5); // between the points before and after the step
  addPanel(title, { height: 68, series: [{ kind: "bar", name: title, x: points, y: values, colour: "good", negative: "bad" }] },
    (point) => (point < values.length ? [[brief(values[point]), values[point] < 0 ? "bad" : values[point] > 0 ? "good" : "dim"]] : []));
}

function chancePanel(head) {
  const steps = head.p[0].map((_, step) => step);
  const colours = head.choices.map((_, index) => (index ? ACTIONS[index % ACTIONS.length] : "faint"));
  addPanel("chances of its choices", {
    height: 80, stacked: true, y: { range: [0, 1], percent: true },
    series: head.choices.map((name, index) => ({ kind: "area", name, x: [...steps, steps.length], y: [...head.p[index], head.p[index].at(-1)], step: true, colour: colours[index] })),
  }, (point) => (point >= steps.length ? [] : head.choices.flatMap((name, index) => (
    innerWidth < 520 && head.p[index][point] < 0.005 ? [] : [[`${name} ${percent(head.p[index][point])}`, index ? colours[index] : "dim"]]))));
}

function charts() {
  for (const panel of panels) panel.chart.destroy();
  $("charts").replaceChildren();
  panels = [];
  const names = [...new Set(episode.lines.map((line) => line.panel).filter(Boolean))];
  names.forEach((name, index) => linePanel(name, episode.lines.filter((line) => line.panel === name), index === 0));
  if (episode.rewards.length) barPanel(data.reward, episode.rewards);
  if (episode.thoughts.length) chancePanel(episode.thoughts[0]);
  const predictions = Object.entries(episode.predictions);
  if (predictions.length) linePanel("chance of the end", predictions.map(([name, values]) => ({ name: name.replaceAll("_", " "), v: [...values, null], whole: 1, stepped: true, drawn: "value", chance: true })), false);
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
  return coloured(node, colour);
}

function thoughts(point) {
  const box = $("thoughts");
  box.replaceChildren();
  if (point >= episode.steps) { box.append(make("p", { class: "dim" }, "The window is over.")); return; }
  const chosen = episode.words[point].split(" + ");
  episode.thoughts.forEach((head, number) => {
    if (number) box.append(make("hr"));
    head.choices.forEach((name, index) => {
      const chance = head.p[index][point], taken = chosen.includes(name);
      if (!number || chance >= 0.005 || taken) box.append(bar(name, chance, taken, ACTIONS[index % ACTIONS.length]));
    });
  });
  for (const [name, of] of Object.entries(episode.predictions)) box.append(bar(name.replaceAll("_", " "), of[point], false, "bad"));
}

function seen(point) {
  if (!episode.rows.length) return;
  $("rows").replaceChildren(...episode.features.map((name, index) => {
    const value = episode.rows[index][point], before = episode.rows[index][Math.max(0, point - 1)];
    const unknown = episode.missing && episode.missing[index][point];
    return cell(name, unknown ? "unknown" : String(value), data.units[name] ?? "", unknown ? "unknown" : value !== before ? "changed" : "");
  }));
}

function said(point) {
  const texts = episode.said[Math.min(point, episode.said.length - 1)] ?? [];
  $("texts").replaceChildren(...texts.map(({ kind, who, text }) => {
    if (kind === "told") return make("details", {}, make("summary", {}, `${who} prompt`), make("div", { class: "said" }, text));
    return make("div", { class: `said said-${kind}` }, make("small", {}, `${who} ${kind}`), text);
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
  document.querySelectorAll("#strip button").forEach((node, index) => {
    node.setAttribute("aria-pressed", index === at.episode);
    if (index === at.episode) node.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  const many = data.episodes.length > 1, position = `${at.episode + 1} of ${data.episodes.length}: `;
  const flag = !many ? "" : at.episode === data.worst ? "the worst, " : at.episode === data.best ? "the best, " : "";
  $("which").replaceChildren(`${flag}${many ? position : ""}${episode.player} in ${episode.window}, `, make("b", { class: `num ${sign(episode.pnl)}` }, `${signed(episode.pnl, data.whole)} ${data.money}`));
  $("slider").max = episode.steps;
  $("seen").hidden = !episode.rows.length;
  $("said").hidden = !episode.said.length;
  $("thought").hidden = !episode.thoughts.length && !Object.keys(episode.predictions).length;
  $("about").textContent = episode.about;
  $("events").replaceChildren(...episode.marks.map((mark) => {
    const [, colour, sign] = MARKS[mark.kind];
    const button = make("button", {}, coloured(make("span", {}, sign), colour), make("span", {}, mark.text));
    button.addEventListener("click", () => { pause(); go(mark.point); });
    const item = make("li", {}, button);
    item.dataset.point = mark.point;
    return item;
  }));
  charts();
  go(point);
}

function strip() {
  const most = Math.max(1, ...data.episodes.map(({ pnl }) => Math.abs(Number(pnl ?? 0))));
  $("strip").replaceChildren(...data.episodes.map(({ player, window, pnl }, index) => {
    const flag = index === data.worst ? "worst" : index === data.best ? "best" : `${index + 1}`;
    const button = make("button", { title: `${player} in ${window}: ${exact(pnl, data.whole)} ${data.money}`, "aria-pressed": false },
      make("i"), make("span", { class: `num ${sign(pnl)}` }, signed(pnl, data.whole)), make("span", { class: "dim" }, flag));
    button.style.setProperty("--h", `${Math.max(4, 100 * Math.abs(Number(pnl ?? 0)) / most)}%`);
    button.addEventListener("click", () => { pause(); choose(index); });
    return coloured(button, pnl === null || Number(pnl) === 0 ? "line" : Number(pnl) > 0 ? "good" : "bad");
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
  pause(); go(Math.round(panels[0].chart.xAt(moved.clientX)));
};
$("charts").addEventListener("pointerdown", (moved) => { dragging = true; point(moved); });
addEventListener("pointermove", (moved) => { if (dragging) point(moved); });
addEventListener("pointerup", () => { dragging = false; });
addEventListener("pointercancel", () => { dragging = false; });

function start(text) {
  data = JSON.parse(text);
  strip();
  faster(0);
  const [asked, where] = location.hash.slice(1).split(".").map(Number);
  choose(asked >= 1 ? asked - 1 : 0, where >= 0 ? where : 0);
}

/* Long replays are packed. */
if ($("data").type === "application/json") start($("data").textContent);
else {
  const bytes = Uint8Array.from(atob($("data").textContent), (letter) => letter.charCodeAt(0));
  new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text().then(start);
}
