// Every call of the recorder, in strict TypeScript: node sample.js URL TOKEN. It prints what it recorded.
import { TrajectoryRecorder, getCurrentWindowId, toUnits } from "playproof-recorder";
import type { Action, EnvironmentState, LLMCall, ProviderAccess, TrajectoryEnd } from "playproof-recorder";
import { FileSpool } from "playproof-recorder/node";

const [url = "", token = ""] = process.argv.slice(2);
const recorder = new TrajectoryRecorder({ url, token, spool: new FileSpool("spool") });

// @ts-expect-error an agent has a name
const nobody = (): string => recorder.startTrajectory({ windowId: "2025-01-15T10:00" });
// @ts-expect-error an action has a type
const nothing = (id: string): Promise<void> => recorder.completeStep(id, { success: true });

const states: EnvironmentState[] = [
  { agentBalance: 10000.01, agentPnL: 0, openPositions: 0, nested: { list: [1, 2.5, null, true] } },
  { agentBalance: "9007199.254740993", agentPnL: -0.1, openPositions: 3, text: "“quoted” and </script> \u2028 ⛄" },
];
const accesses: ProviderAccess[] = [
  { providerName: "markets", data: { BTC: 101.5 }, purpose: "decide" },
  { providerName: "news", data: ["a", "b"] },
];
const calls: LLMCall[] = [
  {
    model: "some-model", purpose: "action", systemPrompt: "You trade.", userPrompt: "BTC 101.5", response: '{"action":"BUY"}',
    reasoning: "it rises", temperature: 0.7, maxTokens: 64, topP: 0.9, latencyMs: 12.5, promptTokens: 7,
    completionTokens: 2, tokenIds: [1, 2], logprobs: [-0.5, -0.25], promptTokenIds: [4, 5], modelVersion: "v1", actionType: "BUY",
  },
  { model: "some-model", purpose: "evaluation", messages: [{ role: "user", content: "and now?" }], response: "hold", actionType: "HOLD" },
];
const actions: Action[] = [
  { actionType: "BUY", parameters: { asset: "BTC", amount: 50.25 }, success: true, result: { filled: 50.25 }, reasoning: "it rises" },
  { actionType: "HOLD", success: false, error: "closed" },
];
const rewards = [0.5, -0.125];
const windowId = getCurrentWindowId(new Date("2025-01-15T10:59:59Z"));
const end: TrajectoryEnd = { finalPnL: 0.1 + 0.2, finalBalance: "9007199254.740993", windowId };

const id = recorder.startTrajectory({ agentId: "typescript-agent", windowId, scenarioId: "s-1", metadata: { language: "TypeScript" } });
for (const [index, state] of states.entries()) {
  await recorder.startStep(id, state);
  await recorder.logProviderAccess(id, accesses[index] as ProviderAccess);
  await recorder.logLLMCall(id, calls[index] as LLMCall);
  await recorder.completeStep(id, actions[index] as Action, rewards[index], { done: index === 1 });
}
await recorder.endTrajectory(id, end);
await recorder.close();
const units = (amount: string): string => toUnits(amount).units.toString();
console.log(
  JSON.stringify({
    id, windowId, states, accesses, calls, actions, rewards, end, sent: recorder.sent, rounded: recorder.roundedAmounts,
    units: { balance: units("9007199.254740993"), finalBalance: units("9007199254.740993") },
  }),
);
void nobody;
void nothing;
