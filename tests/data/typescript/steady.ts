// Agents that record while the server comes and goes: node steady.js URL SPOOL TRAJECTORIES STEPS. Prints one line each.
import { TrajectoryRecorder } from "playproof-recorder";
import { FileSpool } from "playproof-recorder/node";

const [url = "", folder = "", trajectories = "1", steps = "1"] = process.argv.slice(2);
const recorder = new TrajectoryRecorder({ url, spool: new FileSpool(folder), batchRecords: 25, firstPauseMs: 10, longestPauseMs: 100 });
for (let number = 0; number < Number(trajectories); number += 1) {
  const id = recorder.startTrajectory({ agentId: `agent-${number}`, windowId: "2025-01-15T10:00" });
  for (let step = 0; step < Number(steps); step += 1) {
    await recorder.startStep(id, { step, agentBalance: 100 + step / 4 });
    await recorder.logLLMCall(id, { model: "m", userPrompt: `step ${step}`, response: "x".repeat(200) });
    await recorder.completeStep(id, { actionType: "HOLD", success: true }, step);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await recorder.endTrajectory(id, { finalPnL: number, finalBalance: 100 });
  console.log(id);
}
await recorder.close(60_000);
console.log(`done ${recorder.waiting}`);
