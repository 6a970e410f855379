"""Build a data set from stored events and read (observation, action, reward, next observation, done)."""

import playproof
from playproof.datasets import DatasetConfig, build
from playproof.home import home
from playproof.store import EventLog

game = playproof.load_game("crash")
with EventLog.open(home(), game.columns) as log:  # the game's own sample recording: two rounds with one player
    frames = game.recording().sample()
    facts = [(frame, fact) for frame, facts in zip(frames, game.decode(frames), strict=True) for fact in facts]
    log.append([fact.event(frame.ts, "sample", seq) for seq, (frame, fact) in enumerate(facts)])

config = DatasetConfig("sample", "policy", "buttons", "minimal", shares={"train": 1.0}, gap=0)
build(game, playproof.open_store(), config, home())

dataset = playproof.load_dataset("sample")
steps = dataset.transitions("train")
print("windows", len(dataset.windows("train")), "steps", len(steps.rewards))
print("features", steps.observations.shape[1], "reward", round(float(steps.rewards.sum()), 6))
