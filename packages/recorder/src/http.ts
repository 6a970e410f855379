/** Where the recorder's server is, and how it is asked. */
export interface ServerOptions {
  /** Address of `playproof trajectories serve`; http://127.0.0.1:8790 unless given. */
  url?: string;
  /** Sent as `Authorization: Bearer TOKEN`. */
  token?: string;
  /** How long one request may take. */
  requestTimeoutMs?: number;
  /** Another fetch, for tests and for runtimes without a global one. */
  fetch?: typeof fetch;
}

/** A server's answer; status 0 means that none came. */
export interface ServerAnswer {
  readonly status: number;
  readonly text: string;
  readonly retryAfterMs: number | null;
}

export class ServerConnection {
  readonly #url: string;
  readonly #token: string | null;
  readonly #timeoutMs: number;
  readonly #fetch: typeof fetch;

  constructor(options: ServerOptions) {
    const url = options.url ?? "http://127.0.0.1:8790";
    if (!/^https?:\/\/[^/]/.test(url)) throw new TypeError(`expected url such as http://127.0.0.1:8790, found ${url}`);
    this.#url = url.replace(/\/+$/, "");
    this.#token = options.token ?? null;
    this.#timeoutMs = options.requestTimeoutMs ?? 30_000;
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
  }

  /** Send one request. A network error or a timeout is an answer with status 0. */
  async request(method: "GET" | "POST" | "PUT", path: string, body?: string, key?: string): Promise<ServerAnswer> {
    const headers: Record<string, string> = {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (this.#token !== null) headers["Authorization"] = `Bearer ${this.#token}`;
    if (key !== undefined) headers["Idempotency-Key"] = key;
    try {
      const signal = AbortSignal.timeout(this.#timeoutMs);
      const answer = await this.#fetch(this.#url + path, { method, headers, signal, ...(body !== undefined && { body }) });
      const seconds = Number(answer.headers.get("Retry-After") ?? "");
      return { status: answer.status, text: await answer.text(), retryAfterMs: seconds > 0 ? seconds * 1000 : null };
    } catch (error) {
      const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
      return { status: 0, text: `${error instanceof Error ? error.message : String(error)}${cause}`, retryAfterMs: null };
    }
  }
}

/** Tell whether the same request may succeed later: no answer, too many requests, or the server's own trouble. */
export function isTemporary(status: number): boolean {
  return status === 0 || status === 408 || status === 425 || status === 429 || status >= 500;
}

/** Read the server's own words from an error answer. */
export function errorText(answer: ServerAnswer): string {
  if (answer.status === 0) return answer.text;
  try {
    const error = (JSON.parse(answer.text) as { error?: { message?: unknown } }).error;
    if (typeof error?.message === "string") return `HTTP ${answer.status}: ${error.message}`;
  } catch {
    // The answer is not JSON, as from a proxy in between; its text is shown instead.
  }
  return `HTTP ${answer.status}: ${answer.text.slice(0, 300)}`;
}

/** Pauses between attempts: doubled each time, up to a bound, with jitter so that many agents do not come at once. */
export class Backoff {
  #pauseMs: number;

  constructor(
    readonly firstMs: number,
    readonly longestMs: number,
  ) {
    this.#pauseMs = firstMs;
  }

  next(retryAfterMs: number | null): number {
    const pauseMs = this.#pauseMs * (0.7 + 0.6 * Math.random());
    this.#pauseMs = Math.min(this.longestMs, this.#pauseMs * 2);
    return Math.max(pauseMs, retryAfterMs ?? 0);
  }

  reset(): void {
    this.#pauseMs = this.firstMs;
  }
}

export function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Make an id of 32 hex digits that sorts by time. */
export function newId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  const random = crypto.getRandomValues(new Uint8Array(10));
  return time + Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
