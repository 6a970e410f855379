"""The price algorithm: published vectors, the compiled twin, real rounds."""

from __future__ import annotations

import inspect
import json
import re
import types
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from playproof._numba import cache_folder, sources_of
from playproof.cli.app import main
from playproof.games.crash.rules import prices as fair
from playproof.games.crash.rules import worlds
from playproof.games.crash.rules.verify import PUBLISHED_ROUNDS as VECTORS
from playproof.games.crash.rules.verify import check_file
from playproof.games.crash.sim import kernel, prices_nb


def test_seedrandom_gives_the_documented_numbers() -> None:
    uniform = fair.SeedRandom("hello.")
    assert [uniform(), uniform()] == [0.9282578795792454, 0.3752569768646784]


@pytest.mark.parametrize(("seed", "game_id", "rug_tick", "peak"), VECTORS)
def test_vectors(seed: str, game_id: str, rug_tick: int, peak: float) -> None:
    for play in (fair.play_round, prices_nb.site_round):
        result = play(seed, game_id)
        assert (result.rug_tick, result.peak) == (rug_tick, peak)
        assert result.rug_price == (1 - 0.98) * min(result.prices[:-1])


@given(st.text(st.characters(codec="ascii"), max_size=120), st.sampled_from(fair.VERSIONS))
def test_compiled_site_rounds_equal_the_plain_ones(seed: str, version: fair.Version) -> None:
    assert prices_nb.site_round(seed, "g", version) == fair.play_round(seed, "g", version)


def test_a_seed_beyond_256_characters_or_ascii_is_replayed_too() -> None:
    for seed in ("x" * 300, "söed"):
        assert prices_nb.site_round(seed, "g") == fair.play_round(seed, "g")


@given(st.integers(-(2**63), 2**64 - 1), st.integers(-200, 10**9), st.sampled_from(list(worlds.WORLDS)))
def test_compiled_counter_rounds_equal_the_plain_ones(seed: int, number: int, name: str) -> None:
    world = worlds.get_world(name)
    plain = worlds.counter_round(world, seed, number)
    prices = np.empty(fair.MAX_TICKS + 1)
    last, rugged = prices_nb.counter_round(world.code, np.uint64(seed & fair.MASK), number, prices)
    assert (tuple(prices[: last + 1].tolist()), rugged) == (plain.prices, plain.rugged)


def test_site_rounds_of_the_published_world_are_the_published_rounds() -> None:
    seed, game_id, *_ = VECTORS[0]
    assert (
        worlds.site_round(worlds.get_world("published"), seed, game_id).prices == fair.play_round(seed, game_id).prices
    )


@given(st.integers(0, 2**64 - 1), st.integers(0, 5000), st.integers(0, 7))
def test_counter_draws_are_equal_and_in_range(key: int, tick: int, draw: int) -> None:
    plain = fair.counter_uniform(key, tick, draw)
    assert 0 <= plain < 1
    assert prices_nb.counter_uniform(np.uint64(key), tick, draw) == plain


def test_the_counter_stream_is_uniform_and_uncorrelated() -> None:
    draws = np.array(
        [[fair.counter_uniform(fair.round_key(3, number), tick, 0) for tick in range(64)] for number in range(600)]
    )
    counts, _ = np.histogram(draws, bins=50, range=(0, 1))
    expected = draws.size / 50
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 100  # 49 degrees of freedom: above 100 once in 10^4 streams
    limit = 4.5 / np.sqrt(draws.size)
    for one, other in ((draws[:, 1:], draws[:, :-1]), (draws[1:], draws[:-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < limit


def test_recorded_rounds_are_reproduced_to_the_last_bit(shared_data: Path) -> None:
    path = shared_data / "crash" / "seeded-games.jsonl.gz"
    checked = list(check_file(path))
    assert len(checked) == 30
    assert not [one for one in checked if one.difference]
    assert main(["crash", "verify", str(path), "--json"]) == 0


@pytest.fixture
def revealed(tmp_path: Path) -> Path:
    path = tmp_path / "rounds.jsonl"
    rows = []
    for seed, game_id, _, peak in VECTORS:
        result = fair.play_round(seed, game_id)
        proof = {"serverSeed": seed, "serverSeedHash": fair.server_seed_hash(seed)}
        rows.append({"id": game_id, "peakMultiplier": peak, "prices": list(result.prices), "provablyFair": proof})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_verify_counts_and_names_differences(revealed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crash", "verify", str(revealed), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verified"] == len(VECTORS)
    lines = revealed.read_text().splitlines()
    first, second = json.loads(lines[0]), json.loads(lines[1])
    first["prices"][5] += 1e-8
    second["provablyFair"]["serverSeedHash"] = "00"
    lines[:2] = [json.dumps(first), json.dumps(second)]
    lines[2] = lines[2][:-9]
    revealed.write_text("\n".join(lines))
    assert main(["crash", "verify", str(revealed), "--json"]) == 2
    payload = json.loads(capsys.readouterr().out)
    assert (payload["verified"], payload["total"]) == (len(VECTORS) - 3, len(VECTORS))
    reasons = [row["difference"] for row in payload["differences"]]
    assert reasons[0].startswith("tick 5:")
    assert reasons[1].startswith("seed hash:")
    assert "JSONDecodeError" in reasons[2]


def test_verify_prints_one_round(capsys: pytest.CaptureFixture[str]) -> None:
    seed, game_id, rug_tick, peak = VECTORS[1]
    assert main(["crash", "verify", "--server-seed", seed, "--game-id", game_id, "--json", "--prices"]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert (payload["rug_tick"], payload["peak"], len(payload["prices"])) == (rug_tick, peak, rug_tick + 1)
    assert payload["server_seed_hash"] == fair.server_seed_hash(seed)
    assert main(["crash", "verify", "--server-seed", seed]) == 1
    assert main(["crash", "verify", "--server-seed", seed, "--game-id", "x", "--version", "v9"]) == 1
    assert main(["crash", "verify", "no-such-file.jsonl"]) == 1


def test_every_module_that_compiled_code_is_made_from_is_in_the_digest() -> None:
    """numba watches a function's own file; the digest must hold the files that it calls into."""
    package = Path(fair.__file__).parents[1]
    compiling = [path for path in package.rglob("*.py") if "compiler(__file__" in path.read_text()]
    assert len(compiling) > 8
    for path in compiling:
        module = import_module("playproof." + ".".join(path.relative_to(package.parents[1]).with_suffix("").parts))
        functions = [value for value in vars(module).values() if hasattr(value, "py_func")]
        called = {Path(inspect.getfile(function.py_func)) for function in functions}
        names = {name for function in functions for name in function.py_func.__code__.co_names}
        modules = [value for name in names if isinstance(value := getattr(module, name, None), types.ModuleType)]
        called |= {Path(value.__file__) for value in modules if value.__file__ and str(package) in value.__file__}
        missing = {source for source in called if package in source.parents} - set(sources_of(str(path)))
        assert not missing, path.name


def test_an_edit_of_an_imported_module_leads_to_a_fresh_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache_folder(kernel.__file__)
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + b"#" * (self.name == "worlds.py"))
    assert cache_folder(kernel.__file__) != before


def test_no_module_borrows_the_decorator_of_another() -> None:
    """A borrowed decorator has the digest of the lender's files, not of the borrower's."""
    package = Path(fair.__file__).parents[1]
    for path in package.rglob("*.py"):
        text = path.read_text()
        if re.search(r"^@(\w+\.)?(compiled|inlined|uncounted)$", text, re.MULTILINE):
            assert "compiler(__file__" in text, path.name
            assert not re.search(r"import .*\b(compiled|inlined)\b", text), path.name
