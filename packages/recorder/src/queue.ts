import { NotAcknowledgedError, RecorderFullError, RecordsRefusedError } from "./errors.js";
import type { Refusal } from "./errors.js";
import { Backoff, ServerConnection, errorText, isTemporary, sleep } from "./http.js";
import type { ServerAnswer } from "./http.js";

/** Keeps records until the server has acknowledged them, beyond the end of the process. See playproof-recorder/node. */
export interface Spool {
  /** Give the lines of an earlier process that were not acknowledged. Called once, first. */
  load(): string[];
  /** Keep one line; when it returns, the line outlives this process. */
  append(line: string): void;
  /** The oldest lines are acknowledged and need not be kept. */
  acknowledge(lines: number): void;
  close(): void;
}

export interface QueueOptions {
  maxWaitingBytes: number;
  batchRecords: number;
  batchBytes: number;
  firstPauseMs: number;
  longestPauseMs: number;
  spool: Spool | null;
  onRefused: ((refusal: Refusal) => void) | null;
}

interface Line {
  readonly text: string;
  readonly kind: string;
  readonly trajectoryId: string;
}

interface Waiter {
  readonly isMet: () => boolean;
  readonly resolve: () => void;
}

type BatchResult = "settled" | "later";

const REMEMBERED = 100;

/**
 * Records that wait for the server, in the order of the calls, sent in batches. A batch without a valid answer is sent
 * again with the same idempotency keys, so that each record is stored once.
 */
export class RecordQueue {
  readonly refusals: Refusal[] = [];
  refused = 0;
  sent = 0;
  lastProblem: string | null = null;
  readonly #server: ServerConnection;
  readonly #options: QueueOptions;
  readonly #backoff: Backoff;
  #lines: Line[] = [];
  #bytes = 0;
  #taken = 0;
  #settled = 0;
  #reported = 0;
  #isSending = false;
  #isClosed = false;
  #waiters: Waiter[] = [];

  constructor(server: ServerConnection, options: QueueOptions) {
    this.#server = server;
    this.#options = options;
    this.#backoff = new Backoff(options.firstPauseMs, options.longestPauseMs);
    for (const text of options.spool?.load() ?? []) {
      const record = JSON.parse(text) as { kind: string; trajectory_id: string | null; body: { trajectory_id?: string } };
      this.#add({ text, kind: record.kind, trajectoryId: record.trajectory_id ?? record.body.trajectory_id ?? "" });
    }
  }

  /** Characters of records that the server has not acknowledged. */
  get waitingBytes(): number {
    return this.#bytes;
  }

  get waitingRecords(): number {
    return this.#lines.length;
  }

  /**
   * Take a record. The promise resolves once the queue has room again, which is at once unless the server is slow or
   * away; a caller that awaits it is slowed instead of filling the memory. One that does not await gets an error at
   * twice the bound.
   */
  push(text: string, kind: string, trajectoryId: string): Promise<void> {
    const most = this.#options.maxWaitingBytes;
    if (this.#isClosed) throw new RecorderFullError(`expected an open recorder, found a closed one; record not taken: ${kind}`);
    if (this.#bytes + text.length > 2 * most) {
      throw new RecorderFullError(
        `expected at most ${2 * most} bytes to wait for the server, found ${this.#bytes} and a ${kind} of ` +
          `${text.length}; await the recorder's calls, or raise maxWaitingBytes. Last problem: ${this.lastProblem ?? "none"}`,
      );
    }
    this.#options.spool?.append(text);
    this.#add({ text, kind, trajectoryId });
    if (this.#bytes <= most) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push({ isMet: () => this.#bytes <= most || this.#isClosed, resolve }));
  }

  /** Wait until everything taken so far is acknowledged. */
  async flush(timeoutMs: number): Promise<void> {
    const target = this.#taken;
    const isMet = (): boolean => this.#settled >= target;
    if (!isMet()) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const timeout = new Promise<void>((resolve) => (timer = setTimeout(resolve, timeoutMs)));
      await Promise.race([timeout, new Promise<void>((resolve) => this.#waiters.push({ isMet, resolve }))]);
      clearTimeout(timer);
    }
    if (!isMet()) {
      throw new NotAcknowledgedError(
        `expected every record to be acknowledged within ${timeoutMs} ms, found ${this.waitingRecords} waiting; ` +
          `they are still sent. Last problem: ${this.lastProblem ?? "none"}`,
      );
    }
    this.#reportRefusals();
  }

  /** Send what can be sent in time, then stop. What is left stays in the spool; without one an error names it. */
  async close(timeoutMs: number): Promise<void> {
    try {
      await this.flush(timeoutMs);
    } catch (error) {
      if (!(error instanceof NotAcknowledgedError && this.#options.spool)) throw error;
    } finally {
      this.#isClosed = true;
      this.#options.spool?.close();
      this.#wakeWaiters();
    }
  }

  #add(line: Line): void {
    this.#lines.push(line);
    this.#bytes += line.text.length;
    this.#taken += 1;
    if (!this.#isSending) {
      this.#isSending = true;
      void this.#send();
    }
  }

  async #send(): Promise<void> {
    await sleep(0); // let the calls of this turn gather into one batch
    while (this.#lines.length > 0 && !this.#isClosed) {
      const batch = this.#nextBatch();
      const answer = await this.#post(batch);
      if (this.#isClosed) break;
      if ((await this.#settle(batch, answer)) === "settled") {
        this.#backoff.reset();
        this.#drop(batch);
      } else {
        await sleep(this.#backoff.next(answer.retryAfterMs));
      }
    }
    this.#isSending = false;
  }

  #nextBatch(): Line[] {
    const batch: Line[] = [];
    let bytes = 0;
    for (const line of this.#lines) {
      if (batch.length > 0 && (batch.length >= this.#options.batchRecords || bytes + line.text.length > this.#options.batchBytes)) break;
      batch.push(line);
      bytes += line.text.length;
    }
    return batch;
  }

  #post(batch: readonly Line[]): Promise<ServerAnswer> {
    return this.#server.request("POST", "/v1/records", `{"records":[${batch.map((line) => line.text).join(",")}]}`);
  }

  /** Read the answer to a batch; tell whether every record of it is stored or refused for good. */
  async #settle(batch: readonly Line[], answer: ServerAnswer): Promise<BatchResult> {
    if (answer.status === 413 || answer.status === 422) return this.#settleSingly(batch, answer);
    if (answer.status !== 200) {
      // 401, 403 and 404 too: a token or an address can be mended while the records wait; flush names the problem.
      this.lastProblem = errorText(answer);
      return "later";
    }
    const answers = readAnswers(answer.text);
    if (answers === null || answers.length !== batch.length) {
      this.lastProblem = `expected one answer for each of ${batch.length} records, found ${answer.text.slice(0, 200)}`;
      return "later";
    }
    const busy = answers.find((item) => isTemporary(item.status));
    if (busy !== undefined) {
      this.lastProblem = `HTTP ${busy.status}: ${busy.error ?? ""}`;
      return "later";
    }
    answers.forEach((item, index) => {
      const line = batch[index] as Line;
      if (item.status === 200) this.sent += 1;
      else this.#refuse(line, item.status, item.error ?? "", item.reason ?? null);
    });
    return "settled";
  }

  /** Send the records of a batch that was refused as a whole one by one, so that a single bad record stops no other. */
  async #settleSingly(batch: readonly Line[], answer: ServerAnswer): Promise<BatchResult> {
    if (batch.length === 1) {
      this.#refuse(batch[0] as Line, answer.status, errorText(answer), null);
      return "settled";
    }
    for (const line of batch) {
      if ((await this.#settle([line], await this.#post([line]))) === "later") return "later";
      this.#drop([line]);
    }
    return "settled";
  }

  #refuse(line: Line, status: number, error: string, reason: string | null): void {
    const refusal: Refusal = { status, error, reason, kind: line.kind, trajectoryId: line.trajectoryId };
    this.refused += 1;
    this.refusals.push(refusal);
    if (this.refusals.length > REMEMBERED) this.refusals.shift();
    this.#options.onRefused?.(refusal);
  }

  /** Forget the oldest lines, if they are still those of the batch. */
  #drop(batch: readonly Line[]): void {
    if (this.#lines[0] !== batch[0]) return;
    this.#lines.splice(0, batch.length);
    for (const line of batch) this.#bytes -= line.text.length;
    this.#settled += batch.length;
    this.#options.spool?.acknowledge(batch.length);
    this.#wakeWaiters();
  }

  #wakeWaiters(): void {
    const met = this.#waiters.filter((waiter) => waiter.isMet());
    this.#waiters = this.#waiters.filter((waiter) => !met.includes(waiter));
    for (const waiter of met) waiter.resolve();
  }

  #reportRefusals(): void {
    const fresh = this.refused - this.#reported;
    this.#reported = this.refused;
    if (fresh === 0 || this.#options.onRefused !== null) return;
    const refusals = this.refusals.slice(-fresh);
    const first = refusals[0] as Refusal;
    throw new RecordsRefusedError(
      `expected the server to take every record, found ${fresh} refused; the first, a ${first.kind} of trajectory ` +
        `${first.trajectoryId}: ${first.error}`,
      refusals,
    );
  }
}

interface RecordAnswer {
  status: number;
  error?: string;
  reason?: string | null;
}

function readAnswers(text: string): RecordAnswer[] | null {
  try {
    const answers = (JSON.parse(text) as { answers?: unknown }).answers;
    return Array.isArray(answers) ? (answers as RecordAnswer[]) : null;
  } catch {
    return null;
  }
}
