"""Measure the house: folders, names, imports by string, sizes of functions, `Any`, and how many modules a task visits.

Run it from the project's root: python scripts/measure_house.py [--json] [--source FOLDER].
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

BANNED = frozenset({"told", "found", "it", "place", "places", "each"})
"""Names that say nothing of what they hold; the last is allowed as a verb in prose only."""
MOST_MODULES = 15


def modules(source: Path) -> Iterator[tuple[Path, ast.Module, str]]:
    """Give every module below a folder with its tree and text."""
    for path in sorted(source.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield path, ast.parse(text), text


def bound_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Give every name that a module binds: parameters, variables, fields, functions, aliases."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno


def banned(source: Path) -> list[str]:
    """List where a banned name is bound."""
    return [
        f"{path.relative_to(source)}:{line}: {name}"
        for path, tree, _ in modules(source)
        for name, line in bound_names(tree)
        if name in BANNED
    ]


def duplicate_classes(source: Path, *, public: bool = True) -> dict[str, list[str]]:
    """List class names that are defined more than once at the top of modules."""
    defined: dict[str, list[str]] = defaultdict(list)
    for path, tree, _ in modules(source):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not (public and node.name.startswith("_")):
                defined[node.name].append(str(path.relative_to(source)))
    return {name: paths for name, paths in sorted(defined.items()) if len(paths) > 1}


def string_imports(source: Path) -> list[str]:
    """List where a module of the package is imported by a text: resolve("..."), import_module("playproof...")."""
    pattern = re.compile(r"""(?:resolve|import_module|load_attribute)\(\s*f?["']""")
    return [
        f"{path.relative_to(source)}:{number}"
        for path, _, text in modules(source)
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def folder_sizes(source: Path) -> dict[str, int]:
    """Count the modules of each folder, without `__init__` and `__main__`."""
    counts: Counter[str] = Counter()
    for path, _, _ in modules(source):
        counts[str(path.parent.relative_to(source.parent))] += path.name not in ("__init__.py", "__main__.py")
    return dict(counts.most_common())


def game_fields(source: Path) -> int:
    """Count the fields of the record Game."""
    for path, tree, _ in modules(source):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == "Game" and path.parent.name == "game":
                return sum(isinstance(part, ast.AnnAssign) for part in node.body)
    return 0


def functions(source: Path) -> list[int]:
    """Give the length of every function in lines."""
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for _, tree, _ in modules(source)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def measure(source: Path) -> dict[str, object]:
    """Measure a source folder."""
    texts = [text for _, _, text in modules(source)]
    lengths = sorted(functions(source))
    sizes = folder_sizes(source)
    comments = sum(line.lstrip().startswith("#") for text in texts for line in text.splitlines())
    lines = sum(text.count("\n") for text in texts)
    return {
        "modules": len(texts),
        "lines": lines,
        "comment lines": comments,
        "largest folder": next(iter(sizes.items())),
        "folders above 15 modules": sum(count > MOST_MODULES for count in sizes.values()),
        "public class names defined twice": len(duplicate_classes(source)),
        "banned names": len(banned(source)),
        "imports by string": len(string_imports(source)),
        "fields of Game": game_fields(source),
        "functions": len(lengths),
        "function lines, median": statistics.median(lengths),
        "function lines, p90": lengths[int(0.9 * len(lengths))],
        "uses of Any": sum(len(re.findall(r"\bAny\b", text)) for text in texts),
    }


def main() -> int:
    """Print the figures as a table or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--source", type=Path, default=Path(__file__).resolve().parents[1] / "src" / "playproof")
    parser.add_argument("--list", action="store_true", help="list every banned name and duplicate class")
    asked = parser.parse_args()
    figures = measure(asked.source)
    if asked.json:
        sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    else:
        sys.stdout.writelines(f"{name:36} {value}\n" for name, value in figures.items())
    if asked.list:
        sys.stdout.writelines(f"{line}\n" for line in banned(asked.source))
        sys.stdout.writelines(f"{name}: {paths}\n" for name, paths in duplicate_classes(asked.source).items())
        sys.stdout.writelines(f"{line}\n" for line in string_imports(asked.source))
        sys.stdout.writelines(f"{count:3} {name}\n" for name, count in list(folder_sizes(asked.source).items())[:12])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
