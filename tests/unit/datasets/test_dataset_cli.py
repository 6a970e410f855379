"""The commands of data sets, from a folder of somebody's own recordings to a card, checks and exports."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from old_recordings import write_recordings

from playproof.cli.app import main
from playproof.cli.data.dataset import read_shares
from playproof.datasets import Dataset, open_dataset
from playproof.datasets.check import check_balance, check_duplicates, check_lookahead, check_numbers, check_splits
from playproof.datasets.registry import find_dataset
from playproof.errors import ConfigError
from playproof.game import load_game
from playproof.reports.dataset import survival_rows, write_card
from playproof.store import EventStore, compact

GAME = load_game("crash")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    folder = tmp_path_factory.mktemp("own") / "recordings"
    return folder, write_recordings(folder, 24)


@pytest.fixture(scope="module")
def filled(recordings: tuple[Path, list[int]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a home into which the recordings were imported, with a data set of them."""
    home = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLAYPROOF_HOME", str(home))
        assert main(["import", "legacy", str(recordings[0]), "--zone", "UTC"]) == 0
        assert main(["dataset", "build", "mine"]) == 0
    return home


@pytest.fixture
def own(filled: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAYPROOF_HOME", str(filled))
    return filled


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_build_says_what_it_made(
    own: Path, recordings: tuple[Path, list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dataset", "build", "mine", "--json"]) == 0
    made = told(capsys)
    assert (made["episodes"], made["left_out"]) == (23, 1)
    assert made["reasons"] == {"no rug was seen": 1}
    assert made["left_out_windows"][0]["reason"] == "no rug was seen"
    assert made["steps"] == sum(recordings[1]) + 23, "a step for the presale and one for each tick before the rug"
    assert made["splits"] == {"train": 13, "gap": 2, "validation": 4, "test": 4}
    assert (made["features"], made["stored_features"], made["game"]) == (31, 37, "crash")
    assert Path(made["path"]) == find_dataset("mine", own), "the same data set is found, not built again"


def test_options_change_what_is_built(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--observation", "recorded", "--actions", "buttons-share", "--reward", "minimal", "--game", "crash"]
    more = ["--include-incomplete", "--min-ticks", "30", "--split", "train=0.7,test=0.3", "--gap", "0"]
    assert main(["dataset", "build", "wide", *options, *more, "--json"]) == 0
    made = told(capsys)
    assert (made["observation"], made["features"], made["actions"]) == ("recorded", 37, "buttons-share")
    assert made["episodes"] + made["left_out"] == 24
    assert all("less than 30" in reason for reason in made["reasons"])
    assert set(made["splits"]) == {"train", "test"}
    chosen = ["--session", "legacy-20251029-0000000000000003", "--session", "legacy-20251029-0000000000000004"]
    assert main(["dataset", "build", "two", *chosen, "--split", "all=1", "--json"]) == 0
    assert told(capsys)["episodes"] == 2
    window = ["--window", "20251029-0000000000000005", "--split", "all=1"]
    assert main(["dataset", "build", "one", *window, "--json"]) == 0
    assert told(capsys)["windows"] == 1


def test_the_list(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataset", "ls", "--json"]) == 0
    rows = [row for row in told(capsys)["datasets"] if row["name"] == "mine"]
    assert [(row["game"], row["episodes"]) for row in rows] == [("crash", 23)]
    assert main(["dataset", "ls"]) == 0
    assert "mine" in capsys.readouterr().out


def test_an_empty_home_says_what_to_do(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataset", "ls"]) == 0
    assert "no data sets yet" in capsys.readouterr().out
    assert main(["dataset", "build", "mine"]) == 1
    assert "playproof import" in capsys.readouterr().err
    assert main(["dataset", "show", "mine"]) == 1
    assert "there are: none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "spark"], "local or ray"),
        (["--split", "train"], "train=0.8"),
        (["--split", "=1"], "a name for each split"),
        (["--actions", "keys"], "action set"),
        (["--observation", "eyes"], "observation set"),
        (["--reward", "glory"], "reward"),
        (["--game", "chess"], "chess"),
    ],
)
def test_wrong_options_are_named(
    own: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dataset", "build", "other", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_shares() -> None:
    assert read_shares("train=0.6, test=0.4") == {"train": 0.6, "test": 0.4}
    with pytest.raises(ConfigError):
        read_shares("train=much")


# The card


def figures(page: str) -> list[dict[str, Any]]:
    return [json.loads(result) for result in re.findall(r'<script type="application/json">(.*?)</script>', page)]


def test_the_card_is_one_file_with_everything(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataset", "show", "mine", "--json"]) == 0
    made = told(capsys)
    assert made["card"].startswith(str(own / "reports"))
    page = Path(made["card"]).read_text()
    assert not re.findall("(?:src|href)=", page[: page.index("<script>")]), "nothing is loaded from elsewhere"
    for title in ("How long windows last", "What was done", "Presses by phase", "Example episodes", "Rewards"):
        assert f"<h2>{title}</h2>" in page
    for title in ("What is unknown", "Splits in time", "Left out"):
        assert f"<h2>{title}</h2>" in page
    assert "no rug was seen" in page
    assert "theory (published)" in page
    drawn = figures(page)
    assert all(item["series"] for item in drawn)
    curve = next(line for line in drawn[0]["series"] if line.get("name") == "measured")
    assert curve["y"][0] == 1.0
    assert curve["y"] == sorted(curve["y"], reverse=True)
    assert main(["dataset", "show", "mine", "--out", str(tmp_path / "card.html")]) == 0
    assert (tmp_path / "card.html").read_text() == page, "the same data set, the same card"


@pytest.mark.browser
def test_the_card_fits_a_phone(own: Path, tmp_path: Path, chromium: Path) -> None:
    sync = pytest.importorskip("playwright.sync_api")
    card = write_card(open_dataset(find_dataset("mine", own)), tmp_path / "card.html")
    with sync.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        failures: list[str] = []
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("request", lambda request: failures.append(request.url) if request.url.startswith("http") else None)
        page.goto(card.as_uri())
        page.wait_for_selector("figure[data-drawn]")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("document.querySelectorAll('figure[data-drawn] canvas').length") >= 8
        assert not failures
        browser.close()


# Checks


@pytest.fixture(scope="module")
def dataset(filled: Path) -> Dataset:
    return open_dataset(find_dataset("mine", filled))


def test_a_sound_data_set_passes(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataset", "check", "mine", "--cuts", "8", "--json"]) == 0
    result = told(capsys)
    assert result["passed"]
    names = ["NaN", "balance", "duplicate rounds", "same round, other id", "splits", "look-ahead"]
    assert [item["check"] for item in result["checks"]] == names
    assert all(item["passed"] and item["counted"] for item in result["checks"])


class Altered:
    """A data set with one table changed in memory, as a careless builder would have written it."""

    def __init__(self, dataset: Dataset, table: str, change: Any) -> None:
        self.manifest = dict(dataset.manifest)
        session = next(iter(dataset.sessions))
        tables = dict(dataset.sessions[session])
        tables[table] = tables[table].with_columns(change)
        self.sessions = {session: _Tables(tables, dataset.sessions[session].episodes)}


class _Tables(dict[str, pl.DataFrame]):
    def __init__(self, tables: dict[str, pl.DataFrame], episodes: list[dict[str, Any]]) -> None:
        super().__init__(tables)
        self.episodes = episodes


@pytest.mark.parametrize(
    ("check", "table", "change"),
    [
        (check_numbers, "observations", pl.lit(float("nan"), pl.Float32).alias("price")),
        (check_balance, "rewards", (pl.col("next_equity") + pl.int_range(pl.len())).alias("next_equity")),
        (check_balance, "rewards", (pl.col("reward") + 1.0).alias("reward")),
    ],
)
def test_a_check_fails_on_what_it_is_for(dataset: Dataset, check: Any, table: str, change: Any) -> None:
    assert check(dataset).passed
    assert check(Altered(dataset, table, change)).passed is False


def test_looking_ahead_is_found(dataset: Dataset, filled: Path) -> None:
    store, leak = EventStore(filled), pl.col("price").shift(-1, fill_value=1.0).alias("price_velocity")
    assert check_lookahead(dataset, store, np.random.default_rng(1), 3).passed
    lookahead = check_lookahead(Altered(dataset, "observations", leak), store, np.random.default_rng(1), 3)  # type: ignore[arg-type]
    assert lookahead.passed is False
    assert "step" in lookahead.detail


def test_a_round_that_stands_twice_is_found(dataset: Dataset) -> None:
    tables = next(iter(dataset.sessions.values()))
    duplicates = check_duplicates(SimpleNamespace(sessions={"a": tables, "b": tables}))  # type: ignore[arg-type]
    assert duplicates.passed is False
    assert "in a and in b" in duplicates.detail


def test_a_split_that_is_not_in_time_is_found(dataset: Dataset) -> None:
    split = {name: ("train", "test")[index % 2] for index, name in enumerate(dataset.manifest["split"])}
    shuffled = SimpleNamespace(sessions=dataset.sessions, manifest={"split": split})
    assert check_splits(shuffled).passed is False  # type: ignore[arg-type]


def test_a_build_stops_at_a_damaged_part(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the part's events the data set would be another one; nothing is left of the build."""
    home = tmp_path / "damaged"
    shutil.copytree(filled, home)
    monkeypatch.setenv("PLAYPROOF_HOME", str(home))
    compact(home, final=True)
    window = next(event.window_id for event in EventStore(home).events(doc_type="game_tick") if event.window_id)
    for victim in sorted((home / "events").glob("doc_type=game_tick/date=*/*.parquet")):
        content = bytearray(victim.read_bytes())
        content[-40] ^= 1
        victim.write_bytes(content)
    before = sorted((home / "datasets").iterdir())
    for words in ([], ["--window", window]):
        assert main(["dataset", "build", "other", *words]) == 1
        message = " ".join(capsys.readouterr().err.split())
        assert "SHA-256 of the footer differs; nothing was built" in message
        assert "playproof store verify" in message
    assert sorted((home / "datasets").iterdir()) == before


def test_a_failed_check_exits_with_2(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from playproof.datasets import check

    monkeypatch.setattr(
        check, "check_balance", lambda _: check.DatasetFinding("balance", False, 1, "it does not add up")
    )
    assert main(["dataset", "check", "mine", "--cuts", "1"]) == 2


def test_without_the_recording_the_look_ahead_check_is_not_made(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(own / "datasets", tmp_path / "elsewhere" / "datasets")
    monkeypatch.setenv("PLAYPROOF_HOME", str(tmp_path / "elsewhere"))
    assert main(["dataset", "check", "mine", "--cuts", "2", "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert payload["checks"][-1]["passed"] is None


def test_a_changed_value_is_refused(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(own / "datasets", tmp_path / "other" / "datasets")
    monkeypatch.setenv("PLAYPROOF_HOME", str(tmp_path / "other"))
    path = next(find_dataset("mine", tmp_path / "other").glob("sessions/*/observations.parquet"))
    pl.read_parquet(path).with_columns((pl.col("price") + 1).cast(pl.Float32)).write_parquet(path)
    assert main(["dataset", "check", "mine"]) == 1
    assert "build it again" in capsys.readouterr().err


# Exports


def test_export_writes_a_folder(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "parquet"
    assert main(["dataset", "export", "mine", "--format", "huggingface", "--out", str(out), "--json"]) == 0
    made = told(capsys)
    assert "data/train-00000-of-00001.parquet" in made["files"]
    assert (out / "README.md").read_text().startswith("---\n")
    assert main(["dataset", "export", "mine", "--format", "huggingface", "--out", str(out)]) == 1
    assert "new or empty" in capsys.readouterr().err
    assert main(["dataset", "export", "mine", "--format", "csv", "--out", str(tmp_path / "x")]) == 1


# The real recordings


def from_recordings(path: Path, card: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Any, Any]:
    """Import recordings, build a data set and its card, and hold them against theory; give both reports."""
    assert main(["import", "legacy", str(path), "--json"]) == 0
    report = told(capsys)
    assert main(["dataset", "build", "legacy", "--json"]) == 0
    made = told(capsys)
    assert made["episodes"] + made["left_out"] == report["rounds"]
    assert made["left_out"] == report["incomplete"] == sum(made["reasons"].values())
    assert all(left["reason"] for left in made["left_out_windows"])
    result = open_dataset(Path(made["path"]))
    assert check_numbers(result).passed
    lengths = [episode["outcome"]["rug_tick"] for tables in result.sessions.values() for episode in tables.episodes]
    table = survival_rows(lengths, GAME, None)
    assert max(abs(row["z"]) for row in table) < 3, table
    assert made["steps"] == sum(episode["steps"] for tables in result.sessions.values() for episode in tables.episodes)
    assert 20_000 < write_card(result, card).stat().st_size < 1_000_000
    return report, made


def test_some_of_the_real_recordings(
    shared_data: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    with tarfile.open(shared_data / "crash" / "legacy-recordings.tar.gz") as archive:
        for member in sorted(filter(tarfile.TarInfo.isfile, archive.getmembers()), key=lambda item: item.name)[::20]:
            file = archive.extractfile(member)
            assert file is not None
            (folder / Path(member.name).name).write_bytes(file.read())
    _, made = from_recordings(folder, tmp_path / "card.html", capsys)
    assert made["episodes"] > 25


@pytest.mark.torture
@pytest.mark.timeout(1200)
def test_all_of_the_real_recordings(
    shared_data: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = shared_data / "crash" / "legacy-recordings.tar.gz"
    report, made = from_recordings(archive, tmp_path / "card.html", capsys)
    assert (report["rounds"], made["episodes"], made["left_out"], made["steps"]) == (589, 548, 41, 103_150)
    assert made["reasons"] == {"it began in mid-round": 13, "no rug was seen": 14, "ticks were lost": 14}
