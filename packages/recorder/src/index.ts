export * from "./errors.js";
export { getCurrentWindowId } from "./windows.js";
export { toUnits, DECIMALS } from "./money.js";
export type { Amount, ExactAmount } from "./money.js";
export type { ServerOptions } from "./http.js";
export type { Spool } from "./queue.js";
export { TrajectoryRecorder } from "./recorder.js";
export type {
  Action,
  ChatMessage,
  EnvironmentState,
  JsonObject,
  LLMCall,
  ProviderAccess,
  RecorderOptions,
  TrajectoryEnd,
  TrajectoryStart,
} from "./recorder.js";
export { MarketOutcomesTracker } from "./outcomes.js";
export type {
  AssetOutcome,
  OutcomeSource,
  QuestionOutcome,
  SyncResult,
  TrackResult,
  TrackerOptions,
  WindowOutcomes,
} from "./outcomes.js";
