import { InvalidRecordError, OutcomesRefusedError } from "./errors.js";
import { Backoff, ServerConnection, errorText, isTemporary, newId, sleep } from "./http.js";
import type { ServerAnswer, ServerOptions } from "./http.js";
import { toJson } from "./json.js";
import { toDecimalText } from "./money.js";
import { plainWindowId } from "./windows.js";

export interface AssetOutcome {
  asset: string;
  /** Prices in the currency, as numbers or decimal text. */
  startPrice: number | string;
  endPrice: number | string;
  /** A fraction, 0.01 for 1 %. The server computes it from the prices and refuses another. */
  change?: number;
  sentiment?: number;
  newsIds?: readonly string[];
  volume?: number | string;
}

export interface QuestionOutcome {
  questionId: string;
  question?: string;
  outcome?: "yes" | "no" | boolean;
  finalProbability?: number;
  volume?: number | string;
}

export interface WindowOutcomes {
  assets?: readonly AssetOutcome[];
  questions?: readonly QuestionOutcome[];
}

/** Where a market's outcomes come from. Null means that they are not known yet. */
export interface OutcomeSource {
  prices(windowId: string): WindowOutcomes | null | Promise<WindowOutcomes | null>;
}

export interface TrackerOptions extends ServerOptions {
  source: OutcomeSource;
  /** Currency of the prices. */
  currency?: string;
  /** Name of the market, where the server knows several. */
  market?: string;
  /** Attempts for one request while the server is away. */
  attempts?: number;
}

/** What became of one window: written now, written before with the same content, or without known outcomes. */
export type TrackResult = "written" | "again" | "unknown";

export interface SyncResult {
  readonly written: readonly string[];
  readonly known: readonly string[];
  /** Windows that have not closed. */
  readonly open: readonly string[];
  /** Closed windows of which the source knows nothing. */
  readonly unknown: readonly string[];
}

interface WindowStatus {
  window_id: string;
  closed: boolean;
  has_outcomes: boolean;
}

/** Write what a market did in its closed windows. Only judges and rewards read it, never a policy. */
export class MarketOutcomesTracker {
  readonly #server: ServerConnection;
  readonly #source: OutcomeSource;
  readonly #currency: string;
  readonly #market: string | undefined;
  readonly #attempts: number;

  constructor(options: TrackerOptions) {
    this.#server = new ServerConnection(options);
    this.#source = options.source;
    this.#currency = options.currency ?? "USD";
    this.#market = options.market;
    this.#attempts = options.attempts ?? 8;
  }

  /** Write the outcomes of one closed window. The same content again changes nothing; other content is refused. */
  async trackWindowOutcomes(windowId: string): Promise<TrackResult> {
    const body = await this.#body(windowId);
    if (body === null) return "unknown";
    const answer = await this.#request("POST", "/v1/outcomes", toJson(body, "outcomes"));
    return (JSON.parse(answer.text) as { again?: boolean }).again === true ? "again" : "written";
  }

  /** Replace the outcomes of a window. The server keeps the earlier ones and the reason. */
  async correctWindowOutcomes(windowId: string, reason: string): Promise<TrackResult> {
    const body = await this.#body(windowId);
    if (body === null) return "unknown";
    const path = `/v1/outcomes/${encodeURIComponent(windowId)}`;
    const answer = await this.#request("PUT", path, toJson({ ...body, reason }, "outcomes"));
    return (JSON.parse(answer.text) as { again?: boolean }).again === true ? "again" : "written";
  }

  /** Write the outcomes of every closed window of the last hours that has none. */
  async syncRecentWindows(hours = 24): Promise<SyncResult> {
    const answer = await this.#request("GET", `/v1/windows?hours=${encodeURIComponent(hours)}`);
    const { windows } = JSON.parse(answer.text) as { windows: WindowStatus[] };
    const names: Record<"written" | "known" | "open" | "unknown", string[]> = { written: [], known: [], open: [], unknown: [] };
    for (const window of windows) {
      const windowId = plainWindowId(window.window_id);
      if (window.has_outcomes) names.known.push(windowId);
      else if (!window.closed) names.open.push(windowId);
      else {
        const result = await this.trackWindowOutcomes(windowId);
        names[result === "again" ? "known" : result].push(windowId);
      }
    }
    return names;
  }

  async #body(windowId: string): Promise<{ [name: string]: unknown } | null> {
    const outcomes = await this.#source.prices(windowId);
    if (outcomes === null) return null;
    const { assets = [], questions = [] } = outcomes;
    if (assets.length + questions.length === 0) {
      throw new InvalidRecordError(`expected outcomes of window ${windowId}, found none; give null where they are not known yet`);
    }
    return {
      window_id: windowId,
      currency: this.#currency,
      market: this.#market,
      assets: assets.map((item) => ({
        asset: item.asset,
        start_price: price(item.startPrice, `startPrice of ${item.asset} in ${windowId}`),
        end_price: price(item.endPrice, `endPrice of ${item.asset} in ${windowId}`),
        change: item.change,
        sentiment: item.sentiment,
        news_ids: item.newsIds,
        volume: item.volume,
      })),
      questions: questions.map((item) => ({
        question_id: item.questionId,
        question: item.question,
        outcome: item.outcome,
        final_probability: item.finalProbability,
        volume: item.volume,
      })),
    };
  }

  /** Send a request until the server answers; the key makes an attempt whose answer was lost count once. */
  async #request(method: "GET" | "POST" | "PUT", path: string, body?: string): Promise<ServerAnswer> {
    const key = method === "GET" ? undefined : newId();
    const backoff = new Backoff(100, 5000);
    for (let attempt = 1; ; attempt += 1) {
      const answer = await this.#server.request(method, path, body, key);
      if (answer.status === 200) return answer;
      if (!isTemporary(answer.status) || attempt >= this.#attempts) {
        throw new OutcomesRefusedError(`expected the server to take ${method} ${path}, found ${errorText(answer)}`, answer.status);
      }
      await sleep(backoff.next(answer.retryAfterMs));
    }
  }
}

function price(value: number | string, name: string): string {
  const text = toDecimalText(value, name);
  if (!(Number(text) > 0)) throw new InvalidRecordError(`expected ${name} above 0, found ${text}`);
  return text;
}
