// Runs in every document of a page whose buttons are being named, in a world of its own. Shows what is under the
// pointer and what was pressed, and reports each press with selectors for its element. The page does not get the press,
// unless Alt is held: naming a button must not buy anything. CONFIG is { binding }.
((config) => {
  if (globalThis.playproofPicks) return;
  globalThis.playproofPicks = true;
  const send = (message) => globalThis[config.binding](JSON.stringify(message));
  const KINDS = ["pointerdown", "mousedown", "pointerup", "mouseup", "click", "auxclick", "dblclick", "touchstart"];
  const LIKE_BUTTONS = "button, a, input, select, textarea, summary, label, [role], [onclick]";
  const GOOD_DATA = ["data-testid", "data-test", "data-cy", "data-qa", "data-button", "data-action"];
  let active = true;

  // Names that frameworks make up (css-1x2y3z, :r5:, item-48211) change with the next load.
  const isMadeUp = (name) =>
    name.length > 40 || /[:{}]|\d{3,}|^(css|sc|jss|emotion|svelte|chakra|mui)-/i.test(name) ||
    /(?=[a-z]*\d)(?=\d*[a-z])[a-z\d]{6,}$/i.test(name);
  const quote = (value) => `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  const textOf = (node) =>
    String((/^(INPUT|TEXTAREA|SELECT)$/.test(node.tagName) ? "" : node.textContent) ?? "").replace(/\s+/g, " ").trim();

  const matching = (root, { css, text }) =>
    [...root.querySelectorAll(css)].filter((node) => text === null || textOf(node) === text);
  const write = ({ css, text }) => css + (text === null ? "" : `:text(${quote(text)})`);

  // What says most about an element, best first: marks for tests, id, labels, text, classes.
  const marks = (node) => {
    const tag = node.localName;
    const steps = [];
    const add = (css, text = null) => steps.push({ css, text });
    const names = node.getAttributeNames();
    const data = names.filter((name) => name.startsWith("data-"));
    const attribute = (name) => {
      const value = node.getAttribute(name);
      if (value && value.length <= 40 && !/\d{5,}/.test(value)) add(`${tag}[${name}=${quote(value)}]`);
    };
    GOOD_DATA.filter((name) => data.includes(name)).forEach(attribute);
    if (node.id && !isMadeUp(node.id)) add(`#${CSS.escape(node.id)}`);
    ["aria-label", "name", "title", "value", "inputmode", "placeholder", "alt"]
      .filter((name) => names.includes(name)).forEach(attribute);
    data.filter((name) => !GOOD_DATA.includes(name)).forEach(attribute);
    const text = textOf(node);
    if (text && text.length <= 40 && node.matches(LIKE_BUTTONS)) add(tag, text);
    const classes = [...node.classList].filter((name) => !isMadeUp(name));
    for (const name of classes) add(`${tag}.${CSS.escape(name)}`);
    if (classes.length > 1) add(tag + classes.map((name) => `.${CSS.escape(name)}`).join(""));
    if (node.getAttribute("role")) attribute("role");
    add(tag);
    return steps;
  };

  // Selectors that fit an element alone in its document or shadow root, best first; the last is its position.
  const selectorsIn = (root, node) => {
    const alone = (step) => {
      const nodes = matching(root, step);
      return nodes.length === 1 && nodes[0] === node;
    };
    const own = marks(node);
    const results = own.filter(alone);
    for (let outer = node.parentElement; outer && results.length < 8; outer = outer.parentElement) {
      const anchor = marks(outer).find((step) => step.text === null && matching(root, step).length === 1);
      if (!anchor) continue;
      for (const { css, text } of own) results.push({ css: `${anchor.css} ${css}`, text });
    }
    let path = "";
    for (let at = node; at; at = at.parentElement) {
      const nth = [...(at.parentNode?.children ?? [])].filter((one) => one.localName === at.localName).indexOf(at) + 1;
      path = `${at.localName}:nth-of-type(${Math.max(nth, 1)})${path && ` > ${path}`}`;
    }
    return [...results.filter(alone), { css: path, text: null }];
  };

  // Paths from the document through shadow hosts to an element.
  const pathsTo = (node) => {
    const root = node.getRootNode();
    const own = selectorsIn(root, node).map(write);
    if (!root.host) return own;
    const [outer] = pathsTo(root.host);
    return own.map((path) => `${outer} >>> ${path}`);
  };
  globalThis.playproofPaths = pathsTo;

  // How many elements the steps of a path fit in this document.
  globalThis.playproofCount = (steps) => {
    let roots = [document];
    let nodes = [];
    for (const step of steps) {
      nodes = roots.flatMap((root) => matching(root, step));
      roots = nodes.map((node) => node.shadowRoot).filter(Boolean);
    }
    return nodes.length;
  };

  // The frame and the note stand beside the page's body; a closed root keeps the page's styles out.
  const layer = document.createElement("playproof-picker");
  layer.style.cssText = "position:fixed;inset:0;z-index:2147483647;pointer-events:none;display:block;margin:0;border:0";
  const inner = layer.attachShadow({ mode: "closed" });
  const box = document.createElement("div");
  const note = document.createElement("div");
  note.style.cssText =
    "position:fixed;left:50%;top:8px;transform:translateX(-50%);padding:8px 14px;border-radius:8px;background:#10131a;" +
    "color:#fff;font:600 14px/1.4 system-ui,sans-serif;box-shadow:0 2px 12px #0008;max-width:90vw;display:none";
  inner.append(box, note);
  const show = () => {
    if (active && document.documentElement && !layer.isConnected) document.documentElement.append(layer);
  };
  const frame = (node, colour, label) => {
    show();
    const { left, top, width, height } = node.getBoundingClientRect();
    box.style.cssText =
      `position:fixed;left:${left - 3}px;top:${top - 3}px;width:${width}px;height:${height}px;border:3px solid ${colour};` +
      "border-radius:4px;font:600 12px/1 system-ui,sans-serif;color:#fff;text-shadow:0 0 3px #000";
    box.textContent = label;
  };
  let asked = { name: "", field: false };
  globalThis.playproofAsk = (name, field, text) => {
    asked = { name, field };
    show();
    note.textContent = text;
    note.style.display = globalThis === globalThis.top ? "block" : "none";
  };

  const elementAt = (event) => {
    const path = event.composedPath().filter((node) => node.nodeType === Node.ELEMENT_NODE && node !== layer);
    const like = path.find((node) => node.matches(LIKE_BUTTONS) || getComputedStyle(node).cursor === "pointer");
    return asked.field ? path[0] : like ?? path[0];
  };
  const onMove = (event) => {
    const node = elementAt(event);
    if (node) frame(node, "#2f81f7", "");
  };
  const onPress = (event) => {
    if (!event.isTrusted || event.altKey) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (event.type !== "pointerdown" || event.button !== 0) return; // a replaced button gets no click
    const node = elementAt(event);
    if (!node) return;
    frame(node, "#2da44e", asked.name);
    send({ pick: true, paths: pathsTo(node), text: textOf(node).slice(0, 40) });
  };
  const onKey = (event) => {
    if (!event.isTrusted || event.key !== "Escape") return;
    event.stopImmediatePropagation();
    send({ skip: true });
  };
  for (const kind of KINDS) addEventListener(kind, onPress, { capture: true, passive: false });
  addEventListener("pointermove", onMove, { capture: true, passive: true });
  addEventListener("keydown", onKey, { capture: true });
  globalThis.playproofDone = () => {
    active = false;
    layer.remove();
    for (const kind of KINDS) removeEventListener(kind, onPress, { capture: true });
    removeEventListener("pointermove", onMove, { capture: true });
    removeEventListener("keydown", onKey, { capture: true });
  };
  send({ hello: true, top: globalThis === globalThis.top });
})(CONFIG);
