"""Engines: the same results in the same order, wherever they are made."""

from __future__ import annotations

import pytest

from playproof.errors import ConfigError
from playproof.parallel import AHEAD, LocalEngine, Ray, make_engine


def squared(number: int) -> int:
    """Square a number; one of them is refused."""
    if number == 13:
        raise ConfigError("expected a lucky number, found 13")
    return number * number


@pytest.mark.parametrize(
    "engine", [LocalEngine(), LocalEngine(3), LocalEngine(2, processes=True)], ids=["one", "threads", "processes"]
)
def test_results_come_in_order(engine: LocalEngine) -> None:
    assert list(engine.map(squared, range(10))) == [number * number for number in range(10)]
    with pytest.raises(ConfigError, match="lucky"):
        list(engine.map(squared, [1, 13, 2]))


def test_no_more_is_under_way_than_workers_can_take() -> None:
    asked: list[int] = []

    def items() -> object:
        for number in range(100, 200):
            asked.append(number)
            yield number

    results = LocalEngine(2).map(squared, items())  # type: ignore[arg-type]
    assert next(results) == 10_000
    assert len(asked) <= 2 * AHEAD
    assert len(list(results)) == 99


def test_engines_are_made_by_name() -> None:
    assert make_engine() == LocalEngine()
    assert make_engine("local", 4) == LocalEngine(4)
    assert make_engine("ray", 1, "10.0.0.1:6379") == Ray("10.0.0.1:6379")
    assert make_engine("ray").is_remote
    assert LocalEngine(2, processes=True).is_remote
    assert not LocalEngine(2).is_remote
    for name, workers, address in (("spark", 1, None), ("local", 0, None), ("local", 1, "10.0.0.1:6379")):
        with pytest.raises(ConfigError):
            make_engine(name, workers, address)  # type: ignore[arg-type]
