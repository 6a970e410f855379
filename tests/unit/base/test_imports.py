"""Which module may import which: one table of layers, and the few words that belong to one place only."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "src"

GAMES = ("crash", "arena")
TORCH_ALLOWED = ("train", "policies", "datasets.export.torch")
OPTIONAL = (
    *("torch", "stable_baselines3", "sb3_contrib", "lightgbm", "sklearn", "scipy", "arch", "safetensors", "onnx"),
    *("onnxruntime", "optuna", "tensorboard", "transformers", "peft", "gguf", "openai", "playwright"),
    *("psycopg", "minari", "ray", "gym_trading_env", "gym_anytrading", "pandas", "hypothesis", "pytest"),
    *("mypy", "pgserver", "httpx", "build", "hatchling", "ruff"),
)
NOT_BASE = (
    *("policies", "train", "judge", "rewards", "validate", "models", "serve", "dashboard", "evaluate"),
    *("stats", "reports", "workflows"),
)
"""Layers that may import extras at the top of a module."""
NEEDS_EXTRA = (
    *("testing.strategies", "testing.skeleton", "testing.tabular"),
    *("datasets.export.torch", "datasets.export.minari"),
)
"""Single modules that may, since they build on what an extra brings."""


@dataclass(frozen=True)
class Module:
    """One source file, parsed."""

    name: str
    """Dotted, without the leading `playproof.`; empty for the package itself."""
    path: Path
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for node in ast.walk(self.tree) if isinstance(node, kinds))

    def imports(self) -> Iterator[tuple[str, int]]:
        """Give every imported module with its full name, imports inside functions included, and the line."""
        for node in self.nodes(ast.Import, ast.ImportFrom):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            else:
                base = self._origin(node)
                yield base, node.lineno
                yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = ["playproof", *self.name.split(".")][: None if self.is_package else -1]
        return ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])

    def strings(self) -> Iterator[tuple[str, int]]:
        """Give every string constant that is not a docstring."""
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        prose = {
            id(child.value)
            for node in self.nodes(*documented)
            for child in node.body  # type: ignore[attr-defined]
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        }
        for node in self.nodes(ast.Constant):
            assert isinstance(node, ast.Constant)
            if isinstance(node.value, str) and id(node) not in prose:
                yield node.value, node.lineno


def _modules(source: Path) -> list[Module]:
    results = []
    for path in sorted((source / "playproof").rglob("*.py")):
        parts = path.relative_to(source / "playproof").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        results.append(Module(name, path, ast.parse(path.read_text(encoding="utf-8"))))
    return results


MODULES = _modules(SOURCE)
NAMES = {module.name for module in MODULES}


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def broken_contracts(folder: Path) -> str:
    """Run import-linter on the package in a folder with the contracts of this project; give what it says if broken."""
    shutil.copy(SOURCE.parent / "pyproject.toml", folder)
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "Contracts:" in answer.stdout, answer.stdout + answer.stderr
    return "" if answer.returncode == 0 else answer.stdout


def named_games(modules: list[Module]) -> list[str]:
    """Name every module outside a game and its public module that knows the game by name, in an import or a string."""
    wrong = []
    for module in modules:
        for game in GAMES:
            if any(within(module.name, own) for own in (f"games.{game}", f"workflows.{game}", game)):
                continue
            wrong += [f"{module.path}:{line}: {text!r}" for text, line in _mentions(module, game)]
    return wrong


def _mentions(module: Module, game: str) -> Iterator[tuple[str, int]]:
    word = re.compile(rf"(?<![a-z]){game}(?![a-z])", re.IGNORECASE)
    yield from ((text, line) for text, line in module.imports() if word.search(text))
    yield from ((text, line) for text, line in module.strings() if word.search(text))


def misplaced_torch(modules: list[Module]) -> list[str]:
    """Name every import of torch outside the places that may."""
    return [
        f"{module.path}:{line}"
        for module in modules
        if not any(within(module.name, index) for index in TORCH_ALLOWED)
        for imported, line in module.imports()
        if within(imported, "torch")
    ]


def code_in_data(modules: list[Module]) -> list[str]:
    """Name every use of a loader that runs code from the file it loads."""
    modules_banned = ("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal")
    calls_banned = (
        "torch.load",
        "yaml.load",
        "yaml.unsafe_load",
        "yaml.full_load",
        "pandas.read_pickle",
        "pd.read_pickle",
    )
    wrong = []
    for module in modules:
        wrong += [
            f"{module.path}:{line}: {imported}"
            for imported, line in module.imports()
            if any(within(imported, banned) for banned in modules_banned) or imported in calls_banned
        ]
        wrong += [
            f"{module.path}:{node.lineno}: {ast.unparse(node)}"
            for node in module.nodes(ast.Attribute)
            if isinstance(node, ast.Attribute) and ast.unparse(node) in calls_banned
        ]
        wrong += [
            f"{module.path}:{node.lineno}: allow_pickle"
            for node in module.nodes(ast.keyword)
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False"
        ]
    return wrong


def test_imports_go_one_way(tmp_path: Path) -> None:
    """Every module has a layer, since the contract is exhaustive."""
    shutil.copytree(SOURCE / "playproof", tmp_path / "playproof", ignore=shutil.ignore_patterns("__pycache__"))
    assert not broken_contracts(tmp_path)


def test_no_game_is_known_by_name_outside_its_folder() -> None:
    assert not named_games(MODULES)


def test_the_product_does_not_import_its_laboratory() -> None:
    """Benchmarks, studies and tests are not in the wheel."""
    laboratory = ("benchmarks", "studies", "tests")
    assert not [
        f"{module.path}:{line}: {imported}"
        for module in MODULES
        for imported, line in module.imports()
        if imported.partition(".")[0] in laboratory
    ]


def test_torch_stays_where_it_belongs() -> None:
    assert not misplaced_torch(MODULES)


def test_nothing_loads_code_from_data() -> None:
    assert not code_in_data(MODULES)


def _is_base(module: Module) -> bool:
    return module.name != "__main__" and not any(within(module.name, index) for index in (*NOT_BASE, *NEEDS_EXTRA))


def test_base_modules_import_without_extras(project: Path) -> None:
    names = [f"playproof.{module.name}".rstrip(".") for module in MODULES if _is_base(module)]
    program = f"""
import importlib, importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"{{name}} is an extra", name=name)

sys.meta_path.insert(0, Refuse())
for name in {names!r}:
    importlib.import_module(name)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert answer.returncode == 0, answer.stderr[-3000:]


def _parsed(tmp_path: Path, files: dict[str, str]) -> list[Module]:
    for name, text in files.items():
        path = tmp_path / "playproof" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return _modules(tmp_path)


def _skeleton(folder: Path, files: dict[str, str]) -> None:
    """Make an empty package with every layer and every import that a contract allows, and the files given."""
    section = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    texts = {f"playproof.{name}": "" for row in section["layers"] for name in row.split(" : ")} | {"playproof": ""}
    for line in section["ignore_imports"]:
        source, target = (name.strip().replace(".**", ".some").replace(".*", ".some") for name in line.split(" -> "))
        texts[source] = texts.get(source, "") + f"import {target}\n"
        texts.setdefault(target, "")
    texts |= {f"playproof.{name.removesuffix('.py').replace('/', '.')}": text for name, text in files.items()}
    for name, text in texts.items():
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            package = folder.joinpath(*parts[:depth])
            package.mkdir(exist_ok=True)
            (package / "__init__.py").touch()
        (folder.joinpath(*parts) / "__init__.py").write_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "from playproof.cli.app import main",
        "import playproof.cli.app",
        "from playproof.cli import app",
        "def f():\n    from playproof.cli import app",
        "from ..cli import app",
    ],
)
def test_the_direction_test_can_fail(text: str, tmp_path: Path) -> None:
    _skeleton(tmp_path, {"home.py": text, "cli/app.py": ""})
    assert "playproof.home is not allowed to import playproof.cli" in broken_contracts(tmp_path)


def test_a_module_without_a_layer_is_named(tmp_path: Path) -> None:
    _skeleton(tmp_path, {"attic.py": ""})
    assert "attic" in broken_contracts(tmp_path)


def test_no_stage_may_import_a_game(tmp_path: Path) -> None:
    _skeleton(tmp_path, {"train/bc.py": "import playproof.games.crash.rules"})
    assert "playproof.train is not allowed to import playproof.games" in broken_contracts(tmp_path)


def test_a_clean_package_passes(tmp_path: Path) -> None:
    _skeleton(tmp_path, {})
    assert not broken_contracts(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["import playproof.games.crash", "from playproof.games import crash", 'make("playproof/Crash-v1")', 'x = "crash"'],
)
def test_the_name_test_can_fail(text: str, tmp_path: Path) -> None:
    assert named_games(_parsed(tmp_path, {"store/log/writer.py": text}))
    assert not named_games(_parsed(tmp_path / "own", {"games/crash/log.py": text}))


def test_prose_may_speak_of_a_crash(tmp_path: Path) -> None:
    assert not named_games(_parsed(tmp_path, {"store/log/writer.py": '"""Survive a crash."""\nx = "crashed"'}))


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from joblib import load",
        "import torch\ntorch.load('x')",
        "from torch import load",
        "import yaml\nyaml.load('x')",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
    ],
)
def test_the_loader_test_can_fail(text: str, tmp_path: Path) -> None:
    assert code_in_data(_parsed(tmp_path, {"train/bc.py": text}))


def test_the_torch_test_can_fail(tmp_path: Path) -> None:
    text = "def f():\n    from torch import nn"
    assert misplaced_torch(_parsed(tmp_path, {"store/log/writer.py": text}))
    assert not misplaced_torch(_parsed(tmp_path / "own", {"train/bc.py": text}))
