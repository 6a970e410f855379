"""The model registry: versions by content, pointers moved by one compare-and-swap, gates, hooks and commands."""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models_kit import NOW, Clock, linear_policy, note_look, open_registry, write_report
from sqlalchemy import Engine, func, select
from sqlalchemy.exc import IntegrityError

from playproof.cli.app import main
from playproof.cli.targets import find_model, find_policy
from playproof.errors import ConfigError, InputError, UnknownName
from playproof.models.changing import promote, rollback
from playproof.models.files import DamagedCheckpoint, hash_files
from playproof.models.gates import PromotionRefused, is_practice
from playproof.models.hooks import SIGNATURE_HEADER, TIME_HEADER, read_hooks, sign
from playproof.models.registry import (
    PointerChange,
    PointerConflict,
    PromotionGround,
    Registry,
    standing_versions,
)
from playproof.store.db import ModelPointerRow, PointerChangeRow

PRACTICE = PromotionGround("practice")


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("policies")
    return [linear_policy(root / f"p{seed}", seed % 2, seed) for seed in range(4)]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, home: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{home / 'playproof.db'}"
    return str(request.getfixturevalue("postgres").new())


@pytest.fixture
def tables(url: str, home: Path) -> Iterator[tuple[Engine, Registry]]:
    engine, registry = open_registry(url, home)
    yield engine, registry
    engine.dispose()


@pytest.fixture
def registry(tables: tuple[Engine, Registry]) -> Registry:
    return tables[1]


@pytest.fixture
def local(home: Path) -> Iterator[Registry]:
    """Give a registry on SQLite in the home, as commands find it."""
    engine, registry = open_registry(f"sqlite:///{home / 'playproof.db'}", home)
    yield registry
    engine.dispose()


def test_a_version_is_what_its_files_are(registry: Registry, policies: list[Path], tmp_path: Path) -> None:
    first, new = registry.add(policies[0], "trader")
    again, known = registry.add(policies[0], "trader")
    second, _ = registry.add(policies[1], "trader")
    other, _ = registry.add(policies[0], "other")
    assert (new, known) == (True, False)
    assert again == first
    assert (first.version, second.version, other.version) == (1, 2, 1)
    assert other.checkpoint == first.checkpoint != second.checkpoint
    assert (first.kind, first.game, first.method) == ("policy", "crash", "ppo")
    assert first.reward_hash == "r" * 64
    assert first.world_hash is not None
    assert first.metrics == {"roi": 0.0}
    assert registry.version("trader", 1) == first
    assert registry.open(first).name == first.checkpoint
    assert hash_files(registry.open(first)) == hash_files(policies[0])
    moved = registry.export(first, tmp_path / "out")
    assert hash_files(moved) == hash_files(policies[0])
    with pytest.raises(InputError, match="new folder"):
        registry.export(first, tmp_path / "out")


def test_a_changed_byte_is_refused_by_the_name_of_its_file(registry: Registry, policies: list[Path]) -> None:
    version, _ = registry.add(policies[0], "trader")
    file = registry.folder / version.checkpoint / "weights.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(DamagedCheckpoint, match=r"weights\.safetensors"):
        registry.open(version)
    with pytest.raises(DamagedCheckpoint):
        registry.add(policies[0], "trader")
    file.unlink()
    with pytest.raises(DamagedCheckpoint, match=r"weights\.safetensors, found it missing"):
        registry.open(version)


def test_odd_folders_are_no_versions(registry: Registry, policies: list[Path], tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.mkdir()
    with pytest.raises(InputError, match=r"checkpoint\.json"):
        registry.add(odd, "trader")
    for file in policies[0].iterdir():
        (odd / file.name).write_bytes(file.read_bytes())
    (odd / "link").symlink_to(policies[0] / "weights.safetensors")
    with pytest.raises(InputError, match="plain files"):
        registry.add(odd, "trader")
    with pytest.raises(InputError, match="model's name"):
        registry.add(policies[0], "../up")
    with pytest.raises(ConfigError, match="baseline"):
        registry.add(policies[0], "baseline")
    assert registry.versions() == ()
    assert [path.name for path in registry.folder.iterdir() if path.name.startswith(".")] == []


def test_names_stand_for_versions(registry: Registry, policies: list[Path]) -> None:
    for path in policies[:3]:
        registry.add(path, "trader")
    registry.promote("trader", 2, "try-a", who="me", why="first", ground=PRACTICE)
    assert registry.find("trader").version.version == 3
    assert registry.find("trader:1").version.version == 1
    assert registry.find("trader:v1").version.version == 1
    target = registry.find("trader@try-a")
    assert target.version.version == 2
    assert target.pointer is not None
    assert target.pointer.generation == 1
    for wrong, words in (("x", "model"), ("x:1", "model"), ("trader:9", "trader:3"), ("trader@no", "trader@try-a")):
        with pytest.raises(UnknownName, match=words):
            registry.find(wrong)
    registry.archive(registry.version("trader", 3))
    assert registry.find("trader").version.version == 2
    with pytest.raises(InputError, match="try-a"):
        registry.archive(registry.version("trader", 2))
    with pytest.raises(InputError, match="archived"):
        registry.promote("trader", 3, "try-a", who="me", why="x", ground=PRACTICE)


def test_the_loser_of_two_promotions_at_once_is_told(registry: Registry, policies: list[Path]) -> None:
    for path in policies[:3]:
        registry.add(path, "trader")
    before = registry.pointer("trader", "try-a").generation
    registry.promote("trader", 1, "try-a", who="a", why="x", ground=PRACTICE, replaces=before)
    with pytest.raises(PointerConflict, match="generation 1"):
        registry.promote("trader", 2, "try-a", who="b", why="x", ground=PRACTICE, replaces=before)
    assert registry.pointer("trader", "try-a").version == 1

    results: list[object] = []
    start = threading.Barrier(4)

    def race(number: int) -> None:
        start.wait()
        try:
            done = registry.promote("trader", number, "try-a", who=str(number), why="x", ground=PRACTICE, replaces=1)
            results.append(done.to_version)
        except PointerConflict as error:
            results.append(error)

    threads = [threading.Thread(target=race, args=(1 + number % 3,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [item for item in results if isinstance(item, int)]
    assert len(winners) == 1
    pointer = registry.pointer("trader", "try-a")
    assert (pointer.version, pointer.generation) == (winners[0], 2)
    assert [change.generation for change in registry.history("trader")] == [1, 2]


def test_a_pointer_and_its_history_are_one_write(tables: tuple[Engine, Registry], policies: list[Path]) -> None:
    """A change whose history cannot be written does not move the pointer."""
    engine, registry = tables
    registry.add(policies[0], "trader")
    registry.promote("trader", 1, "try-a", who="a", why="x", ground=PRACTICE)
    with pytest.raises(IntegrityError):
        registry.promote("trader", 1, "try-a", who=None, why="x", ground=PRACTICE)  # type: ignore[arg-type]
    assert registry.pointer("trader", "try-a").generation == 1
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(ModelPointerRow)) == 1
        assert connection.scalar(select(func.count()).select_from(PointerChangeRow)) == 1


def test_going_back_walks_back(registry: Registry, policies: list[Path]) -> None:
    for path in policies[:3]:
        registry.add(path, "trader")

    def up(version: int) -> None:
        registry.promote("trader", version, "try-a", who="me", why="up", ground=PRACTICE)

    def down() -> int | None:
        return registry.rollback("trader", "try-a", who="me", why="down").to_version

    for version in (1, 2, 3):
        up(version)
    assert down() == 2
    assert down() == 1
    up(3)
    up(3)
    assert down() == 1
    assert down() is None
    assert registry.pointer("trader", "try-a").version is None
    with pytest.raises(InputError, match="taken back"):
        registry.find("trader@try-a")
    with pytest.raises(InputError, match="none left"):
        down()
    up(2)
    assert registry.find("trader@try-a").version.version == 2
    with pytest.raises(UnknownName):
        registry.rollback("trader", "never", who="me", why="x")
    changes = registry.history("trader", "try-a")
    assert [change.generation for change in changes] == list(range(1, len(changes) + 1))
    assert all(after.from_version == before.to_version for before, after in pairwise(changes))


@given(st.lists(st.one_of(st.none(), st.integers(1, 4)), max_size=30))
@settings(max_examples=200)
def test_standing_versions_are_those_of_an_obvious_twin(steps: list[int | None]) -> None:
    """A pile of promotions: a rollback takes the upmost off, the same on top of itself adds nothing."""
    pile: list[int] = []
    history = []
    for number, step in enumerate(steps):
        if step is None:
            pile = pile[:-1]
        elif not pile or pile[-1] != step:
            pile = [*pile, step]
        kind = "rollback" if step is None else "promote"
        history.append(PointerChange("m", "a", number + 1, kind, None, step, "w", "y", "g", None, NOW))
    assert standing_versions(history) == pile


def test_the_verdict_gate(tables: tuple[Engine, Registry], policies: list[Path], home: Path, tmp_path: Path) -> None:
    engine, registry = tables
    version, _ = registry.add(policies[0], "trader")
    other, _ = registry.add(policies[1], "trader")

    def refused(alias: str, words: str, report: Path | None = None, gate: str = "verdict") -> None:
        with pytest.raises(PromotionRefused, match=words) as caught:
            promote(registry, version, alias, who="me", why="x", report=report)
        assert caught.value.gate == gate
        assert caught.value.exit_code == 2
        assert registry.pointer("trader", alias).generation == 0

    for alias in ("practice", "paper", "try-anything"):
        assert is_practice(alias)
        assert promote(registry, version, alias, who="me", why="x").change.to_version == 1
    refused("champion", "playproof validate trader:1")
    report = write_report(home / "reports" / "one", version.policy_hash)
    refused("champion", "trial ledger")
    note_look(engine, version.policy_hash, NOW)
    done = promote(registry, version, "champion", who="me", why="x").change
    assert done.report_hash == json.loads((report / "report.json").read_text())["report_hash"]
    assert done.gate.startswith("verdict: EDGE SHOWN on held-out")
    refused("other", "another policy", write_report(tmp_path / "other", other.policy_hash))
    no_edge = write_report(tmp_path / "none", version.policy_hash, "NO EDGE SHOWN")
    refused("other", "NO EDGE SHOWN", no_edge)
    changed = json.loads((no_edge / "report.json").read_text()) | {"verdict": "EDGE SHOWN"}
    (no_edge / "report.json").write_text(json.dumps(changed))
    with pytest.raises(InputError, match="hash does not fit"):
        promote(registry, version, "other", who="me", why="x", report=no_edge)


def test_live_wants_a_young_verdict_and_nothing_overrides_it(
    tables: tuple[Engine, Registry], policies: list[Path], home: Path
) -> None:
    engine, registry = tables
    version, _ = registry.add(policies[0], "trader")
    write_report(home / "reports" / "one", version.policy_hash)
    note_look(engine, version.policy_hash, NOW)
    clock = registry.clock
    assert isinstance(clock, Clock)
    clock.now = NOW + timedelta(days=7)
    with pytest.raises(PromotionRefused, match="less than 7 days") as caught:
        promote(registry, version, "live", who="me", why="x")
    assert caught.value.gate == "live"
    clock.now = NOW + timedelta(days=6, hours=23)
    assert promote(registry, version, "live", who="me", why="x").change.gate.startswith("live: EDGE SHOWN")
    clock.now = NOW + timedelta(days=60)
    assert rollback(registry, "trader", "live", who="me", why="x").change.to_version is None


class Receiver(BaseHTTPRequestHandler):
    """Keeps what is posted to it."""

    bodies: list[tuple[bytes, str, str]]
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).bodies.append((body, self.headers[TIME_HEADER], self.headers[SIGNATURE_HEADER]))
        self.send_response(type(self).status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[tuple[str, type[Receiver]]]:
    kind = type("OneReceiver", (Receiver,), {"bodies": []})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/secret-path", kind
    server.shutdown()
    thread.join()
    server.server_close()


def test_hooks_are_told_and_never_in_the_way(
    local: Registry,
    policies: list[Path],
    home: Path,
    receiver: tuple[str, type[Receiver]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, kind = receiver
    version, _ = local.add(policies[0], "trader")
    told = home / "told.json"
    program = f"import sys, pathlib; pathlib.Path({str(told)!r}).write_bytes(sys.stdin.buffer.read())"
    (home / "playproof.toml").write_text(
        f"""
[[models.hooks]]
url = "{address}"
secret_variable = "HOOK_SECRET"
[[models.hooks]]
command = ["{sys.executable}", "-c", {json.dumps(program)}]
seconds = 60
[[models.hooks]]
command = ["{sys.executable}", "-c", "raise SystemExit(3)"]
seconds = 60
[[models.hooks]]
command = ["/no/such/program"]
[[models.hooks]]
url = "{address}"
secret_variable = "NOT_SET"
"""
    )
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    done = promote(local, version, "practice", who="me", why="x")
    assert [item.problem for item in done.hooks[:2]] == [None, None]
    assert "exit code 3" in str(done.hooks[2].problem)
    assert "No such file" in str(done.hooks[3].problem)
    assert "NOT_SET" in str(done.hooks[4].problem)
    assert all("secret-path" not in problem and "s3cret" not in problem for problem in done.problems)
    assert local.pointer("trader", "practice").version == 1
    ((body, time, signature),) = kind.bodies
    expected = hmac.new(b"s3cret", time.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert signature == f"sha256={expected}" == f"sha256={sign('s3cret', time, body)}"
    assert json.loads(body) == json.loads(told.read_bytes())
    assert json.loads(body)["to_version"] == 1
    kind.status = 500
    back = rollback(local, "trader", "practice", who="me", why="x")
    assert "answered 500" in back.problems[0]
    assert local.pointer("trader", "practice").version is None
    (home / "playproof.toml").write_text("[[models.hooks]]\nurl = 'ftp://x'\nsecret_variable = 'A'")
    with pytest.raises(ConfigError, match="http"):
        read_hooks(home)
    promote(local, version, "practice", who="me", why="x")
    assert "http" in rollback(local, "trader", "practice", who="me", why="x").problems[0]


def test_commands(
    home: Path,
    policies: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*words: str, code: int = 0) -> Any:
        assert main(["models", *words]) == code
        output = capsys.readouterr()
        return json.loads(output.out) if "--json" in words else output.out + output.err

    assert run("ls", "--json") == {"versions": [], "pointers": []}
    assert "give another" in run("add", str(policies[0]), "--name", "baseline", code=1)
    assert "--name" in run("add", str(policies[0]), code=1)
    assert run("add", str(policies[0]), "--name", "trader", "--json")["new"] is True
    assert run("add", str(policies[0]), "--name", "trader", "--json")["new"] is False
    run("add", str(policies[1]), "--name", "trader")
    done = run("promote", "trader", "1", "--to", "practice", "--why", "first", "--json")
    assert (done["change"]["generation"], done["change"]["to_version"], done["hooks"]) == (1, 1, [])
    assert "gate verdict" in run("promote", "trader", "2", "--to", "champion", "--why", "x", code=2)
    run("promote", "trader", "2", "--to", "practice", "--why", "second")
    assert [item["aliases"] for item in [run("show", "trader:2", "--json")]] == [["practice"]]
    rows = {row["field"] for row in run("diff", "trader:1", "trader:2", "--json")["differences"]}
    assert {"checkpoint", "policy_hash", "card.config.seed", "metrics.roi"} <= rows
    assert run("rollback", "trader", "--json")["change"]["to_version"] == 1
    history = run("history", "trader", "--json")["changes"]
    assert [item["kind"] for item in history] == ["promote", "promote", "rollback"]
    assert "trader@practice" in run("history")
    assert "is archived" in run("archive", "trader:2")
    assert [item["version"] for item in run("ls", "--json")["versions"]] == [1]
    assert len(run("ls", "--archived", "--json")["versions"]) == 2
    assert "NAME:VERSION" in run("archive", "trader", code=1)
    assert "out" in run("export", "trader@practice", "--output", str(tmp_path / "out"))
    assert "trader" in run("show", "nobody", code=1)
    assert "serving" not in run("show", "trader@practice")

    assert find_policy("trader@practice") == find_model("trader:1") == str(home / "models" / _checkpoint(home, 1))
    assert find_model("nobody-at-all") == "nobody-at-all"
    with pytest.raises(UnknownName, match="nobody"):
        find_model("nobody@live")
    monkeypatch.chdir(tmp_path)
    linear_policy(tmp_path / "trader", 1, 9)
    with pytest.raises(ConfigError, match="may be"):
        find_model("trader")
    with pytest.raises(ConfigError, match="may be"):
        find_policy("trader")
    assert find_model("trader:1") == find_policy("trader@practice")


def _checkpoint(home: Path, number: int) -> str:
    engine, registry = open_registry(f"sqlite:///{home / 'playproof.db'}", home)
    try:
        return registry.version("trader", number).checkpoint
    finally:
        engine.dispose()


def test_a_real_report_is_read_and_its_verdict_named(
    local: Registry, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `validate` writes today is what the gate reads, from the command to the refusal."""
    path = linear_policy(tmp_path / "waits", 0, 3)
    assert main(["models", "add", str(path), "--name", "still"]) == 0
    assert main(["validate", "still:1", "--world", "published", "--rounds", "20"]) in (0, 2)
    capsys.readouterr()
    assert main(["models", "promote", "still", "1", "--to", "champion", "--why", "x"]) == 2
    assert "gate verdict: expected EDGE SHOWN for champion, found NOT EVALUABLE" in capsys.readouterr().err
    assert main(["models", "add", str(path), "--name", "again", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "NOT EVALUABLE"
