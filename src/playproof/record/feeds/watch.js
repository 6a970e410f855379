// Runs in every document of a recorded page, in a world of its own: sees presses, changes nothing.
// CONFIG is { binding, buttons: [{ id, selector, key, category }], fields: [[name, selector]] }.
((config) => {
  if (globalThis.playproofWatches) return;
  globalThis.playproofWatches = true;
  const send = (message) => globalThis[config.binding](JSON.stringify(message));
  const inputs = new Set(["INPUT", "TEXTAREA", "SELECT"]);
  let pressed = null; // a press whose fields are read once the page has taken it
  let key = null; // the trusted key press that is being handled now

  const textOf = (node) => String((inputs.has(node.tagName) ? node.value : node.textContent) ?? "").slice(0, 64);

  const fields = () => {
    const found = {};
    for (const [name, selector] of config.fields) {
      const node = document.querySelector(selector);
      if (node) found[name] = textOf(node);
    }
    return found;
  };

  const finish = () => {
    if (!pressed) return;
    const { timer, before, action, ...press } = pressed;
    pressed = null;
    clearTimeout(timer);
    send({ ...press, fields: action ? before : fields() });
  };

  const begin = (button, event, input) => {
    finish();
    const now = performance.now();
    const time = event.timeStamp > 0 && event.timeStamp <= now ? event.timeStamp : now;
    pressed = {
      button_id: button.id, input, time, origin: performance.timeOrigin,
      action: button.category === "action", before: fields(), timer: setTimeout(finish, 0),
    };
  };

  const buttonAt = (event) => {
    for (const node of event.composedPath()) {
      if (!(node instanceof Element)) continue;
      const found = config.buttons.find(({ selector }) => selector && node.matches(selector));
      if (found) return found;
    }
    return null;
  };

  const isTyping = (event) => {
    const node = event.composedPath()[0];
    return node instanceof Element && (inputs.has(node.tagName) || node.isContentEditable);
  };

  addEventListener("click", (event) => {
    const button = buttonAt(event);
    if (!button) return;
    if (event.isTrusted) begin(button, event, "click");
    else if (key) begin(button, key, "key");
  }, { capture: true, passive: true });

  addEventListener("keydown", (event) => {
    if (!event.isTrusted) return;
    key = event;
    setTimeout(() => { if (key === event) key = null; }, 0);
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyping(event)) return;
    const button = config.buttons.find((one) => !one.selector && one.key === event.key.toLowerCase());
    if (button) begin(button, event, "key");
  }, { capture: true, passive: true });

  addEventListener("pagehide", finish, { capture: true });
  const { timeOrigin: origin } = performance;
  send({ hello: true, origin, now: performance.now(), top: globalThis === globalThis.top });
})(CONFIG);
