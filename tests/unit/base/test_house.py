"""The rules of the house, held by reading the source: names, folders, imports by string, size of the Game record."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from playproof.game import Game

ROOT = Path(__file__).resolve().parents[3]
SOURCES = [ROOT / "src" / "playproof", ROOT / "benchmarks", ROOT / "studies"]
PARTICIPLES = (
    *("Moved", "Ended", "Played", "Done", "Begun", "Taken", "Laid", "Heard", "Told", "Found", "Asked", "Known", "Kept"),
    *("Chosen", "Drawn", "Given", "Grown", "Learned", "Measured", "Placed", "Seen", "Sent", "Tried", "Wanted", "Built"),
)
"""Types are nouns: these were once types."""


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measure_house", ROOT / "scripts" / "measure_house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_no_name_is_one_of_the_private_dialect(house: ModuleType, source: Path) -> None:
    assert not house.banned(source)


def test_public_class_names_are_unique(house: ModuleType) -> None:
    assert not house.duplicate_classes(SOURCES[0])


def test_types_are_nouns(house: ModuleType) -> None:
    defined = {name for _, tree, _ in house.modules(SOURCES[0]) for name in _classes(tree)}
    assert not defined & set(PARTICIPLES)


def _classes(tree: object) -> list[str]:
    import ast

    assert isinstance(tree, ast.Module)
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def test_no_folder_is_crowded(house: ModuleType) -> None:
    for source in SOURCES:
        assert not {name: count for name, count in house.folder_sizes(source).items() if count > house.MOST_MODULES}


def test_nothing_of_the_package_is_imported_by_a_text(house: ModuleType) -> None:
    assert not house.string_imports(SOURCES[0])


def test_the_game_record_stays_small(house: ModuleType) -> None:
    assert len(dataclasses.fields(Game)) == house.game_fields(SOURCES[0]) <= 18


@pytest.mark.parametrize(
    "text",
    [
        "def f(told): pass",
        "found = 1",
        "for it in []: pass",
        "x = [each for each in []]",
        "class A:\n    place: int = 0",
        "self.told = 1",
        "from a import b as found",
        "def place(): pass",
        "lambda it: 0",
        "with open('x') as found: pass",
    ],
)
def test_the_name_rule_can_fail(house: ModuleType, text: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(text)
    assert house.banned(tmp_path)


def test_the_other_rules_can_fail(house: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class A: pass\nresolve('playproof.home:home')")
    (tmp_path / "b.py").write_text("class A: pass")
    assert house.duplicate_classes(tmp_path) == {"A": ["a.py", "b.py"]}
    assert house.string_imports(tmp_path) == ["a.py:2"]
    for number in range(16):
        (tmp_path / f"m{number}.py").touch()
    assert max(house.folder_sizes(tmp_path).values()) > house.MOST_MODULES


def test_the_figures_are_printed(house: ModuleType) -> None:
    figures = house.measure(SOURCES[0])
    assert figures["banned names"] == 0
    assert figures["imports by string"] == 0
