"""What the tests with a real Node share: the tools, the packed recorder, and projects that install it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "packages" / "recorder"
TYPESCRIPT = "typescript@5.9.3"
NODE_TYPES = "@types/node@20.19.9"
OLDEST_NODE = 20


def run(command: list[str | Path], folder: Path, seconds: float = 120.0, **environment: str) -> str:
    """Run a command to its end; give what it printed, or fail with all of it."""
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode:
        pytest.fail(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def unavailable(reason: str) -> None:
    """Skip, or fail where PLAYPROOF_REQUIRE_NODE=1."""
    if os.environ.get("PLAYPROOF_REQUIRE_NODE") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def find_node() -> Path:
    """Give Node, which must come with npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        unavailable("TYPESCRIPT TEST NOT RUN: node and npm are not installed")
    assert node is not None
    major = int(subprocess.check_output([node, "--version"], text=True).lstrip("v").partition(".")[0])
    if major < OLDEST_NODE:
        unavailable(f"TYPESCRIPT TEST NOT RUN: expected Node {OLDEST_NODE} or later, found {major}")
    return Path(node)


def install(folder: Path, *packages: str | Path) -> None:
    """Install packages into a project; without a network to fetch them from, skip."""
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", *map(str, packages)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode and any(code in done.stderr for code in ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT")):
        unavailable(f"TYPESCRIPT TEST NOT RUN: npm reaches no registry: {done.stderr[:300]}")
    if done.returncode:
        pytest.fail(f"npm install ended with {done.returncode}:\n{done.stderr}")


@pytest.fixture(scope="session")
def recorder_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of the recorder's package with its tools installed, and its tarball in it."""
    find_node()
    folder = tmp_path_factory.mktemp("package") / "recorder"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "*.tgz"))
    install(folder)
    run(["npm", "pack"], folder)
    return folder


def clean_project(folder: Path, recorder_package: Path, *packages: str) -> Path:
    """Make a project of strict TypeScript with the packed recorder, the compiler and further packages."""
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"name": "studio", "private": true, "type": "module"}')
    (tarball,) = recorder_package.glob("playproof-recorder-*.tgz")
    install(folder, tarball, TYPESCRIPT, NODE_TYPES, *packages)
    return folder


def compile_strictly(project: Path, *sources: Path) -> Path:
    """Type-check and compile sources with `tsc --strict` and no other leniency; give the folder of the output."""
    for source in sources:
        shutil.copy(source, project / source.name)
    options = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--target", "es2022"]
    modules = ["--module", "nodenext", "--outDir", "out"]
    compiler = project / "node_modules" / ".bin" / "tsc"
    run([compiler, *options, *modules, *(source.name for source in sources)], project)
    return project / "out"
