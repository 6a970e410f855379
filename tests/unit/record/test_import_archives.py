"""Archives made to fill the memory or the report are bounded."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from playproof.record.imports.archives import LIMITS, Archive


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_long_header_is_refused_before_it_is_read(tmp_path: Path, form: int) -> None:
    path = tmp_path / "long.tar"
    with tarfile.open(path, "w", format=form) as archive:
        add(archive, "before.jsonl", b"{}\n")
        add(archive, "x" * (20 << 20), b"{}\n")
    names: list[str] = []
    tracemalloc.start()
    problems = Archive(path).visit(lambda name, _: names.append(name))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert names == ["before.jsonl"]
    assert "header of at most" in problems[0].problem
    assert peak < 8 << 20


def test_a_name_of_a_usual_length_is_read(tmp_path: Path) -> None:
    path = tmp_path / "usual.tar"
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        with tarfile.open(path, "w", format=form) as archive:
            add(archive, "folder/" * 40 + "é.jsonl", b"{}\n")
        names: list[str] = []
        assert Archive(path).visit(lambda name, _, seen=names: seen.append(name)) == []  # type: ignore[misc]
        assert len(names) == 1


def test_members_and_listed_problems_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(3_000):
            info = tarfile.TarInfo(f"link-{number}")
            info.type, info.linkname = tarfile.SYMTYPE, "target"
            archive.addfile(info)
    problems = Archive(path).visit(lambda _name, _stream: None)
    assert len(problems) == LIMITS.problems + 1
    assert problems[-1].problem == "2000 further problems are counted, not listed"
    few = Archive(path, replace(LIMITS, files=500)).visit(lambda _name, _stream: None)
    assert len(few) == 501
    assert "at most 500 files" in few[-1].problem
