"""Record trajectories of your own language agent: what it saw, what the model answered, what it did."""

import playproof
from playproof.record.trajectories.facts import ActionTaken, Call
from playproof.store.db import opened
from playproof.store.db.trajectories import read_trajectory

with playproof.record_trajectories("arena") as recorder:
    trajectory = recorder.start_trajectory("alice", window_id="2025-01-15T10:00Z")
    for price in (100.0, 101.5, 99.0):
        recorder.start_step(trajectory, {"price": price})
        call = Call(model="my-model", user_prompt=f"The price is {price}. Buy or wait?", response="wait")
        recorder.log_llm_call(trajectory, call)
        recorder.complete_step(trajectory, ActionTaken("wait"), reward=0.0)
    recorder.end_trajectory(trajectory, final_balance=10_000, final_pnl=0)

with opened() as engine:
    stored = read_trajectory(engine, trajectory)
print(stored.agent_id, stored.window_id, "steps", len(stored.steps), "model calls", len(stored.calls))
