// A small Socket.IO client (Engine.IO 4, WebSocket only): events, acks, pings, reconnects.
// Leaves out: polling, binary events, namespaces.

const FIRST_PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 5000;
const ACK_MS = 5000;

export class Socket {
  /** `auth()` gives the record that the connect packet carries. */
  constructor(url, auth) {
    this.url = url;
    this.auth = auth;
    this.listeners = new Map();
    this.acks = new Map();
    this.nextAck = 0;
    this.pause = FIRST_PAUSE_MS;
    this.connected = false;
    this.stopped = false;
  }

  on(event, listener) {
    this.listeners.set(event, [...(this.listeners.get(event) || []), listener]);
    return this;
  }

  connect() {
    this.stopped = false;
    clearTimeout(this.retry);
    const socket = new WebSocket(`${this.url}?EIO=4&transport=websocket`);
    this.socket = socket;
    socket.onmessage = (message) => socket === this.socket && this.take(message.data);
    socket.onclose = () => socket === this.socket && this.lost();
  }

  close() {
    this.stopped = true;
    clearTimeout(this.retry);
    clearTimeout(this.silence);
    const socket = this.socket;
    this.socket = null;
    this.connected = false;
    if (socket) socket.close();
  }

  /** Send an event and give a promise of its ack. */
  call(event, payload) {
    if (!this.connected) return Promise.reject(new Error("There is no connection right now."));
    const id = this.nextAck++;
    this.socket.send(`42${id}${JSON.stringify([event, payload])}`);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.fail(id, "The server did not answer."), ACK_MS);
      this.acks.set(id, { resolve, reject, timer });
    });
  }

  fail(id, reason) {
    const waiting = this.acks.get(id);
    this.acks.delete(id);
    if (!waiting) return;
    clearTimeout(waiting.timer);
    waiting.reject(new Error(reason));
  }

  say(event, ...values) {
    for (const listener of this.listeners.get(event) || []) listener(...values);
  }

  take(frame) {
    this.heard();
    if (frame === "2") return this.socket.send("3");
    const kind = frame.slice(0, frame[0] === "4" ? 2 : 1);
    if (kind === "0") return this.open(JSON.parse(frame.slice(1)));
    if (kind === "40") return this.joined();
    if (kind === "44") return this.refused(JSON.parse(frame.slice(2)));
    if (kind === "41" || kind === "1") return this.socket.close();
    if (kind === "42") {
      const [event, ...values] = JSON.parse(frame.slice(frame.indexOf("[")));
      return this.say(event, values[values.length - 1]);
    }
    if (kind === "43") return this.acked(frame);
    return undefined;
  }

  open({ pingInterval, pingTimeout }) {
    this.longestSilence = pingInterval + pingTimeout;
    this.heard();
    this.socket.send(`40${JSON.stringify(this.auth())}`);
  }

  joined() {
    this.connected = true;
    this.pause = FIRST_PAUSE_MS;
    this.say("connect");
  }

  refused({ message }) {
    this.close();
    this.say("refused", message);
  }

  acked(frame) {
    const start = frame.indexOf("[");
    const id = Number(frame.slice(2, start));
    const waiting = this.acks.get(id);
    this.acks.delete(id);
    if (!waiting) return;
    clearTimeout(waiting.timer);
    waiting.resolve(JSON.parse(frame.slice(start))[0]);
  }

  /** A server that says nothing for longer than a ping takes is gone. */
  heard() {
    clearTimeout(this.silence);
    if (this.longestSilence) this.silence = setTimeout(() => this.socket && this.socket.close(), this.longestSilence);
  }

  lost() {
    clearTimeout(this.silence);
    this.connected = false;
    for (const id of [...this.acks.keys()]) this.fail(id, "The connection was lost before the answer came.");
    if (this.stopped) return;
    const pause = this.pause * (0.75 + Math.random() / 2);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE_MS);
    this.say("lost", pause);
    this.retry = setTimeout(() => this.connect(), pause);
  }
}
