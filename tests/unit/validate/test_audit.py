"""The audit: honest about the published game, awake to a planted edge, right about the shared recordings."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from playproof.cli.app import main
from playproof.errors import InputError
from playproof.game import load_game
from playproof.game.audit import AuditRules, Material, SettledBet, Wager, WindowAges
from playproof.games.crash.analysis import audit as crash
from playproof.games.crash.rules import prices as fair
from playproof.games.crash.rules.verify import PUBLISHED_ROUNDS, replay
from playproof.reports.audit import page, to_json
from playproof.stats.evidence import joint_test
from playproof.validate.audit import AuditReport, audit

GAME = load_game("crash")
ACTIVE, RUGGED = 2, 3


@pytest.fixture(scope="module")
def auditing() -> AuditRules:
    assert GAME.display().audit is not None
    return GAME.display().audit


def simulated(count: int, seed: int, hazard: float = 0.005, drift: float = 0.0) -> dict[str, list[float]]:
    """Rounds of the published kind, or with another hazard or drift: prices of each, the rug price last."""
    rng = np.random.default_rng(seed)
    rounds = {}
    for number in range(count):
        rug = int(rng.geometric(hazard))
        big = rng.random(rug) < 0.125
        signs = np.where(rng.random(rug) > 0.5, 1, -1)
        moves = np.where(big, signs * rng.uniform(0.15, 0.25, rug), rng.uniform(-0.02, 0.03, rug)) + drift
        prices = np.concatenate([[1.0], np.cumprod(1 + moves)])[:rug]
        rounds[f"20260101-{number:016x}"] = [*prices.tolist(), 0.02 * min(1.0, float(prices.min()))]
    return rounds


def ticks_of(rounds: dict[str, list[float]]) -> pl.DataFrame:
    rows = [
        (window, tick, price, RUGGED if tick == len(prices) - 1 else ACTIVE)
        for window, prices in rounds.items()
        for tick, price in enumerate(prices)
    ]
    return pl.DataFrame(rows, schema=["window_id", "tick", "price", "game_phase"], orient="row")


def audited(rounds: dict[str, list[float]], auditing: AuditRules) -> AuditReport:
    return audit("crash", auditing, auditing.from_rows(ticks_of(rounds)), np.random.default_rng(1))


class TestGathering:
    def test_holds_are_those_of_a_plain_loop(self) -> None:
        rounds = simulated(30, 2)
        _, whole = crash.read_ticks(ticks_of(rounds))
        for ticks in (10, 40):
            expected: dict[tuple[str, str], list[float]] = {}
            for window, prices in rounds.items():
                for tick, price in enumerate(prices[:-1]):
                    exit_price = prices[tick + ticks] if tick + ticks < len(prices) - 1 else prices[-1]
                    zone = next(name for name, low, high in crash.ZONES if low <= price < high)
                    expected.setdefault((zone, window), []).append(exit_price / price - 1)
            result = {
                (wager.name, window): (count, profit, hits)
                for wager in crash.holds(whole, ticks)
                for window, count, profit, hits in zip(
                    wager.windows, wager.count, wager.profit, wager.hits, strict=True
                )
            }
            assert result.keys() == expected.keys()
            for key, returns in expected.items():
                assert result[key] == pytest.approx((len(returns), sum(returns), sum(item > 0 for item in returns)))

    def test_sidebets_are_those_of_a_plain_loop(self) -> None:
        rounds = simulated(30, 3)
        _, whole = crash.read_ticks(ticks_of(rounds))
        won = total = 0
        for prices in rounds.values():
            rug = len(prices) - 1
            total += rug
            won += sum(rug <= tick + 40 for tick in range(rug))
        wagers = crash.sidebets(whole)
        assert sum(float(wager.count.sum()) for wager in wagers) == total
        assert sum(float(wager.hits.sum()) for wager in wagers) == won

    def test_rounds_that_are_not_whole_count_for_their_age_alone(self) -> None:
        rounds = simulated(3, 4, hazard=0.02)
        names = list(rounds)
        ticks = ticks_of(rounds)
        late = (pl.col("window_id") == names[0]) & (pl.col("tick") < 5)
        unseen = (pl.col("window_id") == names[1]) & (pl.col("game_phase") == RUGGED)
        ages, whole = crash.read_ticks(ticks.filter(~late & ~unseen))
        assert whole.windows == (names[2],)
        assert ages.entered.tolist() == [5, 0, 0]
        assert ages.ended.tolist() == [True, False, True]
        assert ages.end.tolist() == [len(rounds[names[0]]) - 1, len(rounds[names[1]]) - 2, len(rounds[names[2]]) - 1]

    def test_a_second_rug_is_none(self) -> None:
        ticks = ticks_of({"20260101-0000000000000000": [1.0, 1.1, 1.2, 0.02]})
        ghost = pl.DataFrame(
            {"window_id": ["20260101-0000000000000000"], "tick": [5], "price": [0.02], "game_phase": [3]}
        )
        ages, whole = crash.read_ticks(pl.concat([ticks, ghost]))
        assert ages.end.tolist() == [3]
        assert whole.rugs.tolist() == [3]

    def test_theory_is_that_of_the_simulated_game(self) -> None:
        """Buying at tick 0 and holding: -0.46 % at 10, -1.89 % at 40, -4.80 % at 100 (40 million rounds)."""
        one = np.ones(1)
        for ticks, expected in ((10, -0.0046), (40, -0.0189), (100, -0.0480)):
            assert crash.hold_theory(one, one, ticks) == pytest.approx(expected, abs=2e-4)

    def test_no_ticks_are_refused(self) -> None:
        with pytest.raises(InputError, match="found none"):
            crash.read_ticks(ticks_of({"20260101-0000000000000000": [0.02]}))


class Tables:
    """Stored events as tables, made up."""

    def __init__(self, **tables: list[dict[str, object]]) -> None:
        self.tables = tables

    def arrow(self, doc_type: str, columns: list[str] | None = None) -> pa.Table:
        kinds = {
            "seq": pa.int64(),
            "cash": pa.int64(),
            "rug_tick": pa.int64(),
            "peak": pa.float64(),
            "tick": pa.int64(),
        }
        kinds |= {
            "sidebet_stake": pa.int64(),
            "sidebet_payout": pa.int64(),
            "price": pa.float64(),
            "game_phase": pa.int64(),
        }
        schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns or []])
        rows = [{name: row.get(name) for name in columns or []} for row in self.tables.get(doc_type, [])]
        return pa.Table.from_pylist(rows, schema)


class TestRevealed:
    def rows(self) -> list[dict[str, object]]:
        return [
            {
                "game_id": game_id,
                "server_seed": seed,
                "server_seed_hash": fair.server_seed_hash(seed),
                "game_version": "v3",
                "rug_tick": rug,
                "peak": peak,
            }
            for seed, game_id, rug, peak in PUBLISHED_ROUNDS
        ]

    def empty(self) -> crash.WholeRounds:
        return crash.WholeRounds((), np.empty(0, np.int64), np.empty(0), np.empty(0))

    def test_real_rounds_are_verified(self) -> None:
        revealed = list(crash.read_revealed(Tables(complete_game=self.rows()), self.empty()))
        assert len(revealed) == 5
        assert all(item.difference is None for item in revealed)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"rug_tick": 14}, "rug tick"),
            ({"peak": 1.5}, "peak"),
            ({"server_seed_hash": "0" * 64}, "promised"),
            ({"game_version": "v9"}, "version"),
        ],
    )
    def test_a_changed_one_is_not(self, change: dict[str, object], said: str) -> None:
        rows = self.rows()[:1]
        revealed = list(crash.read_revealed(Tables(complete_game=[rows[0] | change]), self.empty()))
        assert said in (revealed[0].difference or "")

    def test_received_prices_are_held_against_the_seed(self) -> None:
        seed, game_id, rug, _ = PUBLISHED_ROUNDS[0]
        prices = np.array(replay(seed, game_id).prices)
        whole = crash.WholeRounds((game_id,), np.array([rug]), prices[-1:], prices[:-1].copy())
        tables = Tables(complete_game=self.rows()[:1])
        assert next(crash.read_revealed(tables, whole)).difference is None
        whole.prices[7] += 1e-6
        assert "prices" in (next(crash.read_revealed(tables, whole)).difference or "")


class TestSettled:
    def test_payouts_are_read_from_bets_and_wallets(self, auditing: AuditRules) -> None:
        bet = {"session_id": "s", "window_id": "w", "sidebet_type": "payout", "sidebet_stake": 1000}
        tables = Tables(
            player_action=[
                bet | {"seq": 5, "event_name": "bet", "sidebet_payout": 5000},
                bet | {"seq": 15, "event_name": "bet", "sidebet_payout": 0},
                bet | {"seq": 3, "event_name": "bet", "sidebet_type": "placed"},
            ],
            ws_event=[bet | {"seq": 8, "event_name": "sidebet", "sidebet_payout": 5000, "window_id": "v"}],
            server_state=[
                {"session_id": "s", "seq": seq, "event_name": "player", "cash": cash}
                for seq, cash in ((1, 10_000), (4, 9_000), (6, 14_000), (14, 13_000), (16, 13_000))
            ],
        )
        settled = list(crash.read_settled(tables))
        assert settled == [
            SettledBet("w", 1000, 5000, 5000),
            SettledBet("v", 1000, 5000, None),
            SettledBet("w", 1000, 0, 0),
        ]
        material = auditing.from_rows(ticks_of(simulated(40, 5)))
        report = audit(
            "crash", auditing, Material(material.ages, 40, material.wagers, tuple(settled)), np.random.default_rng(1)
        )
        assert report.payouts is not None
        assert (report.payouts.won, report.payouts.multiple) == (2, 5.0)
        assert (report.payouts.seen, report.payouts.agreed) == (2, 2)
        assert any("2 of 2 payouts moved the wallet" in line for line in report.lines)


@pytest.fixture(scope="module")
def published(auditing: AuditRules) -> AuditReport:
    return audited(simulated(500, 16), auditing)


class TestAudit:
    def test_the_published_game_has_nothing_to_exploit(self, published: AuditReport) -> None:
        assert published.answer.startswith("No")
        assert not published.exploitable
        assert published.hazard.interval[0] <= 0.005 <= published.hazard.interval[1]
        assert min(test.p for test in published.tests) > 0.025
        assert all("no place is better than another" in line for line in published.lines if "such tests" in line)

    def test_the_sweet_spot_has_its_own_line(self, published: AuditReport) -> None:
        assert any(line.startswith("25x to 50x (the old plan's sweet spot)") for line in published.lines)

    def test_a_game_that_pays_is_found(self, auditing: AuditRules) -> None:
        report = audited(simulated(300, 7, drift=0.01), auditing)
        assert report.exploitable
        assert report.answer.startswith("Perhaps")

    def test_a_hazard_that_differs_is_said(self, auditing: AuditRules) -> None:
        report = audited(simulated(300, 8, hazard=0.02), auditing)
        assert any("does NOT hold" in line for line in report.lines)
        early, late = simulated(300, 9, hazard=0.002), simulated(300, 10, hazard=0.02)
        mixed = early | {f"20260102{window[8:]}": prices for window, prices in late.items()}
        assert any("NOT memoryless" in line for line in audited(mixed, auditing).lines)

    def test_little_is_called_little(self, auditing: AuditRules) -> None:
        assert audited(simulated(3, 11), auditing).answer.startswith("Too little")

    def test_old_promises_stand_beside_what_was_measured(self, published: AuditReport) -> None:
        kept = {promise.what: promise for promise in published.promises}
        rugged = kept["rugged by tick 138"]
        assert rugged.published == pytest.approx(0.4993, abs=1e-4)
        assert rugged.measured == pytest.approx(rugged.published, abs=0.07)  # three standard errors
        hold = kept["entry at 1x, held 65 ticks: success"]
        assert hold.measured is not None
        assert hold.measured < 0.5 < hold.claimed

    def test_the_page_opens_offline_and_says_it_all(self, published: AuditReport, auditing: AuditRules) -> None:
        text = page(published, auditing, "<b>recordings</b>")
        assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text)
        assert "&lt;b&gt;recordings" in text
        assert published.answer in text
        assert text == page(published, auditing, "<b>recordings</b>")
        payload = json.loads(json.dumps(to_json(published)))
        assert payload["hazard"]["value"] == published.hazard.value

    @pytest.mark.browser
    def test_the_page_draws_its_plots(
        self, published: AuditReport, auditing: AuditRules, chromium: Path, tmp_path: Path
    ) -> None:
        from playwright.sync_api import sync_playwright

        path = tmp_path / "audit.html"
        path.write_text(page(published, auditing, "recordings"), encoding="utf-8")
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
            shown = browser.new_page(viewport={"width": 390, "height": 844})
            failures: list[str] = []
            shown.on("pageerror", lambda error: failures.append(str(error)))
            shown.on("request", lambda request: request.url.startswith("http") and failures.append(request.url))
            shown.goto(path.as_uri())
            shown.wait_for_selector("figure[data-drawn]")
            drawn = shown.locator("figure[data-drawn] canvas").count()
            assert shown.locator("figure[data-chart]").count() == drawn == 6
            assert shown.evaluate("document.documentElement.scrollWidth") <= 390
            browser.close()
        assert not failures


class TestJoint:
    def test_it_is_right_about_how_often(self) -> None:
        rng = np.random.default_rng(12)
        rejected = []
        for _ in range(200):
            common = rng.normal(size=(150, 1))
            above = common + rng.normal(size=(150, 5))
            rejected.append(joint_test(above, np.ones((150, 5)), np.zeros(5), rng, draws=200).p < 0.05)
        assert 0.01 <= np.mean(rejected) <= 0.1

    def test_one_that_differs_is_found(self) -> None:
        rng = np.random.default_rng(13)
        above = rng.normal(size=(300, 6))
        above[:, 2] += 0.4
        result = joint_test(above, np.ones((300, 6)), np.zeros(6), rng)
        assert result.p < 0.01
        assert 2 < result.critical < 3.2


class TestCommand:
    def test_it_audits_a_store(self, home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        from playproof.game import Fact
        from playproof.store import EventLog

        facts = []
        for row in ticks_of(simulated(30, 14, hazard=0.02)).iter_rows(named=True):
            if row["tick"] == 0:
                facts.append(Fact("round", "server_state", {}, row["window_id"]))
            payload = {name: row[name] for name in ("tick", "price", "game_phase")} | {"cooldown_timer_ms": 0}
            facts.append(Fact("tick", "game_tick", payload, row["window_id"]))
        start, beat = datetime(2026, 1, 1, tzinfo=UTC), timedelta(milliseconds=250)
        events = [fact.event(start + seq * beat, "s", seq) for seq, fact in enumerate(facts)]
        with EventLog.open(home, GAME.columns) as log:
            log.append(events)
        out = tmp_path / "pages" / "audit.html"
        assert main(["audit", str(home), "--out", str(out), "--json"]) == 0
        payload = json.loads(capsys.readouterr().out)
        assert (payload["windows"], payload["whole"], payload["page"]) == (30, 30, str(out))
        assert out.exists()
        assert main(["audit", str(home)]) == 0
        assert "a unit staked: hold 40" in capsys.readouterr().out
        assert list((home / "reports").glob("audit-*.html"))
        assert main(["dataset", "build", "mine", "--json"]) == 0
        (made,) = (home / "datasets").iterdir()
        capsys.readouterr()
        assert main(["audit", str(made), "--json"]) == 0
        again = json.loads(capsys.readouterr().out)
        assert again["hazard"] == payload["hazard"]
        assert [item["count"] for item in again["wagers"]] == [item["count"] for item in payload["wagers"]]

    def test_nothing_to_audit_is_an_error(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["audit", str(tmp_path / "missing")]) == 1
        assert "found nothing" in capsys.readouterr().err
        (tmp_path / "odd.jsonl").write_text("{}\n")
        assert main(["audit", str(tmp_path / "odd.jsonl")]) == 1
        assert "found none that can be read" in capsys.readouterr().err
        assert main(["audit", str(tmp_path), "--game", "arena"]) == 1

    def test_the_shared_recordings(self, shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        archive = shared_data / "crash" / "legacy-recordings.tar.gz"
        assert main(["audit", str(archive), "--out", str(tmp_path / "a.html"), "--json"]) == 0
        payload = json.loads(capsys.readouterr().out)
        low, high = payload["hazard"]["interval"]
        assert low < 0.005 < high
        assert all(test["p"] > 0.05 for test in payload["tests"])
        assert not payload["exploitable"]
        assert payload["whole"] == 548
        assert sum("no place is better than another" in line for line in payload["lines"]) == 4
        assert any(line.startswith("25x to 50x (the old plan's sweet spot), hold 40") for line in payload["lines"])

    def test_seeds_in_a_capture_are_verified(
        self, shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        capture = shared_data / "crash" / "socket-capture-public.jsonl.gz"
        assert main(["audit", str(capture), "--out", str(tmp_path / "a.html"), "--json"]) == 0
        payload = json.loads(capsys.readouterr().out)
        assert payload["verified"] == payload["revealed"] == 12
        assert payload["answer"].startswith("Too little")


def test_wagers_and_ages_are_plain_records() -> None:
    wager = Wager("g", "n", ("w",), np.ones(1), np.zeros(1), np.zeros(1))
    ages = WindowAges(("w",), np.zeros(1, np.int64), np.ones(1, np.int64), np.ones(1, np.bool_))
    assert Material(ages, 1, (wager,)).verified == ()
