import { InvalidRecordError } from "./errors.js";
import type { Refusal } from "./errors.js";
import { ServerConnection, newId } from "./http.js";
import type { ServerOptions } from "./http.js";
import { toJson } from "./json.js";
import { toUnits } from "./money.js";
import type { Amount } from "./money.js";
import { RecordQueue } from "./queue.js";
import type { Spool } from "./queue.js";
import { getCurrentWindowId, plainWindowId } from "./windows.js";

export type JsonObject = { [name: string]: unknown };

export interface RecorderOptions extends ServerOptions {
  /** Hours of a window, where startTrajectory gets no windowId. */
  windowHours?: number;
  /** Bytes that may wait before calls wait too; at twice as many a call throws RecorderFullError. */
  maxWaitingBytes?: number;
  /** Records of one request, at most 1,000. */
  batchRecords?: number;
  /** Keeps records beyond the end of the process: FileSpool of playproof-recorder/node. */
  spool?: Spool;
  firstPauseMs?: number;
  longestPauseMs?: number;
  /** Called for each record that the server refuses for good; without it flush and close throw. */
  onRefused?: (refusal: Refusal) => void;
}

export interface TrajectoryStart {
  agentId: string;
  /** The window of the present time unless given, such as 2025-01-15T10:00 (UTC). */
  windowId?: string;
  /** Trajectories of one scenario are compared with each other; the window's id unless given. */
  scenarioId?: string;
  episodeId?: string;
  batchId?: string;
  archetype?: string;
  metadata?: JsonObject;
  isTrainingData?: boolean;
  isEvaluation?: boolean;
}

export interface EnvironmentState extends JsonObject {
  /** Stored as `balance`, in whole smallest units. */
  agentBalance?: Amount;
  /** Stored as `pnl`, in whole smallest units. */
  agentPnL?: Amount;
}

export interface ProviderAccess {
  providerName: string;
  data?: unknown;
  purpose?: string;
}

export interface ChatMessage extends JsonObject {
  role: string;
}

export interface LLMCall {
  model: string;
  purpose?: "action" | "reasoning" | "evaluation" | "response";
  systemPrompt?: string;
  userPrompt?: string;
  /** The whole conversation, in place of the two prompts. */
  messages?: readonly ChatMessage[];
  response?: string;
  reasoning?: string;
  temperature?: number;
  maxTokens?: number;
  topP?: number;
  latencyMs?: number;
  promptTokens?: number;
  completionTokens?: number;
  /** With tokenIds and logprobs a call can be trained on by GRPO; without them by SFT alone. */
  promptTokenIds?: readonly number[];
  tokenIds?: readonly number[];
  logprobs?: readonly (number | null)[];
  modelVersion?: string;
  callId?: string;
  error?: string;
  /** The action that the answer asks for. Stored with the step's action, where its type is another. */
  actionType?: string;
}

export interface Action {
  actionType: string;
  parameters?: JsonObject;
  success?: boolean;
  /** Anything but an object is stored as {"value": ...}. */
  result?: unknown;
  error?: string;
  reasoning?: string;
}

export interface TrajectoryEnd {
  /** Money in the currency, or a bigint in the smallest unit. */
  finalPnL?: Amount;
  finalBalance?: Amount;
  /** The window in which the trajectory began. */
  windowId?: string;
  status?: "completed" | "failed" | "cut";
  metrics?: JsonObject;
}

interface OpenTrajectory {
  readonly windowId: string;
  readonly isWindowGiven: boolean;
  /** Action types that the model calls of the open step asked for. */
  asked: string[];
}

/**
 * Record trajectories at a Playproof server. Calls are taken in their order and return a promise that resolves at once
 * while the server keeps up; awaiting it is what slows an agent down when the server does not. `flush` waits until
 * the server has acknowledged everything.
 */
export class TrajectoryRecorder {
  /** Amounts of money with digits below the smallest unit, which were rounded. */
  roundedAmounts = 0;
  readonly #queue: RecordQueue;
  readonly #windowHours: number;
  readonly #prefix = newId();
  readonly #open = new Map<string, OpenTrajectory>();
  #count = 0;

  constructor(options: RecorderOptions = {}) {
    this.#windowHours = options.windowHours ?? 1;
    this.#queue = new RecordQueue(new ServerConnection(options), {
      maxWaitingBytes: options.maxWaitingBytes ?? 32 << 20,
      batchRecords: Math.min(options.batchRecords ?? 200, 1000),
      batchBytes: 1 << 20,
      firstPauseMs: options.firstPauseMs ?? 50,
      longestPauseMs: options.longestPauseMs ?? 5000,
      spool: options.spool ?? null,
      onRefused: options.onRefused ?? null,
    });
  }

  /** Records that the server has stored. */
  get sent(): number {
    return this.#queue.sent;
  }

  /** Records that wait for the server. */
  get waiting(): number {
    return this.#queue.waitingRecords;
  }

  /** The last records that the server refused for good, at most 100. */
  get refusals(): readonly Refusal[] {
    return this.#queue.refusals;
  }

  /** Why the last attempt to send failed; null if none did. */
  get lastProblem(): string | null {
    return this.#queue.lastProblem;
  }

  /** Begin a trajectory and give its id, which is made here. */
  startTrajectory(start: TrajectoryStart): string {
    const id = newId();
    const now = new Date();
    const windowId = start.windowId ?? getCurrentWindowId(now, this.#windowHours);
    void this.#put("start", id, {
      agent_id: start.agentId,
      trajectory_id: id,
      window_id: windowId,
      scenario_id: start.scenarioId,
      episode_id: start.episodeId,
      batch_id: start.batchId,
      archetype: start.archetype,
      metadata: start.metadata,
      is_training_data: start.isTrainingData,
      is_evaluation: start.isEvaluation,
      time: now,
    });
    this.#open.set(id, { windowId, isWindowGiven: start.windowId !== undefined, asked: [] });
    return id;
  }

  /** Begin a step in the environment as the agent finds it. */
  startStep(id: string, environmentState: EnvironmentState = {}): Promise<void> {
    const { agentBalance, agentPnL, ...state } = environmentState;
    for (const [given, name] of [["agentBalance", "balance"], ["agentPnL", "pnl"]] as const) {
      if (environmentState[given] !== undefined && name in state) {
        throw new InvalidRecordError(`expected one of ${given} and ${name} in environmentState, found both`);
      }
    }
    const balance = agentBalance === undefined ? state["balance"] : this.#units(agentBalance, "agentBalance");
    const pnl = agentPnL === undefined ? state["pnl"] : this.#units(agentPnL, "agentPnL");
    return this.#put("step", id, { state: { ...state, balance, pnl }, time: new Date() });
  }

  /** Note what the agent looked at in the open step. */
  logProviderAccess(id: string, access: ProviderAccess): Promise<void> {
    const { providerName: provider, data, purpose } = access;
    return this.#put("access", id, { provider, data, purpose, time: new Date() });
  }

  /** Note a call of a language model in the open step. Not needed for calls through the recording proxy. */
  logLLMCall(id: string, call: LLMCall): Promise<void> {
    const taken = this.#put("call", id, {
      model: call.model,
      purpose: call.purpose,
      messages: call.messages,
      system_prompt: call.systemPrompt,
      user_prompt: call.userPrompt,
      response: call.response,
      reasoning: call.reasoning,
      model_version: call.modelVersion,
      latency_ms: call.latencyMs,
      temperature: call.temperature,
      max_tokens: call.maxTokens,
      top_p: call.topP,
      prompt_tokens: call.promptTokens,
      completion_tokens: call.completionTokens,
      prompt_token_ids: call.promptTokenIds,
      token_ids: call.tokenIds,
      logprobs: call.logprobs,
      call_id: call.callId,
      error: call.error,
      time: new Date(),
    });
    if (call.actionType !== undefined) this.#open.get(id)?.asked.push(call.actionType);
    return taken;
  }

  /** End the open step with what the agent did, and the reward as the agent reports it. */
  completeStep(id: string, action: Action, reward?: number, options: { done?: boolean } = {}): Promise<void> {
    const { actionType, success, error, reasoning } = action;
    const open = this.#open.get(id);
    const others = (open?.asked ?? []).filter((asked) => asked !== actionType);
    const parameters = others.length > 0 ? { ...action.parameters, llmActionTypes: others } : action.parameters;
    const result = action.result === undefined || isObject(action.result) ? action.result : { value: action.result };
    const taken = this.#put("action", id, {
      action: { type: actionType, parameters, success, result, error, reasoning },
      reward,
      done: options.done ?? false,
      time: new Date(),
    });
    if (open !== undefined) open.asked = [];
    return taken;
  }

  /** End a trajectory. */
  endTrajectory(id: string, end: TrajectoryEnd = {}): Promise<void> {
    const open = this.#open.get(id);
    let metrics = end.metrics;
    if (open !== undefined && end.windowId !== undefined && plainWindowId(end.windowId) !== plainWindowId(open.windowId)) {
      const isLater = plainWindowId(end.windowId) === getCurrentWindowId(new Date(), this.#windowHours);
      if (open.isWindowGiven || !isLater) {
        throw new InvalidRecordError(
          `expected windowId ${open.windowId}, in which trajectory ${id} began, found ${end.windowId}; ` +
            "give the window to startTrajectory",
        );
      }
      metrics = { ...metrics, end_window_id: end.windowId }; // it ran past the end of its window and stays in it
    }
    const taken = this.#put("end", id, {
      final_pnl: end.finalPnL === undefined ? undefined : this.#units(end.finalPnL, "finalPnL"),
      final_balance: end.finalBalance === undefined ? undefined : this.#units(end.finalBalance, "finalBalance"),
      status: end.status,
      metrics,
      time: new Date(),
    });
    this.#open.delete(id);
    return taken;
  }

  /**
   * Give the headers with which a model call through `playproof trajectories proxy` joins the open step of a
   * trajectory. It first waits until the server has that step.
   */
  async proxyHeaders(id: string, purpose?: LLMCall["purpose"]): Promise<Record<string, string>> {
    await this.flush();
    return { "X-Playproof-Trajectory": id, ...(purpose !== undefined && { "X-Playproof-Purpose": purpose }) };
  }

  /** Wait until the server has acknowledged everything; throw if it does not in time or has refused a record. */
  flush(timeoutMs = 30_000): Promise<void> {
    return this.#queue.flush(timeoutMs);
  }

  /** Send what can be sent in time and stop. The rest stays in the spool; without a spool an error is thrown. */
  close(timeoutMs = 10_000): Promise<void> {
    return this.#queue.close(timeoutMs);
  }

  #put(kind: string, id: string, body: JsonObject): Promise<void> {
    const trajectoryId = kind === "start" ? null : id;
    const key = `${this.#prefix}-${this.#count}`;
    const taken = this.#queue.push(toJson({ key, kind, trajectory_id: trajectoryId, body }, kind), kind, id);
    this.#count += 1;
    return taken;
  }

  #units(amount: Amount, name: string): bigint {
    const exact = toUnits(amount, name);
    if (exact.rounded) this.roundedAmounts += 1;
    return exact.units;
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
