// Runs in every document of a recorded page, in a world of its own: sees presses, changes nothing.
// CONFIG is { binding, buttons: [{ id, steps, key, category, event }], fields: [[name, steps]] }. Steps are the parts
// of a selector between `>>>`, each { css, text }: every step but the last names a shadow host or a frame.
((config) => {
  if (globalThis.playproofWatches) return;
  globalThis.playproofWatches = true;
  const send = (message) => globalThis[config.binding](JSON.stringify(message));
  const inputs = new Set(["INPUT", "TEXTAREA", "SELECT"]);
  let pressed = null; // a press whose fields are read once the page has taken it
  let key = null; // the trusted key press that is being handled now
  let down = null; // the button under the pointer that went down, to notice a click that the browser drops

  // A wrong selector would throw at every press: it is reported once and left out.
  const broken = [];
  const works = (name, steps) => {
    try {
      for (const { css } of steps ?? []) document.createDocumentFragment().querySelector(css);
      return true;
    } catch (error) {
      broken.push([name, String(error.message)]);
      return false;
    }
  };
  const buttons = config.buttons.filter(({ id, steps }) => works(id, steps));
  const watchedFields = config.fields.filter(([name, steps]) => works(name, steps));

  const valueOf = (node) => String((inputs.has(node.tagName) ? node.value : node.textContent) ?? "");
  const fits = (node, { css, text }) =>
    node.matches(css) && (text === null || valueOf(node).replace(/\s+/g, " ").trim() === text);

  // Match a node and the shadow hosts around it, from the inside out. Gives the steps that are left for the frames
  // around this document, or null. A document does not see a frame of another origin that holds it: Python asks there.
  const rest = (node, steps) => {
    let left = steps;
    for (let at = node; at && left.length; at = at.getRootNode().host) {
      if (!fits(at, left.at(-1))) return null;
      left = left.slice(0, -1);
    }
    return left;
  };
  globalThis.playproofRest = rest;

  // Nodes of other frames are made by other constructors, so their type is asked by number.
  const isElement = (node) => node.nodeType === Node.ELEMENT_NODE;

  // The path of an event is read when it arrives, so a button that the page replaced a moment ago is known as well.
  const buttonsAt = (event, kind) => {
    const isTop = globalThis === globalThis.top;
    for (const node of event.composedPath()) {
      if (!node.nodeType || !isElement(node)) continue;
      const matches = [];
      for (const { id, steps, category, event: wanted } of buttons) {
        const outer = steps && wanted === kind ? rest(node, steps) : null;
        if (outer && (!outer.length || !isTop)) matches.push({ id, category, outer });
      }
      if (matches.length) return node.disabled ? [] : matches;
    }
    return [];
  };

  const inside = (node) => {
    try {
      return node.shadowRoot ?? node.contentDocument ?? null;
    } catch {
      return null;
    }
  };
  const search = (root, [step, ...more]) => {
    for (const node of root.querySelectorAll(step.css)) {
      if (!fits(node, step)) continue;
      if (!more.length) return node;
      const inner = inside(node);
      const match = inner && search(inner, more);
      if (match) return match;
    }
    return null;
  };

  // A field is looked up in the press's own document, then in the documents around it, as far as the origin allows.
  const readFields = () => {
    const values = {};
    for (const [name, steps] of watchedFields) {
      for (let view = globalThis; ; view = view.parent) {
        let match = null;
        try {
          match = search(view.document, steps);
        } catch {
          break;
        }
        if (match) values[name] = valueOf(match).slice(0, 64);
        if (match || view === view.parent) break;
      }
    }
    return values;
  };

  const finish = () => {
    if (!pressed) return;
    const { timer, before, action, ...press } = pressed;
    pressed = null;
    clearTimeout(timer);
    send({ ...press, fields: action ? before : readFields() });
  };

  const begin = (matches, event, input) => {
    finish();
    const now = performance.now();
    const time = event.timeStamp > 0 && event.timeStamp <= now ? event.timeStamp : now;
    pressed = {
      buttons: matches.map(({ id, outer }) => ({ id, outer })), input, time, origin: performance.timeOrigin,
      action: matches[0].category === "action", before: readFields(), timer: setTimeout(finish, 0),
    };
  };

  const isTyping = (event) => {
    const node = event.composedPath()[0];
    return isElement(node) && (inputs.has(node.tagName) || node.isContentEditable);
  };

  const onClick = (event) => {
    const matches = buttonsAt(event, "click");
    if (!matches.length) return;
    const counted = down?.counted === matches[0].id;
    if (event.isTrusted && counted) down = null;
    else if (event.isTrusted) begin(matches, event, "click");
    else if (key) begin(matches, key, "key");
  };

  const onPointer = (event) => {
    if (!event.isTrusted || event.button !== 0 || event.isPrimary === false) return;
    const matches = buttonsAt(event, event.type);
    if (matches.length) begin(matches, event, "click");
    // A page that replaces a button while the pointer is down on it gets no click; the person pressed all the same.
    if (event.type === "pointerdown") {
      const [match] = buttonsAt(event, "click");
      down = match ? { id: match.id, node: event.composedPath()[0] } : null;
    } else if (event.type === "pointerup" && down && !down.node.isConnected) {
      const clicked = buttonsAt(event, "click");
      if (clicked[0]?.id !== down.id) return;
      down = { ...down, counted: down.id };
      begin(clicked, event, "click");
    }
  };

  const onKey = (event) => {
    if (!event.isTrusted) return;
    key = event;
    setTimeout(() => { if (key === event) key = null; }, 0);
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyping(event)) return;
    const button = buttons.find((one) => !one.steps && one.key === event.key.toLowerCase());
    if (button) begin([{ ...button, outer: [] }], event, "key");
  };

  const listen = () => {
    const options = { capture: true, passive: true };
    addEventListener("click", onClick, options);
    addEventListener("keydown", onKey, options);
    for (const kind of ["pointerdown", "pointerup", "mousedown", "mouseup"]) addEventListener(kind, onPointer, options);
    addEventListener("pagehide", finish, options);
  };
  listen();
  // document.open() of the page takes all listeners away; adding the same ones again is nothing where they still are.
  setInterval(listen, 500);
  const { timeOrigin: origin } = performance;
  send({ hello: true, origin, now: performance.now(), top: globalThis === globalThis.top, broken });
})(CONFIG);
