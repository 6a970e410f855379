// The page: takes what the server says, shows it, and turns presses into orders.

import { direction, element, showBoard, showHistory, showTrade, signed } from "./boards.js";
import { adjust, fromCoins, MAX_BET, showUnits, toCoins, toUnits, UNIT } from "./money.js";
import { PriceChart, times } from "./price-chart.js";
import { Socket } from "./socket.js";
import { verifyRound } from "./verify.js";

const COIN = "So11111111111111111111111111111111111111112";
const COOLDOWN_MS = 15000;
const PRESALE_MS = 10000;
const TOAST_MS = 4200;
const MAX_TOASTS = 3;
const KEYS = {
  b: "BUY", s: "SELL", d: "SIDEBET", x: "CLEAR", q: "INC_001", w: "INC_01", e: "INC_10", r: "INC_1",
  h: "HALF", j: "DOUBLE", m: "MAX", 1: "SELL_10", 2: "SELL_25", 3: "SELL_50", 4: "SELL_100",
};
const PHASES = { cooldown: "Cooldown", presale: "Presale", active: "Live", rugged: "Rugged", loading: "Connecting" };
const WORLD_TRUTHS = {
  published: "In this game every position loses 0.05 % a tick on average and a sidebet 9.2 % of its stake: the best expected result is 0, by not playing.",
  fair: "In this world neither positions nor sidebets win or lose on average.",
  hazard: "In 3 rounds of 10, shown by a rugpool of 8 or more, the rug is 4 times as likely.",
  drift: "Prices rise by 1 % a tick during a countdown and fall by 1 % outside; open cost is limited to 0.1.",
  instarug: "1 round in 20 rugs within 5 ticks, the others do not.",
};

const byId = (id) => document.getElementById(id);
const stored = {
  get: (key) => localStorage.getItem(`playproof.${key}`) || "",
  set: (key, value) => localStorage.setItem(`playproof.${key}`, value),
};

const game = {
  session: { playerId: "", world: "published", payout: 5, speed: 1, tickMs: 250, verifiable: true },
  state: {},
  prices: [1],
  marks: [],
  trades: 0,
  player: { cash: 0, positionQty: 0, avgCost: 0, cumulativePnL: 0, sideBet: null },
  bet: UNIT / 1000,
  share: 100,
  history: [],
  promised: new Map(),
  verified: new Set(),
};
const chart = new PriceChart(byId("chart"));
const roundChart = new PriceChart(byId("round-chart"), { small: true });
const socket = new Socket(
  `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/socket.io/`,
  () => ({ name: stored.get("name"), token: stored.get("token") }),
);

// what the server says

function phaseOf(state) {
  if (state.rugged) return "rugged";
  if (state.active) return "active";
  if (state.allowPreRoundBuys) return "presale";
  return state.cooldownTimer > 0 ? "cooldown" : "loading";
}

function takeState(update) {
  const fresh = update.gameId !== game.state.gameId;
  const before = phaseOf(game.state);
  if (fresh) startRound();
  game.state = { ...(fresh ? { active: false, rugged: false, tickCount: 0, price: 1 } : game.state), ...update };
  if (update.prices) game.prices = [...update.prices];
  if (update.partialPrices) takePrices(update.partialPrices.values);
  if (update.gameHistory) takeHistory(update.gameHistory);
  if (update.provablyFair && !update.rugged) game.promised.set(update.gameId, update.provablyFair.serverSeedHash);
  if (phaseOf(game.state) === "rugged" && before === "active") rugged();
  showBoard(game.state.leaderboard || [], game.session.playerId);
  showSite(update);
  show();
}

function takePrices(values) {
  for (const [tick, price] of Object.entries(values)) game.prices[Number(tick)] = price;
  for (let tick = 1; tick < game.prices.length; tick++) game.prices[tick] ??= game.prices[tick - 1];
}

function startRound() {
  game.prices = [1];
  game.marks = [];
  game.trades = 0;
  setShare(100);
}

function takeHistory(history) {
  game.history = history;
  showHistory(history, game.verified, openRound);
}

function takeTrade(trade) {
  const own = trade.playerId === game.session.playerId;
  if (trade.gameId === game.state.gameId) game.trades += 1;
  if (own && trade.gameId === game.state.gameId) addMark(trade);
  showTrade(trade, game.session.playerId);
}

function addMark({ tickIndex, price, type }) {
  game.marks.push({ tick: tickIndex, price, side: type });
}

function takeResult(result) {
  if (result.playerId !== game.session.playerId) return;
  if (result.payout > 0) toast(`Sidebet won: ${signed(result.profit)}`, "good");
  else toast(`Sidebet lost: ${signed(result.profit)}`, "bad");
}

function rugged() {
  const held = game.player.positionQty;
  if (held > 0) toast(`Rugged. Your position was sold at ${times(game.state.price)}.`, "bad");
}

// what the page shows

function show() {
  const { state, player } = game;
  const phase = phaseOf(state);
  document.body.dataset.phase = phase;
  byId("phase").textContent = PHASES[phase];
  byId("tick").textContent = state.tickCount ?? 0;
  byId("people").textContent = state.connectedPlayers ?? 0;
  byId("trade-count").textContent = phase === "active" || phase === "rugged" ? state.tradeCount ?? 0 : game.trades;
  byId("hash").textContent = state.provablyFair ? `${state.provablyFair.serverSeedHash.slice(0, 12)}…` : "";
  byId("peak").textContent = times(Math.max(...game.prices));
  showPrice(phase, state);
  showWait(phase, state);
  showPlayer(phase, state, player);
  const sidebet = player.sideBet;
  const last = phase === "cooldown" && game.history.length ? game.history[0] : null;
  chart.show({
    prices: last ? last.prices : game.prices,
    marks: game.marks,
    entry: player.positionQty > 0 ? player.avgCost : 0,
    bet: sidebet && sidebet.gameId === state.gameId ? { start: sidebet.startedAtTick, end: sidebet.end } : null,
    rugged: phase === "rugged" || Boolean(last),
    dim: phase === "cooldown" || phase === "presale" || phase === "loading",
    tickMs: game.session.tickMs / game.session.speed,
  });
}

/** Show the figures that only some messages carry; they stay until the next ones. */
function showSite(update) {
  if (update.averageMultiplier !== undefined) {
    byId("average").textContent = times(update.averageMultiplier);
    for (const count of ["count2x", "count10x", "count50x", "count100x"]) byId(count).textContent = update[count];
  }
  if (update.highestToday !== undefined) byId("highest").textContent = times(update.highestToday);
  if (!update.rugpool) return;
  const { rugpoolAmount, threshold, instarugCount } = update.rugpool;
  byId("pool").textContent = rugpoolAmount.toFixed(2);
  byId("pool-full").textContent = threshold;
  byId("instarugs").textContent = instarugCount;
  byId("pool-bar").style.transform = `scaleX(${Math.min(1, rugpoolAmount / threshold)})`;
  byId("pool-bar").className = rugpoolAmount / threshold >= 0.8 ? "hot" : "";
}

function showPrice(phase, state) {
  const price = state.price ?? 1;
  const live = phase === "active" || phase === "rugged";
  const ticker = byId("price");
  ticker.hidden = !live;
  ticker.textContent = times(price);
  ticker.className = `price ${phase === "rugged" || price < 1 ? "down" : "up"}`;
  const before = game.prices[game.prices.length - 2];
  byId("price-note").textContent = phase === "rugged"
    ? `Rugged on tick ${game.prices.length - 1}`
    : phase === "active" && before ? `${signed((price / before - 1) * 100, 2)}% this tick` : "";
  const left = phase === "active" ? state.cooldownTimer / game.session.tickMs : 0;
  byId("drift").hidden = !(left > 0);
  byId("drift-ticks").textContent = left;
}

function showWait(phase, state) {
  const waiting = phase === "cooldown" || phase === "presale";
  byId("wait").hidden = !waiting;
  if (!waiting) return;
  const presale = phase === "presale";
  const left = presale ? state.cooldownTimer : state.cooldownTimer - PRESALE_MS;
  const whole = presale ? PRESALE_MS : COOLDOWN_MS - PRESALE_MS;
  byId("wait-title").textContent = presale ? "Round starts in" : "Presale opens in";
  byId("wait-time").textContent = `${(left / 1000).toFixed(1)}`;
  byId("wait-bar").style.transform = `scaleX(${left / whole})`;
  byId("wait-note").textContent = presale
    ? "Buy now at exactly 1.00x. It can be sold from tick 0 on."
    : "The next round is already fixed; its hash is published.";
}

function showPlayer(phase, state, player) {
  const price = phase === "active" || phase === "rugged" ? state.price : 1;
  const qty = player.positionQty;
  const value = qty * price;
  const open = qty ? value - qty * player.avgCost : 0;
  const pnl = qty ? player.cumulativePnL + qty * (price - game.markedAt) : player.cumulativePnL;
  byId("balance").textContent = showUnits(fromCoins(player.cash));
  setFigure("pnl", pnl, 4);
  setFigure("open-pnl", open, 4);
  byId("open-pct").textContent = qty ? `${signed((open / (qty * player.avgCost)) * 100, 1)}%` : "";
  byId("qty").textContent = qty ? showUnits(fromCoins(qty), 0) : "0";
  byId("entry").textContent = qty ? times(player.avgCost) : "none";
  byId("value").textContent = value.toFixed(4);
  byId("top-up").hidden = !(player.id && fromCoins(player.cash) < UNIT / 1000 && !qty && !player.sideBet);
  byId("sell-note").textContent = qty ? `${game.share}% for ${((value * game.share) / 100).toFixed(4)}` : "nothing held";
  button("BUY").classList.toggle("idle", phase !== "presale" && phase !== "active");
  button("SELL").classList.toggle("idle", !(phase === "active" && qty));
  showSidebet(phase, state, player.sideBet);
}

function showSidebet(phase, state, bet) {
  const { payout } = game.session;
  const node = button("SIDEBET");
  node.classList.toggle("open", Boolean(bet));
  node.classList.toggle("idle", !bet && phase !== "presale" && phase !== "active");
  byId("sidebet-odds").textContent = `pays ${payout}x if the rug comes within 40 ticks`;
  const left = bet ? Math.max(0, bet.end - (phase === "presale" ? 0 : state.tickCount)) : 0;
  byId("sidebet-state").textContent = bet ? `${left} ticks left` : "";
  if (bet) byId("sidebet-odds").textContent = `${bet.betAmount.toFixed(3)} to win ${(bet.betAmount * payout).toFixed(3)}`;
  byId("sidebet-bar").style.transform = `scaleX(${left / 40})`;
}

function setFigure(id, value, places) {
  const rounded = Math.abs(value) < 0.5 * 10 ** -places ? 0 : value;
  byId(id).textContent = signed(rounded, places);
  byId(id).className = direction(rounded);
}

function toast(text, kind = "") {
  const note = element("div", `toast ${kind}`, text.charAt(0).toUpperCase() + text.slice(1));
  byId("toasts").append(note);
  while (byId("toasts").children.length > MAX_TOASTS) byId("toasts").firstChild.remove();
  setTimeout(() => note.remove(), TOAST_MS);
}

// presses

const button = (id) => document.querySelector(`[data-button="${id}"]`);

function setBet(units) {
  game.bet = units;
  const field = byId("bet");
  field.value = showUnits(units);
  field.removeAttribute("aria-invalid");
  byId("buy-note").textContent = showUnits(units);
}

function typedBet() {
  const units = toUnits(byId("bet").value);
  if (units === null || units > MAX_BET) {
    byId("bet").setAttribute("aria-invalid", "true");
    return;
  }
  byId("bet").removeAttribute("aria-invalid");
  game.bet = units;
  byId("buy-note").textContent = showUnits(units);
}

function setShare(share) {
  game.share = share;
  for (const part of [10, 25, 50, 100]) button(`SELL_${part}`).setAttribute("aria-pressed", String(part === share));
}

async function order(event, payload) {
  try {
    const answer = await socket.call(event, payload);
    if (!answer.success) toast(answer.reason, "bad");
    return answer;
  } catch (error) {
    toast(error.message, "bad");
    return { success: false };
  }
}

function press(id) {
  if (id === "BUY") return order("buyOrder", { amount: toCoins(game.bet) });
  if (id === "SELL") return order("sellOrder", { percentage: game.share });
  if (id === "SIDEBET") return order("requestSidebet", { amount: toCoins(game.bet), coinAddress: COIN, xPayout: 5 });
  if (id.startsWith("SELL_")) {
    setShare(Number(id.slice(5)));
    return show();
  }
  return setBet(adjust(game.bet, id, fromCoins(game.player.cash)));
}

function pressKey(event) {
  const busy = event.target.closest("input, dialog") || event.ctrlKey || event.metaKey || event.altKey || event.repeat;
  if (busy) return;
  if (event.key === "?") byId("help").showModal();
  const id = KEYS[event.key.toLowerCase()];
  if (!id) return;
  event.preventDefault();
  const pressed = button(id);
  pressed.classList.add("pressed");
  setTimeout(() => pressed.classList.remove("pressed"), 120);
  pressed.click();
}

// finished rounds

function openRound(past) {
  byId("round").dataset.round = past.id;
  byId("round-rug").textContent = past.prices.length - 1;
  byId("round-peak").textContent = times(past.peakMultiplier);
  byId("round-time").textContent = new Date(past.timestamp).toLocaleTimeString();
  byId("round-id").textContent = past.id;
  byId("round-hash").textContent = past.provablyFair.serverSeedHash;
  byId("round-seed").textContent = past.provablyFair.serverSeed;
  byId("proof").replaceChildren();
  byId("verify").textContent = game.session.verifiable ? "Verify this round" : "Verify this round (hash only)";
  byId("verify").onclick = () => verify(past);
  if (!byId("round").open) byId("round").showModal();
  roundChart.show({ prices: past.prices, rugged: true, marks: [], entry: 0, bet: null });
}

async function verify(past) {
  const result = await verifyRound(past, game.promised.get(past.id));
  const seen = result.promised ? "the hash that this page saw before the round" : "the hash listed with the round";
  const lines = [
    result.hashMatches
      ? ["good", `The seed's sha256 equals ${seen}.`]
      : ["bad", `The seed's sha256 is ${result.hash}, not ${seen}.`],
  ];
  const pricesMatch = result.equal === result.total;
  if (game.session.verifiable) {
    lines.push([pricesMatch ? "good" : "bad", `${result.equal} of ${result.total} prices follow from the seed, to the last bit.`]);
  } else {
    lines.push(["", `World “${game.session.world}” adds draws of its own to the published algorithm, so its prices cannot be replayed from the seed here. Only the hash was checked.`]);
  }
  const proof = byId("proof");
  proof.replaceChildren(...lines.map(([kind, text]) => element("li", kind, text)));
  proof.dataset.equal = game.session.verifiable ? `${result.equal}/${result.total}` : "";
  proof.dataset.hash = String(result.hashMatches);
  if (result.hashMatches && (pricesMatch || !game.session.verifiable)) game.verified.add(past.id);
  showHistory(game.history, game.verified, openRound);
}

// start

function welcome(session) {
  game.session = session;
  stored.set("token", session.token);
  byId("name").textContent = session.name;
  byId("avatar").textContent = session.name.slice(0, 1);
  byId("world").textContent = session.world;
  byId("world").title = session.summary;
  byId("speed").hidden = session.speed === 1;
  byId("speed").textContent = `${session.speed}x speed`;
  byId("truth").textContent = WORLD_TRUTHS[session.world] || "";
}

function logIn() {
  if (byId("login").open) return;
  byId("login-name").value = stored.get("name");
  byId("login").showModal();
}

function start() {
  socket
    .on("playproof/session", welcome)
    .on("gameStateUpdate", takeState)
    .on("standard/newTrade", takeTrade)
    .on("currentSidebetResult", takeResult)
    .on("playerUpdate", (update) => {
      game.player = update;
      game.markedAt = game.prices[game.prices.length - 1];
      show();
    })
    .on("gameStatePlayerUpdate", (update) => {
      if (update.trades) game.marks = [];
      (update.trades || []).forEach(addMark);
      const entry = update.leaderboardEntry;
      byId("your-rank").textContent = entry ? `you are #${entry.position}` : "";
    })
    .on("connect", () => {
      byId("lost").hidden = true;
      byId("link").classList.add("on");
    })
    .on("lost", (pause) => {
      byId("lost").hidden = false;
      byId("lost-text").textContent = `Connection lost. Trying again in ${(pause / 1000).toFixed(1)} s.`;
      byId("link").classList.remove("on");
    })
    .on("refused", (reason) => {
      toast(reason, "bad");
      logIn();
    });
  for (const node of document.querySelectorAll("[data-button]")) {
    node.addEventListener("click", () => press(node.dataset.button));
  }
  byId("bet").addEventListener("input", typedBet);
  byId("bet").addEventListener("change", () => setBet(game.bet));
  byId("top-up").addEventListener("click", () => order("playproof/topUp", {}));
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  byId("who").addEventListener("click", logIn);
  byId("login").addEventListener("cancel", (event) => !stored.get("name") && event.preventDefault());
  byId("login-form").addEventListener("submit", () => {
    stored.set("name", byId("login-name").value.trim());
    socket.close();
    socket.connect();
  });
  document.addEventListener("keydown", pressKey);
  setBet(UNIT / 1000);
  if (stored.get("name")) socket.connect();
  else logIn();
}

start();
