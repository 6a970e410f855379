"""Clone a scripted player by behaviour cloning, and load the policy."""

import playproof

run = playproof.train_policy(
    "bc", "clone", game="crash", world="published", player="human", rounds=20, settings={"epochs": 2}
)
print("run", run.path.name, "report", run.report.name)

policy = run.policy()
env = playproof.make_env("crash", observation="policy", actions="buttons")
observation, _ = env.reset(seed=1)
print("first action", policy.act(observation))
