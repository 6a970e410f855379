// Leaderboard, trades and the strip of finished rounds. Names come from other people: textContent only.

import { times } from "./price-chart.js";

const FEED_ROWS = 24;

const byId = (id) => document.getElementById(id);

export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export const signed = (value, places = 3) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(places)}`;
export const direction = (value) => (value > 0 ? "up" : value < 0 ? "down" : "");

/** Show the leaderboard; `own` is the player's id. */
export function showBoard(entries, own) {
  const body = byId("board");
  byId("board-empty").hidden = entries.length > 0;
  while (body.rows.length > entries.length) body.deleteRow(-1);
  entries.forEach((entry, i) => {
    const row = body.rows[i] || newRow(body);
    row.className = entry.id === own ? "own" : "";
    const [rank, name, position, pnl] = row.cells;
    rank.textContent = entry.position;
    name.firstChild.textContent = entry.username || "somebody";
    name.lastChild.hidden = !entry.sidebetActive;
    position.textContent = entry.positionQty ? entry.positionQty.toFixed(3) : "";
    pnl.firstChild.textContent = signed(entry.pnl);
    pnl.firstChild.className = direction(entry.pnl);
    pnl.lastChild.textContent = ` ${signed(entry.pnlPercent, 1)}%`;
  });
}

function newRow(body) {
  const row = body.insertRow();
  row.append(element("td"), element("td"), element("td", "num"), element("td", "num"));
  row.cells[1].append(element("span"), element("span", "tag", "sidebet"));
  row.cells[3].append(element("span"), element("span", "pct"));
  return row;
}

/** Put a trade on top of the feed. */
export function showTrade(trade, own) {
  byId("feed-empty").hidden = true;
  const feed = byId("feed");
  const row = element("li", trade.playerId === own ? "own" : "");
  row.append(
    element("b", trade.type === "buy" ? "up" : "down", trade.type.toUpperCase().slice(0, 5)),
    element("span", "", trade.username || "somebody"),
    element("span", "num", trade.amount < 0.001 ? "<0.001" : trade.amount.toFixed(3)),
    element("span", "num", times(trade.price)),
  );
  feed.prepend(row);
  while (feed.children.length > FEED_ROWS) feed.lastChild.remove();
}

/** Show the strip of finished rounds; `verified` holds the ids that were found true. */
export function showHistory(rounds, verified, pick) {
  byId("history").replaceChildren(
    ...rounds.map((past) => {
      const item = element("div");
      item.setAttribute("role", "listitem");
      const button = element("button", verified.has(past.id) ? "verified" : "");
      button.type = "button";
      button.dataset.round = past.id;
      const ticks = past.prices.length - 1;
      button.setAttribute("aria-label", `Round with peak ${times(past.peakMultiplier)}, rugged on tick ${ticks}. Open to verify.`);
      button.append(
        element("b", past.peakMultiplier >= 2 ? "up" : "", times(past.peakMultiplier)),
        element("small", "", verified.has(past.id) ? "verified" : `${ticks} ticks`),
      );
      button.addEventListener("click", () => pick(past));
      item.append(button);
      return item;
    }),
  );
}
