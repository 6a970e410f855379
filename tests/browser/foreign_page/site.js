// A site of somebody else: custom elements that draw themselves anew, a canvas, frames, its own socket code.
const state = { stake: 0.01, share: 1, balance: 1, price: 1, tick: 0, prices: [] };
const acks = [];
let serial = 0;

const socket = new WebSocket(`ws://${location.host}/feed`);
const order = (name, payload) => socket.send(`42${serial++}${JSON.stringify([name, payload])}`);
socket.onmessage = ({ data }) => {
  if (data === "2") socket.send("3");
  else if (data.startsWith("0")) socket.send('40{"name":"Ada"}');
  else if (data.startsWith("43")) acks.push(data);
  else if (data.startsWith("42")) {
    const [name, ...values] = JSON.parse(data.slice(2));
    const payload = values.at(-1);
    if (name === "gameStateUpdate") {
      Object.assign(state, { price: payload.price ?? state.price, tick: payload.tickCount ?? state.tick });
      state.prices.push(state.price);
    }
    if (name === "playerUpdate" && payload.cash !== undefined) state.balance = payload.cash;
    drawAll();
  }
};

const round = (value) => Math.round(value * 1e9) / 1e9;
const pad = {
  "X": () => 0, "+0.001": (s) => s + 0.001, "+0.01": (s) => s + 0.01, "+0.1": (s) => s + 0.1,
  "1/2": (s) => s / 2, "2x": (s) => s * 2, "All in": () => state.balance,
};

class AmountPad extends HTMLElement {
  constructor() {
    super();
    this.attachShadow({ mode: "open" }).addEventListener("click", ({ target }) => {
      const change = pad[target.closest("button")?.textContent.trim()];
      if (change) state.stake = round(change(state.stake));
      drawAll();
    });
  }
  draw() {
    const keys = Object.keys(pad).map((text) => `<button data-key="k${Math.random()}"><i> ${text} </i></button>`);
    this.shadowRoot.innerHTML = keys.join("");
  }
}
customElements.define("amount-pad", AmountPad);

class TradeDesk extends HTMLElement {
  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.innerHTML = "<div class=row></div><p>Stake <output class=stake></output></p><amount-pad></amount-pad>";
    // Buttons live for 40 ms, so the site acts when the pointer goes down.
    root.addEventListener("pointerdown", ({ target }) => {
      const label = target.closest?.("button")?.getAttribute("aria-label");
      if (label === "Open position") order("buyOrder", { amount: state.stake });
      if (label === "Close position") order("sellOrder", { percentage: state.share * 100 });
    });
    setInterval(() => this.draw(), 40);
  }
  draw() {
    this.shadowRoot.querySelector(".row").innerHTML =
      `<button aria-label="Open position"><b>Go ${state.price.toFixed(2)}</b></button>` +
      `<button aria-label="Close position"><b>Out ${state.price.toFixed(2)}</b></button>`;
    this.shadowRoot.querySelector(".stake").textContent = `${state.stake} SOL`;
  }
}
customElements.define("trade-desk", TradeDesk);

class SideRail extends HTMLElement {
  constructor() {
    super();
    this.attachShadow({ mode: "open" }).innerHTML = "<iframe title='Shares' src='/shares.html'></iframe>";
  }
}
customElements.define("side-rail", SideRail);

class PromoCard extends HTMLElement {
  constructor() {
    super();
    this.attachShadow({ mode: "open" }).innerHTML = "<button aria-label='Open position'>Win a car</button>";
  }
}
customElements.define("promo-card", PromoCard);

const graph = document.getElementById("graph");
function drawAll() {
  const pen = graph.getContext("2d");
  pen.clearRect(0, 0, graph.width, graph.height);
  pen.beginPath();
  state.prices.slice(-140).forEach((price, i) => pen.lineTo(i * 5, graph.height - price * 30));
  pen.stroke();
  document.querySelector("trade-desk").draw();
  document.querySelector("trade-desk").shadowRoot.querySelector("amount-pad").draw();
}
graph.addEventListener("click", drawAll);

addEventListener("message", ({ data }) => {
  if (data.share) state.share = data.share;
  if (data.bet) order("requestSidebet", { amount: state.stake });
});
for (const frame of document.querySelectorAll("iframe")) frame.src = `http://localhost:${location.port}/bets.html`;
drawAll();
