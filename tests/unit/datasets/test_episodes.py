"""Episodes: presses become the right steps at the right ticks with the right money, read one by one or all at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
import recordings as r

from playproof.datasets.build import pay, total
from playproof.datasets.segment import segment_session
from playproof.events import Event
from playproof.game.episode_columns import NEVER, BuildRequest
from playproof.games.crash.features.table import RECORDED
from playproof.games.crash.recording import columns as c
from playproof.games.crash.recording.alignment import BEGAN_LATE, LOST_TICKS, NO_RUG
from playproof.games.crash.recording.sample import PLAYER_ID, record
from playproof.games.crash.rules.actions import BETS, MAIN, SHARES
from playproof.games.crash.rules.windows import Phase
from playproof.games.crash.server.table import FillEntry, OrderEntry
from playproof.money import UNIT, to_units

ASK = BuildRequest("recorded", "buttons-share")
PARITY_ROUNDS = 100


def episodes(events: Any, ask: BuildRequest = ASK) -> Any:
    return segment_session(r.crash(), events, ask)


# steps


def test_a_sequence_of_presses_becomes_its_steps() -> None:
    script = {(0, Phase.ACTIVE, 3): ("INC_01", "INC_01", "INC_001", "BUY"), (0, Phase.ACTIVE, 5): ("SELL_25",)}
    [episode] = episodes(r.decoded(record(612, script, 1, crowded=False).frames)).episodes
    at = [index for index, decision in enumerate(episode.decisions) if decision.columns["tick"] == 3]
    steps = [episode.steps[item] for item in at]
    assert [step.action for step in steps] == [
        (0, BETS.index("INC_01"), 0),
        (0, BETS.index("INC_01"), 0),
        (0, BETS.index("INC_001"), 0),
        (MAIN.index("BUY"), 0, 0),
    ]
    assert [step.substep for step in steps] == [0, 1, 2, 3]
    bets = [step.after.facts["bet_amount"] for step in steps]
    assert bets == [11_000_000, 21_000_000, 22_000_000, 22_000_000]
    assert steps[-1].before.cash - steps[-1].after.cash == 22_000_000
    assert [row[RECORDED.index("bet_amount")] for row in np.asarray([episode.observations[item] for item in at])] == [
        np.float32(item) for item in (0.001, 0.011, 0.021, 0.022)
    ]
    [percentage] = [step for step in episode.steps if step.action[2]]
    assert percentage.action == (0, 0, SHARES.index("SELL_25"))
    assert (percentage.before.facts["sell_share"], percentage.after.facts["sell_share"]) == (100, 25)


def test_a_percentage_press_is_a_wait_where_the_set_has_no_shares() -> None:
    script = {(0, Phase.ACTIVE, 3): ("BUY",), (0, Phase.ACTIVE, 5): ("SELL_50", "SELL")}
    recording = record(612, script, 1, crowded=False)
    [episode] = episodes(r.decoded(recording.frames), BuildRequest("recorded", "buttons")).episodes
    pressed, sold = (step for step in episode.steps if episode.decisions[step.number].columns["tick"] == 5)
    assert (pressed.action, pressed.after.facts["sell_share"], sold.action) == ((0, 0), 50, (2, 0))
    assert sold.after.facts["qty"] == sold.before.facts["qty"] - sold.before.facts["qty"] * 50 // 100
    assert episode.corrected == 0


def test_every_tick_without_a_press_is_a_wait_and_every_press_a_step() -> None:
    recording, events = r.played(5, 6)
    made = episodes(events)
    pressed = [e for e in events if e.event_name == c.PRESS]
    decided = [e for e in events if r.crash() and e.event_name == c.TICK and e.columns["game_phase"] in (1, 2)]
    assert len(made.episodes) == 6
    assert not made.left_out
    steps = [(episode, step) for episode in made.episodes for step in episode.steps]
    acting = [step for _, step in steps if any(step.action)]
    assert len(acting) == len(pressed)
    with_press = {(e.window_id, e.columns["game_phase"], e.columns["tick"]) for e in pressed}
    assert len(steps) - len(acting) == len(decided) - len(with_press)
    for episode, step in steps:
        decision = episode.decisions[step.number]
        key = (decision.window_id, decision.columns["game_phase"], decision.columns["tick"])
        assert any(step.action) == (key in with_press)
    assert recording.table.players[PLAYER_ID].ledger.cash == made.episodes[-1].steps[-1].after.cash


def test_presses_are_where_and_what_the_server_executed() -> None:
    """A thousand presses: action, tick, bet and money as the table's own log has them."""
    recording, events = r.played(7, 14, 0.3)
    made = episodes(events)
    assert sum(e.event_name == c.PRESS for e in events) > 1000
    orders = [entry for entry in recording.log if isinstance(entry, OrderEntry)]
    fills = [entry for entry in recording.log if isinstance(entry, FillEntry)]
    taken = [
        (episode, step) for episode in made.episodes for step in episode.steps if step.action[0] != MAIN.index("WAIT")
    ]
    assert len(taken) == len(orders)
    for (episode, step), order in zip(taken, orders, strict=True):
        fields = episode.decisions[step.number].columns
        assert (order.game_id, order.tick) == (episode.window_id, fields["tick"])
        assert step.effect == order.success
        if "amount" in order.payload:
            assert to_units(order.payload["amount"]) == step.before.facts["bet_amount"]
        else:
            assert order.payload["percentage"] == step.before.facts["sell_share"]
    assert all(episode.corrected == 0 for episode in made.episodes)
    assert len(fills) > 200
    assert made.episodes[-1].steps[-1].after.cash == recording.table.players[PLAYER_ID].ledger.cash


def test_presses_in_the_cooldown_are_steps_and_those_after_the_rug_are_not() -> None:
    script = {
        (0, Phase.COOLDOWN, 0): ("INC_01",),
        (0, Phase.RUGGED, 51): ("INC_10", "BUY"),
        (1, Phase.PRESALE, 0): ("BUY",),
    }
    events = list(r.decoded(record(612, script, 2, crowded=False).frames))
    pressed = [event for event in events if event.event_name == c.PRESS]
    assert len(pressed) >= 2
    first, second = episodes(events).episodes
    rugged = [event for event in pressed if event.columns["game_phase"] == Phase.RUGGED]
    assert first.late == len(rugged)
    assert all(decision.columns["game_phase"] != Phase.RUGGED for decision in first.decisions)
    [bought] = [step for step in second.steps if step.action[0] == MAIN.index("BUY")]
    assert bought.before.cash - bought.after.cash == pressed[-1].columns["bet_amount"]


# money


def test_money_begins_with_what_the_feed_told() -> None:
    script = {(n, Phase.ACTIVE, tick): (("BUY", "SELL")[tick % 2],) for n in range(3) for tick in range(0, 60, 3)}
    events = r.decoded(record(612, script, 3, crowded=False).frames)
    rich = [
        replace(event, columns={**event.columns, "cash": event.columns["cash"] + 5 * UNIT})
        if event.event_name == c.PLAYER
        else event
        for event in events
    ]
    plain, more = (episodes(of).episodes for of in (events, rich))
    assert more[0].steps[0].before.cash == plain[0].steps[0].before.cash + 5 * UNIT
    assert [item.corrected for item in more] == [0, 0, 0]
    assert more[-1].steps[-1].after.cash == plain[-1].steps[-1].after.cash + 5 * UNIT


def test_other_money_than_the_ledgers_is_taken_and_told() -> None:
    _, events = r.played(9, 3)
    at = [n for n, event in enumerate(events) if event.event_name == c.PLAYER][20:]
    short = [
        replace(event, columns={**event.columns, "cash": event.columns["cash"] - 1000}) if n in at else event
        for n, event in enumerate(events)
    ]
    made = episodes(short).episodes
    assert sum(episode.corrected for episode in made) == 1
    assert made[-1].steps[-1].after.cash == episodes(events).episodes[-1].steps[-1].after.cash - 1000


# what is lacking


@pytest.mark.parametrize(
    ("keep", "reason"),
    [
        (lambda tick, phase: phase != Phase.RUGGED, NO_RUG),
        (lambda tick, phase: phase != Phase.ACTIVE or tick > 4, BEGAN_LATE),
        (lambda tick, phase: phase != Phase.ACTIVE or tick not in (7, 8), LOST_TICKS),
    ],
)
def test_incomplete_rounds_are_kept_marked_and_left_out_unless_asked_for(keep: Any, reason: str) -> None:
    _, events = r.played(11, 3)
    window = next(event.window_id for event in events if event.window_id)
    cut = [
        event
        for event in events
        if event.event_name != c.TICK
        or event.window_id != window
        or keep(event.columns["tick"], event.columns["game_phase"])
    ]
    made = episodes(cut)
    assert [(left.window_id, left.reason) for left in made.left_out] == [(window, reason)]
    asked = episodes(cut, replace(ASK, include_incomplete=True)).episodes
    assert len(asked) == 3
    [lacking] = [episode for episode in asked if episode.lack]
    assert lacking.lack.reason == reason
    assert lacking.steps[-1].end == ("truncated" if reason == NO_RUG else "terminated")
    assert not r.unlike(*r.both_ways(cut, replace(ASK, include_incomplete=True)))
    assert not r.unlike(*r.both_ways(cut, ASK))


def test_short_rounds_can_be_left_out() -> None:
    _, events = r.played(13, 8)
    whole = episodes(events).episodes
    limit = sorted(sum(step.substep == 0 for step in item.steps) for item in whole)[4]
    made = episodes(events, replace(ASK, min_ticks=limit))
    assert 0 < len(made.episodes) < 8
    assert all("decision points, less than" in left.reason for left in made.left_out)
    assert len(made.episodes) + len(made.left_out) == 8
    assert not r.unlike(*r.both_ways(events, replace(ASK, min_ticks=limit)))


def test_a_round_without_a_player_is_one_spectators_episode() -> None:
    events = r.dealt_events(r.dealt("watch", 3, 5))
    made = episodes(events)
    missing = {RECORDED.index(name) for name in ("balance", "position_qty", "unrealized_pnl", "bet_amount")}
    assert len(made.episodes) == 5
    for episode in made.episodes:
        assert episode.player_id is None
        assert all(step.action == (0, 0, 0) and not step.effect for step in episode.steps)
        assert all(mask[index] for mask in episode.missing for index in missing)
        assert set(episode.ages) == {(NEVER, NEVER)}
        assert episode.pnl == 0


def test_the_age_of_the_players_state_is_told() -> None:
    _, events = r.played(15, 3)
    for episode in episodes(events).episodes:
        es = [e for e in events if e.event_name == c.PLAYER]
        for decision, step, (ticks, us) in zip(episode.decisions, episode.steps, episode.ages, strict=True):
            settled = events[decision.seq + 1].event_name == c.BET
            if step.substep == 0 and not settled and decision.columns["game_phase"] != Phase.COOLDOWN:
                before = [e for e in es if e.seq < decision.seq]
                since = [
                    e
                    for e in events
                    if before[-1].seq < e.seq <= decision.seq
                    and e.event_name == c.TICK
                    and e.columns["game_phase"] in (1, 2)
                ]
                assert ticks == len(since)
                assert us == (decision.ts - before[-1].ts) // timedelta(microseconds=1)


# one by one and all at once


@pytest.mark.parametrize("observation", ["recorded", "policy", "market", "trader"])
@pytest.mark.parametrize("actions", ["buttons", "buttons-share", "trader"])
def test_a_session_at_once_is_the_session_event_by_event(observation: str, actions: str) -> None:
    _, events = r.played(17, 5)
    assert not r.unlike(*r.both_ways(events, BuildRequest(observation, actions)))


@pytest.mark.parametrize("world", ["fair", "drift", "hazard"])
def test_other_worlds_too(world: str) -> None:
    _, events = r.played(19, 3, world=world)
    assert not r.unlike(*r.both_ways(events, replace(ASK, world=world)))


def test_damaged_recordings_are_read_alike() -> None:
    """Events lost, doubled, out of order and without their columns: both ways still agree."""
    _, events = r.played(21, 3)
    rng = np.random.default_rng(4)
    for _ in range(8):
        results: list[Event] = []
        for event in events:
            chance = rng.random()
            if chance < 0.02:
                continue
            results.append(event)
            if chance > 0.985 and event.columns:
                name = str(rng.choice(sorted(event.columns)))
                results[-1] = replace(event, columns={k: v for k, v in event.columns.items() if k != name})
            elif chance > 0.97:
                results.append(event)
        if rng.random() < 0.5:
            at = int(rng.integers(0, len(results) - 50))
            results[at : at + 50] = [results[at + int(item)] for item in rng.permutation(50)]
        given = [replace(event, seq=seq) for seq, event in enumerate(results)]
        assert not r.unlike(*r.both_ways(given, replace(ASK, include_incomplete=True)))


@pytest.mark.parametrize("observation", ["recorded", "market"])
def test_what_is_for_the_record_alone_changes_nothing(observation: str) -> None:
    """A recorder's note between a tick and what it settled, as a page's recording has it."""
    events = r.played(23, 12, 0.2)[1]
    noted: list[Event] = []
    for event in events:
        noted.append(replace(event, seq=len(noted)))
        if event.event_name in (c.TICK, c.BET):
            note = replace(event, event_name="record.sequence", doc_type="player_action", player_id=PLAYER_ID)
            noted.append(replace(note, seq=len(noted), columns={}, raw=None))
    assert any(event.columns.get("sidebet_type") == "payout" for event in events)
    ask = BuildRequest(observation, "buttons-share")
    slow, fast = r.both_ways(noted, ask)
    assert r.unlike(slow, fast) == []
    assert r.unlike(r.both_ways(events, ask)[1], fast) == []


def test_a_tick_that_does_not_tell_its_timer_lacks_that_alone() -> None:
    """Unknown is marked and filled by its declared value; everything else that the tick told is known."""
    payload = r.dealt_events(r.dealt("watch", 5, 3))
    events = [
        event
        if event.seq % 2
        else replace(event, columns={name: of for name, of in event.columns.items() if name != "cooldown_timer_ms"})
        for event in payload
    ]
    slow, fast = r.both_ways(events, ASK)
    assert r.unlike(slow, fast) == []
    whole, timer = r.both_ways(payload, ASK)[1], RECORDED.index("cooldown_timer_ms")
    others = [index for index in range(len(RECORDED)) if index != timer]
    assert fast.observations[others].tobytes() == whole.observations[others].tobytes()
    assert [fast.missing[other].tobytes() for other in others] == [whole.missing[other].tobytes() for other in others]
    assert not whole.missing[timer].any()
    silent = fast.missing[timer]
    assert silent.any()
    assert (fast.observations[timer][silent] == 0).all()
    assert (fast.observations[timer][~silent] == whole.observations[timer][~silent]).all()


def test_rewards_at_once_are_those_of_the_steps() -> None:
    _, events = r.played(17, 5)
    slow, fast = r.both_ways(events, ASK)
    reward = r.crash().rewards().presets["minimal"]
    paid = pay(r.crash(), fast, reward)
    at = 0
    for entry, steps in slow.steps():
        for name, values in reward.compute(steps, None).items():  # type: ignore[arg-type]
            assert list(values) == paid[name][at : at + entry.steps].tolist()
        at += entry.steps


# parity with the environment


def test_built_rounds_are_the_environments_bit_for_bit() -> None:
    """A hundred rounds at a table, recorded and laid out: observations, actions, money and rewards of CrashEnv."""
    _, events = r.played(23, PARITY_ROUNDS, 0.05, adjustments=r.CAREFUL)
    made = r.batch().lay(r.to_tables(events), ASK)
    paid = total(pay(r.crash(), made, r.crash().rewards().presets["minimal"]), len(made.substeps))
    money = [made.before(name) for name in ("cash", "equity", "sidebet_stake")]
    lengths = [entry.steps for entry in made.entries]
    acted = r.compare_with_environment(
        r.prices_of(events), lengths, made.observations.T, made.actions.T, made.substeps, money, paid
    )
    assert (len(lengths), acted > 1000) == (PARITY_ROUNDS, True)
