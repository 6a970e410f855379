"""The doctor: what is there, what is missing, and the command that gets it."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from playproof.cli import doctor
from playproof.cli.app import main
from playproof.errors import ConfigError
from playproof.record.feeds import chromium


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return doctor.diagnose()


def test_it_names_every_package_of_the_project(result: dict[str, Any], project: Path) -> None:
    table = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert len(result["base"]) == len(table["dependencies"])
    assert {name: len(rows) for name, rows in result["extras"].items()} == {
        name: len(wanted) for name, wanted in table["optional-dependencies"].items()
    }


def test_installed_packages_have_their_version(result: dict[str, Any]) -> None:
    assert result["ok"]
    for row in result["base"]:
        assert row["installed"] == version(row["name"])
        assert row["problem"] is None
        assert row["get"] is None


def test_missing_packages_have_a_command(result: dict[str, Any]) -> None:
    for rows in result["extras"].values():
        for row in rows:
            assert (row["installed"] is None) == (row["get"] is not None)


def test_the_command_for_an_extra_is_exact(project: Path) -> None:
    words = shlex.split(doctor.install_command("ray", ">=2.40", "ray"))
    assert words[1:] == ["-m", "pip", "install", "-c", str(project / "constraints.txt"), "-e", f"{project}[ray]"]
    assert os.access(words[0], os.X_OK)


def test_outside_a_checkout_the_command_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_checkout", lambda: None)
    assert doctor.install_command("ray", ">=2.40", "ray").endswith("-m pip install 'playproof[ray]'")


def test_torch_is_installed_alone() -> None:
    assert doctor.install_command("torch", "==2.13.0", "train").endswith("-m pip install torch==2.13.0")


def test_requirements_are_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "numpy>=2.0",
        "psycopg[binary]>=3.2; extra == 'postgres'",
        "x<3; python_version < '3.13' and extra == 'dev'",
    ]
    monkeypatch.setattr(doctor, "requires", lambda name: lines)
    assert doctor._requirements() == [("numpy", ">=2.0", None), ("psycopg", ">=3.2", "postgres"), ("x", "<3", "dev")]


def test_a_broken_base_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "requires", lambda name: ["no-such-package>=1"])
    monkeypatch.setattr(doctor, "_torch_threads", lambda: None)
    assert main(["doctor", "--json"]) == 1
    payload = json.loads(capsys.readouterr().out)
    assert payload["ok"] is False
    assert payload["base"][0]["installed"] is None
    assert "pip install" in payload["base"][0]["get"]


def test_a_base_package_that_does_not_import_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(module: str) -> None:
        raise ImportError(f"{module} needs a library that is not here")

    monkeypatch.setattr(doctor, "import_module", refuse)
    package = doctor._package("numpy", ">=2.0", None)
    assert not package.ok
    assert package.problem == "numpy needs a library that is not here"
    assert package.get


def test_the_table_shows_missing_and_present(
    result: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = {"name": "nothing", "wanted": "", "installed": None, "problem": None, "get": "pip install 'x[ray]'"}
    monkeypatch.setattr(doctor, "diagnose", lambda: {**result, "extras": {"ray": [missing]}})
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert f"numpy {version('numpy')}" in out
    assert "nothing missing: pip install 'x[ray]'" in out


def test_places(tmp_path: Path) -> None:
    assert doctor.writable_folder(tmp_path) == doctor.WritableFolder(str(tmp_path), True, True)
    assert doctor.writable_folder(tmp_path / "a" / "b") == doctor.WritableFolder(str(tmp_path / "a" / "b"), False, True)
    (tmp_path / "file").touch()
    assert not doctor.writable_folder(tmp_path / "file" / "a").writable


def test_the_home_is_looked_at_and_not_made(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_torch_threads", lambda: None)
    assert doctor.diagnose()["home"] == {"path": str(home), "exists": False, "writable": True}
    assert not home.exists()


def test_a_chosen_browser_is_used_or_complained_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(chromium.VARIABLE, str(tmp_path / "browser"))
    with pytest.raises(ConfigError, match="unset it or correct it"):
        chromium.find_chromium()
    (tmp_path / "browser").touch(mode=0o755)
    assert chromium.find_chromium() == tmp_path / "browser"


def test_browsers_are_looked_for_on_the_path_then_with_playwright(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(chromium.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "own"))
    assert chromium.find_chromium() is None
    own = tmp_path / "own" / "chromium-1200" / "chrome-linux" / "chrome"
    on_path = tmp_path / "bin" / "chromium"
    for path in (own, on_path):
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
    assert chromium.find_chromium() == on_path
    on_path.unlink()
    assert chromium.find_chromium() == own
