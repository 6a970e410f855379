// The page in the browser: it draws charts when they are in sight, follows the page's stream, and takes keys.
// Without it every page still reads: nothing here is needed to see or to send anything.

const body = document.body;
const status = document.getElementById("live");
const script = body.dataset.chartScript;
let loading = null;

/** Load the chart script once, when the first chart comes into sight. */
function charts() {
  loading ??= new Promise((resolve) => {
    const node = document.createElement("script");
    node.src = script;
    node.onload = resolve;
    document.head.append(node);
  });
  return loading;
}

const drawn = new Map(); // name of a chart to what draws it, to be updated in place
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    charts().then(() => draw(target));
  }
}, { rootMargin: "200px" });

function describe(figure) {
  return JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
}

function nameOf(figure) {
  const block = figure.closest("[data-block]");
  return `${block?.id}/${[...(block?.querySelectorAll("figure") ?? [])].indexOf(figure)}`;
}

function draw(figure) {
  if (!figure.isConnected || figure.classList.contains("chart")) return;
  drawn.set(nameOf(figure), new window.playproof.Chart(figure, describe(figure)));
}

function watchCharts(root) {
  for (const figure of root.querySelectorAll("figure[data-chart]")) {
    figure.toggleAttribute("data-waiting", true);
    figure.removeAttribute("data-chart"); // the chart script would else draw it before it is in sight
    seen.observe(figure);
  }
}

/** Put new content into a block; fields that somebody is typing into, and open folds, stay. */
function swap(name, html) {
  const block = document.getElementById(name);
  if (!block || (block.contains(document.activeElement) && /INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName))) return false;
  const fresh = document.createElement("template");
  fresh.innerHTML = html; // written by this server's template, which escapes
  const open = [...block.querySelectorAll("details")].map((node) => node.open);
  const figures = [...block.querySelectorAll("figure.chart")];
  const fromServer = [...fresh.content.querySelectorAll("figure[data-chart]")];
  if (figures.length && figures.length === fromServer.length && block.querySelectorAll("figure").length === figures.length) {
    // the same charts with more points: they keep their zoom and are not built again
    fromServer.forEach((figure, index) => {
      const chart = drawn.get(`${name}/${index}`);
      if (!chart) return;
      chart.update(describe(figure));
      const [numbers, fewer] = [figure, figures[index]].map((node) => node.querySelector("details"));
      if (numbers && fewer) fewer.replaceWith(numbers);
      figure.replaceWith(figures[index]);
    });
  }
  block.replaceChildren(fresh.content);
  block.querySelectorAll("details").forEach((node, index) => { if (open[index]) node.open = true; });
  watchCharts(block);
  block.classList.remove("new");
  void block.offsetWidth;
  block.classList.add("new");
  return true;
}

let cursor = body.dataset.cursor;
function take(text) {
  const message = JSON.parse(text);
  let whole = true;
  for (const [name, html] of Object.entries(message.blocks)) whole = swap(name, html) && whole;
  if (whole) cursor = message.cursor;
  body.dataset.changes = String(Number(body.dataset.changes ?? 0) + 1);
}

const say = (text) => { if (status.textContent !== text) status.textContent = text; };

/** Follow the page's stream; where it breaks, poll with the same cursor until it stands again. */
function follow() {
  const address = (kind) => `/live/${kind}?at=${encodeURIComponent(body.dataset.live)}&cursor=${encodeURIComponent(cursor)}`;
  let stream = null, pause = 1000, timer = 0;
  const open = () => {
    stream = new EventSource(address("stream"));
    stream.onopen = () => { say("live"); body.dataset.stream = "open"; pause = 1000; };
    stream.onmessage = (event) => take(event.data);
    stream.onerror = () => {
      stream.close();
      say("reconnecting");
      body.dataset.stream = "broken";
      clearTimeout(timer);
      timer = setTimeout(poll, pause);
      pause = Math.min(pause * 2, 15000);
    };
  };
  const poll = async () => {
    try {
      const answer = await fetch(address("poll"), { credentials: "same-origin" });
      if (answer.status === 401) return say("signed out: open a new link");
      if (answer.ok && answer.status !== 204) take(await answer.text());
      open();
    } catch {
      timer = setTimeout(poll, pause);
      pause = Math.min(pause * 2, 15000);
    }
  };
  document.addEventListener("visibilitychange", () => {
    // a page that nobody sees costs nothing
    if (document.hidden) { stream?.close(); clearTimeout(timer); body.dataset.stream = "hidden"; } else poll();
  });
  open();
}

// Keys press what names them: the buttons and links of the review queue. t and n go to its fields.
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) return;
  const pressed = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  const field = { t: "tags", n: "note" }[event.key];
  const wanted = pressed ?? (field && document.querySelector(`#mark [name=${field}]`));
  if (!wanted) return;
  event.preventDefault();
  if (pressed) pressed.click(); else wanted.focus();
});

watchCharts(document);
body.dataset.ready = "yes";
if (body.dataset.live) follow();
