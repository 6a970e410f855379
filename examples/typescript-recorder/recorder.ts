// A client of Playproof's trajectory recorder over HTTP, without dependencies.
//
// Calls return at once: records wait in memory, in their order, and are sent in batches. Each carries an idempotency
// key, so that a batch whose answer was lost can be sent again and is stored once. When the server is away, records
// wait up to a bound; beyond it the rest of a trajectory is left out as a whole, and counted. The agent is never
// slowed or broken. `flush` waits until the server has acknowledged everything.
//
// All types are erasable. TypeScript and Node from 22.18 on run this file as it is; for Node 20 see README.md.

export interface Json {
  [name: string]: unknown;
}

export interface Options {
  url: string;
  token?: string;
  mostWaiting?: number;
  batch?: number;
}

export interface Action {
  type: string;
  parameters?: Json;
  success?: boolean;
  result?: Json;
  error?: string;
  reasoning?: string;
}

export interface Call {
  model: string;
  purpose?: "action" | "reasoning" | "evaluation" | "response";
  messages?: Json[];
  response?: string;
  token_ids?: number[];
  logprobs?: number[];
  latency_ms?: number;
  temperature?: number;
}

export interface Sent {
  key: string;
  kind: string;
  trajectory_id: string | null;
  body: Json;
}

export class TrajectoryRecorder {
  dropped: number = 0;
  refused: string[] = [];
  private url: string;
  private token: string | null;
  private mostWaiting: number;
  private batch: number;
  private waiting: Sent[] = [];
  private cut: Set<string> = new Set();
  private sending: boolean = false;
  private prefix: string = newId();
  private count: number = 0;

  constructor(options: Options) {
    this.url = options.url.replace(/\/$/, "");
    this.token = options.token ?? null;
    this.mostWaiting = options.mostWaiting ?? 10000;
    this.batch = options.batch ?? 200;
  }

  startTrajectory(agentId: string, more: Json = {}): string {
    const id = newId();
    this.put("start", id, { "agent_id": agentId, "trajectory_id": id, "time": now(), ...more });
    return id;
  }

  startStep(id: string, state: Json): void {
    this.put("step", id, { state, "time": now() });
  }

  logProviderAccess(id: string, provider: string, data: unknown, purpose?: string): void {
    this.put("access", id, { provider, data, purpose, "time": now() });
  }

  logLlmCall(id: string, call: Call): void {
    this.put("call", id, { ...call, "time": now() });
  }

  completeStep(id: string, action: Action, reward?: number, done?: boolean): void {
    this.put("action", id, { action, reward, "done": done ?? false, "time": now() });
  }

  endTrajectory(id: string, finalBalance?: number, finalPnl?: number): void {
    this.put("end", id, { "final_balance": finalBalance, "final_pnl": finalPnl, "time": now() });
  }

  /** Wait until everything is acknowledged, at most so many milliseconds; tell whether it is. */
  async flush(milliseconds: number = 10000): Promise<boolean> {
    const end = Date.now() + milliseconds;
    while (this.waiting.length > 0 && Date.now() < end) {
      await sleep(10);
    }
    return this.waiting.length === 0;
  }

  private put(kind: string, id: string, body: Json): void {
    if (this.cut.has(id) || this.waiting.length >= this.mostWaiting) {
      this.cut.add(id);
      this.dropped += 1;
      return;
    }
    this.count += 1;
    const key = this.prefix + "-" + this.count;
    this.waiting.push({ key, kind, "trajectory_id": kind === "start" ? null : id, body });
    void this.send();
  }

  private async send(): Promise<void> {
    if (this.sending) return;
    this.sending = true;
    let pause = 50;
    while (this.waiting.length > 0) {
      await sleep(0);
      const some = this.waiting.slice(0, this.batch);
      if (await this.post(some)) {
        this.waiting.splice(0, some.length);
        pause = 50;
      } else {
        await sleep(pause * (0.7 + 0.6 * Math.random()));
        pause = Math.min(5000, pause * 2);
      }
    }
    this.sending = false;
  }

  /** Send records; give true once every one of them is stored or refused for good. */
  private async post(some: Sent[]): Promise<boolean> {
    const headers = { "Content-Type": "application/json", ...(this.token ? { "Authorization": "Bearer " + this.token } : {}) };
    try {
      const body = JSON.stringify({ "records": some });
      const answer = await fetch(this.url + "/v1/records", { "method": "POST", headers, body });
      if (answer.status !== 200) return false;
      const told = await answer.json();
      if (told.answers.some((each) => each.status === 503)) return false;
      for (const each of told.answers) {
        if (each.status !== 200) this.refused.push(each.error);
      }
      return true;
    } catch {
      return false;
    }
  }
}

function newId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  const random = crypto.getRandomValues(new Uint8Array(10));
  return time + Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function now(): string {
  return new Date().toISOString();
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, milliseconds));
}
