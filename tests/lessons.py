"""Steps of the two games to learn from, as the tests of learners share them."""

from __future__ import annotations

import numpy as np

from playproof.datasets import Transitions
from playproof.evaluate.rollout import PolicyPlayer, Score, play_windows
from playproof.events import Event
from playproof.game import Policy, Terms
from playproof.game.play import PlayerConfig, play
from playproof.testing import coin


class Follows:
    """A player who follows the hint in most flips."""

    def __init__(self, rng: np.random.Generator, faithful: float = 0.9) -> None:
        self.rng, self.faithful = rng, faithful

    def act(self, observation: object) -> tuple[int, ...]:
        hint = float(np.asarray(observation)[0])
        follows = 1 if hint > 0 else 2
        return (follows if self.rng.random() < self.faithful else int(self.rng.integers(3)),)


def coin_events(world: str, seed: int, windows: int) -> list[Event]:
    """Deal windows of the CoinGame to somebody who only watches."""
    game = coin.game()
    frames = [frame for window in coin.deal(world, seed, windows, lambda: "WAIT") for frame in window]
    events: list[Event] = []
    for frame, facts in zip(frames, game.decode(frames), strict=True):
        events += [fact.event(frame.ts, "coin", len(events) + index) for index, fact in enumerate(facts)]
    return events


def coin_steps(world: str, seed: int, windows: int, policy: Policy) -> Transitions:
    """Play windows of the CoinGame and give every step."""
    game = coin.game()
    seat = PlayerConfig("table", Terms("bets", stake=coin.RESERVED))
    episodes = list(play(game, lambda _: policy, coin_events(world, seed, windows), seat))
    rows, after, actions, rewards, ends, names = [], [], [], [], [], []
    for episode in episodes:
        for index, step in enumerate(episode.steps):
            rows.append(episode.observations[index])
            after.append(episode.observations[index + 1])
            actions.append(step.action)
            rewards.append((step.after.equity - step.before.equity) / 1e9)
            ends.append(index == len(episode.steps) - 1)
            names.append(episode.window_id)
    ended = np.array(ends)
    return Transitions(
        np.array(rows, np.float32),
        np.array(actions, np.int16),
        np.array(rewards),
        np.array(after, np.float32),
        ended,
        np.zeros_like(ended),
        tuple(names),
        np.zeros(len(ends), np.int16),
        np.zeros((len(ends), 5), np.bool_),
    )


def coin_score(policy: Policy, windows: int = 100, world: str = "biased") -> Score:
    """Play a policy over unseen windows."""
    events = coin_events(world, 99, windows)
    names = tuple(dict.fromkeys(event.window_id for event in events if event.window_id))
    player = PolicyPlayer("learned", lambda _: policy, "table", "bets")
    return play_windows(coin.game(), player, events, names, stake=coin.RESERVED, seed=0)
