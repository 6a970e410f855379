"""The wheel, installed into a clean environment: complete, light, and able to run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a program without this environment's settings, and give what it printed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PLAYPROOF_", "PYTHONPATH"))}
    answer = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, f"{command}\n{answer.stdout[-2000:]}\n{answer.stderr[-4000:]}"
    return answer.stdout


@pytest.fixture(scope="session")
def wheel(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel once."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, project)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def clean(project: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make an environment with the wheel and its base dependencies, give its folder of programs, remove it."""
    folder = tmp_path_factory.mktemp("clean environment") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    run(*pip, "install", "-q", "--no-compile", "-c", project / "constraints.txt", wheel)
    yield folder / "bin"
    shutil.rmtree(folder)


def test_the_wheel_holds_every_file_of_the_package(project: Path, wheel: Path) -> None:
    source = project / "src"
    made = {"__pycache__", ".nbi", ".nbc"}
    files = (path for path in (source / "playproof").rglob("*") if path.is_file())
    expected = {path.relative_to(source).as_posix() for path in files if not made & {*path.parts, path.suffix}}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == expected
    assert "playproof/py.typed" in held
    assert any(name.endswith("/page/index.html") for name in held)


def test_the_wheel_has_licence_and_pages(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert not any(name.startswith("tests/") for name in names)


def test_the_command_runs_from_a_path_with_spaces(clean: Path, tmp_path: Path) -> None:
    assert "Usage" in run(clean / "playproof", "--help", cwd=tmp_path)


def test_the_base_install_is_light_and_whole(clean: Path, tmp_path: Path) -> None:
    program = "import importlib.util as u; print([n for n in ('torch', 'playwright', 'pandas') if u.find_spec(n)])"
    assert run(clean / "python", "-c", program, cwd=tmp_path) == "[]\n"
    assert '"ok": true' in run(clean / "playproof", "doctor", "--json", cwd=tmp_path)


def test_the_walking_skeleton_runs(clean: Path, tmp_path: Path) -> None:
    assert run(clean / "python", "-m", "playproof.testing.skeleton", cwd=tmp_path)


def test_the_games_are_installed(clean: Path, tmp_path: Path) -> None:
    assert '"worlds"' in run(clean / "playproof", "games", "--json", cwd=tmp_path)
