"""The page of a language model's run: money first, before and after, in whole units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playproof.money import UNIT
from playproof.reports.page import PageTable
from playproof.reports.run import figures, holdout_table, language_figures, page


def held(step: int, pnl: float, valid: float = 1.0, **gain: float) -> dict[str, Any]:
    """Give a note of held-out windows, in the smallest unit."""
    result = {"holdout_pnl": pnl, "holdout_pnl_low": pnl - 2, "holdout_pnl_high": pnl + 3, **gain}
    shares = {"holdout_valid": valid, "holdout_refused": 0.25, "holdout_trades": 0.5}
    money = {name: value * UNIT for name, value in result.items()}
    return {"kind": "holdout", "step": step, "holdout_windows": 64} | money | shares


def learned(step: int) -> dict[str, Any]:
    """Give a note of an iteration."""
    scores = {"score_min": -0.2, "score_max": 0.3, "score_mean": 0.1 * step}
    return {"kind": "grpo", "step": step, "windows": 4, "flat": 1, "kl": 0.01} | scores


def lines(figure: Any) -> dict[str, tuple[list[float], list[float]]]:
    """Give what is drawn, by its name in the legend."""
    return {item.name: (list(item.x), list(item.y)) for item in figure.series}


def test_money_is_drawn_with_its_interval_beside_the_beginning() -> None:
    notes = [held(0, 6.0), learned(1), learned(2), held(2, 14.0, 0.9, gain=8, gain_low=2, gain_high=15)]
    drawn = {figure.title: figure for figure in language_figures(notes)}
    assert list(drawn) == [
        "Money: profit per held-out window",
        "Answers on held-out windows",
        "Scores of the iteration's own episodes",
        "How the policy moves",
    ]
    money = drawn["Money: profit per held-out window"]
    assert lines(money)["held out, 95 % interval"] == ([0, 2], [6, 14])
    assert lines(money)["at the beginning"] == ([0, 2], [6, 6])
    assert (money.series[1].low, money.series[1].high) == ([4, 12], [9, 17])
    assert lines(drawn["Answers on held-out windows"])["valid decisions"][1] == [1.0, 0.9]
    assert lines(drawn["Answers on held-out windows"])["refused orders"][1] == [0.25, 0.25]
    assert lines(drawn["How the policy moves"])["groups without spread, right axis"][1] == [0.25, 0.25]
    assert lines(drawn["Scores of the iteration's own episodes"])["mean"][1] == [0.1, 0.2]


def test_a_run_without_held_out_windows_shows_what_it_has() -> None:
    assert [figure.title for figure in language_figures([learned(1)])] == [
        "Scores of the iteration's own episodes",
        "How the policy moves",
    ]
    taught = [{"kind": "sft", "step": step, "loss": 3.0 / step, "tokens": 9} for step in (1, 2, 3)]
    (loss,) = figures(taught)
    assert lines(loss)["loss"] == ([1, 2, 3], [3.0, 1.5, 1.0])
    assert language_figures([]) == []
    assert holdout_table({"before": None, "after": None}) is holdout_table({}) is None


def test_before_and_after_are_told_in_whole_units() -> None:
    payload = holdout_table(
        {"before": held(0, 6.25), "after": held(12, 14.4, 0.91, gain=8.15, gain_low=2.08, gain_high=14.49)}
    )
    assert payload is not None
    assert payload.title == "On 64 held-out windows"
    gain, table = payload.parts
    assert gain == "Gain, paired window by window: +8.15 (95 % +2.08 to +14.49)."
    assert isinstance(table, PageTable)
    assert table.rows == [
        ("before", "+6.25 (95 % +4.25 to +9.25)", "100%", "25%", "0.50"),
        ("after 12 iterations", "+14.40 (95 % +12.40 to +17.40)", "91%", "25%", "0.50"),
    ]
    stopped = holdout_table({"before": held(0, 6.0), "after": held(0, 6.0)})  # before its first measurement
    assert stopped is not None
    (table,) = stopped.parts
    assert isinstance(table, PageTable)
    assert [row[0] for row in table.rows] == ["before"]


def test_the_page_of_a_run_shows_plots_and_table_and_no_raw_money(tmp_path: Path) -> None:
    before, after = held(0, 6.25), held(8, 14.4, gain=8.15, gain_low=2.08, gain_high=14.49)
    payload = {"method": "grpo", "commit": "c0ffee", "config": {"forks": 8}}
    (tmp_path / "config.json").write_text(json.dumps(payload))
    (tmp_path / "result.json").write_text(json.dumps({"iterations": 8, "before": before, "after": after}))
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(item) + "\n" for item in (before, learned(8), after)))
    written = page(tmp_path)
    shown = written.split("<h1>")[1]
    for text in (
        "Money: profit per held-out window",
        "How the policy moves",
        "On 64 held-out windows",
        "+8.15 (95 % +2.08",
    ):
        assert text in shown
    assert "Money on held-out windows, the same ones every time." in shown
    assert "holdout_pnl" not in shown  # nothing is printed as the program keeps it
