"""Rewards: configurations, the components over steps and over lanes, and what they may read."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playproof.errors import ConfigError, ContractError, InputError, UnknownName
from playproof.game import AccountSnapshot, Game, Outcome, Reward, Step, load_game
from playproof.game.rewards import CLIP, ComposedReward, Facts, Play, compose, from_function
from playproof.games.crash.rewards.presets import MINIMAL
from playproof.games.crash.rewards.probes import to_events
from playproof.games.crash.rewards.terms import COMPONENTS, FACTS, MOMENT, TABLE, lay_out
from playproof.games.crash.sim.env import CrashEnv, CrashVectorEnv
from playproof.money import UNIT
from playproof.rewards import load_reward
from playproof.rewards.plays import walk
from playproof.testing import coin

PLAN = """
global:
  reward_clip: 1000.0
  enabled_components: [financial, bankruptcy]
financial: {weight: 1.0}
bankruptcy: {penalty: -10.0, threshold: 0.001}
"""
PLAN_TOML = """
[global]
reward_clip = 1000.0
enabled_components = ["financial", "bankruptcy"]
[financial]
weight = 1.0
[bankruptcy]
penalty = -10.0
threshold = 0.001
"""
WITHOUT_FINANCIAL = [name for name in TABLE if name != "financial"]
WITHOUT_SIDEBET = [name for name in TABLE if name != "sidebet_pnl"]
OUTCOME = Outcome("round", {})


@pytest.fixture(scope="module")
def game() -> Game:
    return load_game("crash")


def composed(*enabled: str, clip: float | None = None, **sections: Any) -> ComposedReward:
    return compose(COMPONENTS, {"global": {"enabled_components": list(enabled), "reward_clip": clip}, **sections}, "it")


def eager(enabled: list[str]) -> ComposedReward:
    """Enable components with settings under which each of them pays in a short round."""
    return composed(
        *enabled,
        **{
            name: section
            for name, section in {
                "zone_entry": {"low": 0.5, "high": 1.2},
                "sweet_spot": {"low": 0.5, "high": 1.5},
                "volatility_exit": {"range": 0.02},
                "temporal_penalty": {"after": 3},
                "sidebet_timing": {"after": 2},
                "position_size": {"largest": 0.0001},
                "trade_cost": {"fixed": 0.5},
            }.items()
            if name in enabled
        },
    )


def test_the_plans_file_loads_as_it_stands(game: Game, tmp_path: Path) -> None:
    (tmp_path / "reward.yaml").write_text(PLAN)
    (tmp_path / "reward.toml").write_text(PLAN_TOML)
    read = [load_reward(game, str(tmp_path / name)) for name in ("reward.yaml", "reward.toml")]
    assert read[0].hash == read[1].hash != MINIMAL.hash  # the clip is part of a reward
    for reward in read:
        assert isinstance(reward, ComposedReward)
        assert (reward.name, reward.clip, reward.parts) == ("reward", 1000.0, MINIMAL.parts)


def test_a_name_is_a_label_and_a_setting_is_not() -> None:
    assert dataclasses.replace(MINIMAL, name="other").hash == MINIMAL.hash
    assert composed("financial", "bankruptcy").hash == MINIMAL.hash
    assert composed("financial", "bankruptcy", bankruptcy={"penalty": -9.0}).hash != MINIMAL.hash


@pytest.mark.parametrize(
    ("config", "error", "said"),
    [
        ({}, ConfigError, "enabled_components"),
        ({"global": {"enabled_components": []}}, ConfigError, "enabled_components"),
        ({"global": {"enabled_components": ["financial", "financial"]}}, ConfigError, "once each"),
        ({"global": {"enabled_components": ["fame"]}}, UnknownName, "'fame'"),
        ({"global": {"enabled_components": ["financial"]}, "fame": {}}, UnknownName, "'fame'"),
        ({"global": {"enabled_components": ["financial"], "clip": 1}}, ConfigError, "reward_clip"),
        ({"global": {"enabled_components": ["financial"], "reward_clip": 0}}, ConfigError, "above 0"),
        ({"global": {"enabled_components": ["financial"]}, "financial": {"wieght": 1}}, ConfigError, "wieght"),
        ({"global": {"enabled_components": ["financial"]}, "financial": {"weight": "1"}}, ConfigError, "finite number"),
        ({"global": {"enabled_components": ["financial"]}, "financial": {"weight": True}}, ConfigError, "finite"),
        ({"global": {"enabled_components": ["financial"]}, "financial": {"weight": np.inf}}, ConfigError, "finite"),
        ({"global": {"enabled_components": ["financial"]}, "financial": 1.0}, ConfigError, "section"),
        ({"global": {"enabled_components": ["financial", "sidebet_pnl"]}}, ConfigError, "paid twice"),
    ],
)
def test_a_configuration_that_means_nothing_is_refused(config: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        compose(COMPONENTS, config, "it")


def test_rewards_are_found_by_name_file_and_python(game: Game, tmp_path: Path) -> None:
    assert load_reward(game) is load_reward(game, "minimal") is load_reward(game, MINIMAL)
    assert load_reward(game, "playproof.games.crash.rewards.presets:MINIMAL") is MINIMAL
    file = tmp_path / "mine.py"
    file.write_text(
        "import numpy as np\n"
        "def profit(facts):\n"
        "    'Pay profit.'\n"
        "    return (facts['equity_after'] - facts['equity_before']) / 1e9\n"
        "PLAN = {'global': {'enabled_components': ['financial']}}\n"
        "NUMBER = 3\n"
    )
    mine = load_reward(game, f"{file}:profit")
    assert (mine.name, mine.doc) == ("profit", "Pay profit.")
    assert load_reward(game, f"{file}:PLAN").hash == composed("financial").hash
    for wrong in ("fame", f"{file}:NUMBER", f"{file}:nothing", f"{tmp_path / 'none.py'}:x", str(tmp_path / "no.yaml")):
        with pytest.raises(InputError):
            load_reward(game, wrong)
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(ConfigError, match="sections"):
        load_reward(game, tmp_path / "list.yaml")
    with pytest.raises(ConfigError, match="no components"):
        load_reward(coin.game(), tmp_path / "list.yaml")


def test_what_pays_without_money_is_marked_and_warned_about() -> None:
    bonuses = [name for name, item in TABLE.items() if item.pays_without_money]
    assert bonuses == [
        *("zone_entry", "survival_bonus", "volatility_exit", "sweet_spot", "sidebet_timing", "patience", "profit_lock")
    ]
    assert not MINIMAL.warnings
    assert ["patience" in text for text in composed("financial", "patience").warnings] == [True]
    assert not composed("financial", "patience", patience={"weight": 0.0}).warnings


def test_a_component_reads_only_what_it_declares(game: Game) -> None:
    assert len(TABLE) == 17
    for component in TABLE.values():
        assert set(component.reads) <= set(FACTS)
    greedy = dataclasses.replace(TABLE["financial"], reads=("equity_after",))
    reward = dataclasses.replace(MINIMAL, parts=(dataclasses.replace(MINIMAL.parts[0], component=greedy),))
    with pytest.raises(ContractError, match="equity_before"):
        reward.compute(walk(game, Play("", to_events([1.0, 0.02]), ()), "buttons"), OUTCOME)


def standing(equity: int, stake: int) -> AccountSnapshot:
    facts = dict.fromkeys(MOMENT[2:], 0) | {"sidebet_stake": stake, "price": 1.0, "low": 1.0, "peak": 1.0, "phase": 2}
    return AccountSnapshot(equity, equity, 0, facts)


def test_bankruptcy_is_paid_once_and_an_open_sidebet_counts_its_stake() -> None:
    money = [(2_000_000, 0), (0, 2_000_000), (0, 0), (1_000_000, 0), (999_999, 0)]
    standings = [standing(*pair) for pair in money]
    steps = [
        Step(number, 0, (0, 0), True, before, after, None) for number, (before, after) in enumerate(pairwise(standings))
    ]
    paid = MINIMAL.compute(steps, OUTCOME)
    assert paid["bankruptcy"] == (0.0, -10.0, 0.0, 0.0)
    assert paid["financial"] == (-0.002, 0.0, 0.001, -1e-9)
    assert MINIMAL.compute([Step(0, 0, (0, 0), False, standing(0, 0), standing(0, 0), None)], OUTCOME)[
        "bankruptcy"
    ] == (0.0,)
    assert MINIMAL.compute([], OUTCOME) == {"financial": (), "bankruptcy": ()}


def scripted(rng: np.random.Generator, heads: tuple[int, ...], length: int) -> list[tuple[int, ...]]:
    waits = rng.random(length) < 0.4
    return [tuple(0 if wait else int(rng.integers(head)) for head in heads) for wait in waits.tolist()]


def prices(rng: np.random.Generator, length: int) -> list[float]:
    return [1.0, *np.exp(np.cumsum(rng.normal(0, 0.05, length - 1))).tolist(), 0.02]


@pytest.mark.parametrize("enabled", [WITHOUT_SIDEBET, WITHOUT_FINANCIAL], ids=["financial", "sidebet_pnl"])
@pytest.mark.parametrize("actions", ["buttons", "buttons-share", "trader"])
def test_recorded_steps_and_lanes_are_paid_the_same(game: Game, actions: str, enabled: list[str]) -> None:
    reward, paid = eager(enabled), dict.fromkeys(enabled, 0)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        path = prices(rng, 70)
        env = CrashEnv(reward=reward, actions=actions, tape=[path])
        env.reset(seed=seed)
        script = scripted(rng, env.settings.heads, 71)
        steps = walk(game, Play("", to_events(path), tuple(script)), actions)
        columns = reward.compute(steps, OUTCOME)
        for number, action in enumerate(script):
            _, earned, over, _, info = env.step(action)
            assert info["equity"] == steps[number].after.equity
            for name, values in env._lanes.purse.paid.items():  # type: ignore[union-attr]
                assert values[0] == columns[name][number], (name, number, action)
                paid[name] += values[0] != 0.0
            assert earned == pytest.approx(sum(column[number] for column in columns.values()), abs=1e-12)
            if over:
                break
        assert number == len(steps) - 1 or info["equity"] < UNIT // 1000
    unpaid = [name for name, count in paid.items() if not count]
    assert len(unpaid) <= (0 if actions == "buttons" else 3), unpaid  # one who skips a round is paid for little


def test_the_compiled_minimal_is_the_components_bit_for_bit() -> None:
    slow = composed("financial", "bankruptcy", "drawdown", drawdown={"weight": 0.0})
    envs = [CrashVectorEnv(128, reward=item, balance=3_000_000, rounds=2) for item in ("minimal", slow)]
    rng = np.random.default_rng(5)
    for env in envs:
        env.reset(seed=3)
    broke = 0
    for _ in range(500):
        actions = np.stack([rng.integers(0, head, 128) for head in (4, 9)], axis=1)
        fast, plain = (env.step(actions) for env in envs)
        np.testing.assert_array_equal(fast[1], plain[1])
        split = envs[0]._lanes.components(fast[1])
        np.testing.assert_allclose(split["financial"], envs[1]._lanes.components(plain[1])["financial"], atol=1e-15)
        np.testing.assert_array_equal(split["bankruptcy"], envs[1]._lanes.components(plain[1])["bankruptcy"])
        broke += int((fast[1] < -9).sum())
    assert broke > 100


def test_many_lanes_are_paid_like_single_ones() -> None:
    reward, lanes = eager(WITHOUT_SIDEBET), 6
    many = CrashVectorEnv(lanes, reward=reward)
    many.reset(seed=11)
    single = [CrashEnv(reward=reward) for _ in range(lanes)]
    for lane, env in enumerate(single):
        env.reset(seed=11 + lane)
    rng = np.random.default_rng(1)
    for _ in range(300):
        actions = np.stack([rng.integers(0, head, lanes) for head in (4, 9)], axis=1)
        _, rewards, terminated, _, _ = many.step(actions)
        for lane, env in enumerate(single):
            _, earned, over, _, _ = env.step(actions[lane])
            assert (rewards[lane], terminated[lane]) == (earned, over)
            if over:
                env.reset()


def test_clipped_steps_are_counted_and_the_columns_add_up(game: Game) -> None:
    bare, tight = composed("financial"), composed("financial", clip=0.0001)
    envs = {clip: CrashVectorEnv(32, reward=composed("financial", "bankruptcy", clip=clip)) for clip in (None, 0.0001)}
    for env in envs.values():
        env.reset(seed=1)
    clipped = 0
    for _ in range(100):
        actions = np.tile([1, 4], (32, 1))
        paid = {clip: env.step(actions)[1] for clip, env in envs.items()}
        clipped += int((np.abs(paid[None]) > 0.0001).sum())
        np.testing.assert_array_equal(paid[0.0001], np.clip(paid[None], -0.0001, 0.0001))
    assert envs[0.0001].clipped_steps == clipped > 0 == envs[None].clipped_steps
    steps = walk(game, Play("", to_events(prices(np.random.default_rng(0), 20)), ((1, 4),)), "buttons")
    raw, cut = bare.compute(steps, OUTCOME), tight.compute(steps, OUTCOME)
    assert list(cut) == ["financial", CLIP] == list(tight.columns)
    np.testing.assert_allclose(np.sum(list(cut.values()), axis=0), np.clip(raw["financial"], -0.0001, 0.0001))


def test_waiting_is_paid_by_nothing_but_patience(game: Game) -> None:
    steps = walk(game, Play("", to_events(prices(np.random.default_rng(0), 40)), ()), "buttons")
    paid = eager(WITHOUT_SIDEBET).compute(steps, OUTCOME)
    assert [name for name, values in paid.items() if any(values)] == ["patience"]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cut=st.integers(1, 29))
def test_no_component_looks_ahead(seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    game, reward = load_game("crash"), eager(WITHOUT_SIDEBET)
    path = prices(rng, 30)
    script = tuple(scripted(rng, (4, 9), 31))
    other = [*path[:cut], *prices(np.random.default_rng(seed + 1), 31 - cut)[1:], 0.5]
    whole, changed = (
        reward.compute(walk(game, Play("", to_events(item), script), "buttons"), OUTCOME) for item in (path, other)
    )
    # steps 0 to cut are decided in the presale and at ticks 0 to cut - 1; the last of them is paid at tick cut
    for name, values in whole.items():
        assert values[:cut] == changed[name][:cut]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_costs_never_pay_and_profit_adds_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    game = load_game("crash")
    steps = walk(game, Play("", to_events(prices(rng, 40)), tuple(scripted(rng, (4, 9), 41))), "buttons")
    paid = eager(WITHOUT_SIDEBET).compute(steps, OUTCOME)
    for name, component in TABLE.items():
        if component.kind in ("cost", "terminal") and name in paid:
            assert max(paid[name]) <= 0.0
    assert sum(paid["financial"]) == pytest.approx((steps[-1].after.equity - steps[0].before.equity) / UNIT, abs=1e-12)
    shaped = np.array(paid["potential"]) @ 0.99 ** np.arange(len(steps))
    assert shaped == pytest.approx(0.0, abs=1e-12)


def test_facts_are_made_when_looked_at_and_only_once(game: Game) -> None:
    made = []
    facts = Facts(2, {"a": lambda: made.append(1) or np.ones(2)})  # type: ignore[func-returns-value]
    assert not made
    assert facts["a"].sum() + facts["a"].sum() == 4
    assert made == [1]
    laid = lay_out(walk(game, Play("", to_events([1.0, 1.1, 0.02]), ()), "buttons"))
    assert set(laid) == set(FACTS)
    assert {laid[name].shape for name in laid} == {(3,)}


def test_a_function_of_the_wrong_shape_is_refused(game: Game) -> None:
    reward = from_function(COMPONENTS, lambda facts: np.zeros(1), "short")
    with pytest.raises(ContractError, match="3 values"):
        reward.compute(walk(game, Play("", to_events([1.0, 1.1, 0.02]), ()), "buttons"), OUTCOME)


def test_a_reward_for_steps_alone_cannot_be_trained_with() -> None:
    with pytest.raises(ConfigError, match="recorded steps alone"):
        CrashEnv(reward=Reward("old", "1", "", {}))
    with pytest.raises(UnknownName, match="reward"):
        CrashEnv(reward="fame")


def test_the_documentation_lists_the_components(project: Path) -> None:
    text = (project / "docs" / "guides" / "rewards.md").read_text(encoding="utf-8")
    for component in TABLE.values():
        settings_ = ", ".join(f"{name} {value}" for name, value in component.settings.items()) or "-"
        mark = " (!)" if component.pays_without_money else ""
        assert f"| `{component.name}` | {component.kind}{mark} | {settings_} | {component.doc} |" in text
