// A small agent that records one trajectory: node agent.mjs http://127.0.0.1:8790 [TOKEN]
import { TrajectoryRecorder } from "./recorder.ts";

const [url, token] = process.argv.slice(2);
const recorder = new TrajectoryRecorder({ url, token });
const id = recorder.startTrajectory("typescript-agent", { "metadata": { "language": "TypeScript" } });
for (let number = 0; number < 3; number += 1) {
  recorder.startStep(id, { "balance": 10000000000000, "tick": number });
  recorder.logProviderAccess(id, "markets", { "ACME": 101.5 + number }, "decide");
  recorder.logLlmCall(id, {
    "model": "some-model",
    "messages": [{ "role": "user", "content": "ACME rose; “quoted” and </script> stay as they are" }],
    "response": '{"action":"hold"}',
    "token_ids": [1, 2],
    "logprobs": [-0.5, -0.25],
  });
  recorder.completeStep(id, { "type": "hold", "success": true, "reasoning": "nothing to do" }, 0.5);
}
recorder.endTrajectory(id, 10000000000000, 0);
const acknowledged = await recorder.flush();
console.log(JSON.stringify({ id, acknowledged, "refused": recorder.refused, "dropped": recorder.dropped }));
