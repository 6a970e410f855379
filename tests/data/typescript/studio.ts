// A studio's own market and agents: two assets, hourly windows, agents that ask a model what to do.
//   node studio.js play RECORDER PROXY MODEL WINDOW,WINDOW AGENTS STEPS
//   node studio.js outcomes RECORDER WINDOW,WINDOW
import OpenAI from "openai";
import { MarketOutcomesTracker, TrajectoryRecorder } from "playproof-recorder";
import type { WindowOutcomes } from "playproof-recorder";

const ASSETS = ["BTC", "ETH"] as const;
type Asset = (typeof ASSETS)[number];
const STEPS_OF_A_WINDOW = 6;
const SYSTEM = "Trade. Answer BUY, SELL or HOLD.";

interface Tick {
  /** Price in cents. */
  price: number;
  /** What the news says of the next tick; right three times in four. */
  news: "up" | "down";
}

/** Give the ticks of an asset in a window: a function of the two names, so that every process sees the same market. */
function market(windowId: string, asset: Asset): Tick[] {
  let state = [...`${windowId}${asset}`].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 2147483647, 7);
  const random = (): number => (state = (state * 48271) % 2147483647) / 2147483647;
  let price = asset === "BTC" ? 10_000 : 2_000;
  return Array.from({ length: STEPS_OF_A_WINDOW }, () => {
    const isUp = random() < 0.5;
    const tick: Tick = { price, news: random() < 0.75 === isUp ? "up" : "down" };
    price = Math.round(price * (isUp ? 1.01 : 0.99));
    return tick;
  });
}

function outcomes(windowId: string): WindowOutcomes {
  const assets = ASSETS.map((asset) => {
    const ticks = market(windowId, asset);
    const price = (tick: Tick | undefined): string => ((tick?.price ?? 0) / 100).toFixed(2);
    return {
      asset, startPrice: price(ticks[0]), endPrice: price(ticks.at(-1)), sentiment: 0.25, newsIds: [`canary-news-${windowId}-${asset}`],
    };
  });
  const [first] = assets;
  const isYes = Number(first?.endPrice) > Number(first?.startPrice);
  const question = `canary-question: did BTC rise in ${windowId}?`;
  return { assets, questions: [{ questionId: `q-${windowId}`, question, outcome: isYes, finalProbability: isYes ? 0.75 : 0.25 }] };
}

/** One agent in one window. Cash is in cents, holdings in pieces. */
async function play(recorder: TrajectoryRecorder, client: OpenAI, model: string, windowId: string, agent: number, steps: number): Promise<void> {
  const asset: Asset = ASSETS[agent % 2] ?? "BTC";
  const ticks = market(windowId, asset);
  let cash = 1_000_000;
  let held = 0;
  const id = recorder.startTrajectory({ agentId: `agent-${agent}`, windowId, metadata: { asset } });
  for (let step = 0; step < steps; step += 1) {
    const tick = ticks[step] as Tick;
    const equity = cash + held * tick.price;
    await recorder.startStep(id, { agentBalance: equity / 100, agentPnL: (equity - 1_000_000) / 100, openPositions: held });
    await recorder.logProviderAccess(id, { providerName: "news", data: { asset, news: tick.news }, purpose: "decide" });
    const prompt = `${asset} ${(tick.price / 100).toFixed(2)} news ${tick.news} held ${held}`;
    const messages = [{ role: "system", content: SYSTEM }, { role: "user", content: prompt }] as const;
    const sampling = { temperature: 1, max_tokens: 8, logprobs: true, ...({ return_token_ids: true } as object) };
    const completion = await client.chat.completions.create(
      { model, messages: [...messages], ...sampling },
      { headers: await recorder.proxyHeaders(id, "action") },
    );
    const answer = completion.choices[0]?.message.content?.trim() ?? "";
    const isValid = ["BUY", "SELL", "HOLD"].includes(answer);
    const actionType = isValid ? answer : "HOLD";
    const before = held;
    if (actionType === "BUY" && cash >= tick.price * 10) [cash, held] = [cash - tick.price * 10, held + 10];
    if (actionType === "SELL" && held >= 10) [cash, held] = [cash + tick.price * 10, held - 10];
    await recorder.completeStep(
      id,
      { actionType, parameters: { asset, pieces: 10 }, success: isValid, result: { held, cash }, ...(isValid ? {} : { error: `no decision: ${answer}` }) },
      (held - before) / 10,
    );
  }
  const equity = cash + held * (ticks[steps] ?? (ticks.at(-1) as Tick)).price;
  await recorder.endTrajectory(id, { finalPnL: (equity - 1_000_000) / 100, finalBalance: equity / 100, windowId });
}

const [command, url = "", ...rest] = process.argv.slice(2);
if (command === "play") {
  const [proxy = "", model = "", windows = "", agents = "0", steps = "0"] = rest;
  const recorder = new TrajectoryRecorder({ url });
  const client = new OpenAI({ baseURL: `${proxy}/v1`, apiKey: "none", maxRetries: 2 });
  const games = windows
    .split(",")
    .flatMap((windowId) => Array.from({ length: Number(agents) }, (_, agent) => play(recorder, client, model, windowId, agent, Number(steps))));
  await Promise.all(games);
  await recorder.close();
  console.log(JSON.stringify({ trajectories: games.length, sent: recorder.sent, rounded: recorder.roundedAmounts }));
} else {
  const tracker = new MarketOutcomesTracker({ url, source: { prices: outcomes }, currency: "USD" });
  const first = await tracker.trackWindowOutcomes((rest[0] ?? "").split(",")[0] ?? "");
  const again = await tracker.trackWindowOutcomes((rest[0] ?? "").split(",")[0] ?? "");
  console.log(JSON.stringify({ first, again, ...(await tracker.syncRecentWindows(24)) }));
}
