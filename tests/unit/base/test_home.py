"""The home folder, and paths that stay inside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from playproof.errors import ConfigError, InputError
from playproof.home import FOLDERS, database, folder, home, safe_join

NAME = st.text("abcXYZ019-_. ", min_size=1, max_size=12).filter(lambda name: name.strip("."))
CLEAN = st.lists(NAME, min_size=1, max_size=4).map("/".join)
NASTY = st.text(st.sampled_from("./\\~\0\n ab:%\ud800é"), max_size=12)


def test_home_is_the_variable_or_a_folder_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLAYPROOF_HOME", str(tmp_path / "elsewhere"))
    assert home() == tmp_path / "elsewhere"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLAYPROOF_HOME", "")
    assert home() == tmp_path / "playproof-home"
    monkeypatch.delenv("PLAYPROOF_HOME")
    assert home() == tmp_path / "playproof-home"


def test_asking_for_the_home_makes_nothing(tmp_path: Path) -> None:
    assert not home().exists()
    assert not database().exists()


def test_folders_are_made_on_demand() -> None:
    assert [folder(name).relative_to(home()).as_posix() for name in FOLDERS] == list(FOLDERS)
    assert all((home() / name).is_dir() for name in FOLDERS)


def test_a_folder_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="set PLAYPROOF_HOME"):
        folder("log", tmp_path / "file")


@given(CLEAN)
def test_clean_parts_are_joined_as_they_are(part: str) -> None:
    root = Path("/nowhere/root")
    assert safe_join(root, part) == Path(os.path.normpath(root / part))


@given(st.lists(NASTY | CLEAN, max_size=4))
@example(["a", "..", "..", "b"])
@example(["/etc/passwd"])
@example(["a/../../b"])
@example(["."])
@example(["a\0b"])
@example(["C:\\windows"])
@example(["\udcff"])
def test_no_parts_lead_out(parts: list[str]) -> None:
    root = Path("/nowhere/root")
    try:
        path = safe_join(root, *parts)
    except InputError:
        return
    assert root in path.parents
    assert ".." not in path.parts


@pytest.mark.parametrize(
    "part", ["..", "a/..", "../a", "a/../../b", "/", "/a", "", ".", "./.", "a\0", "a\\b", "C:a", "\ud800"]
)
def test_each_slip_is_refused(part: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a relative path"):
        safe_join(tmp_path, part)
    with pytest.raises(InputError):
        safe_join(tmp_path, "fine", part)


def test_links_may_not_lead_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "inner").mkdir()
    (root / "away").symlink_to(outside)
    (root / "hop").symlink_to("away")
    (root / "loop").symlink_to("loop")
    (root / "within").symlink_to("inner")
    for slip in ("away", "away/file", "hop/file"):
        with pytest.raises(InputError, match="leads to"):
            safe_join(root, slip)
    assert safe_join(root, "within/file") == root / "inner" / "file"
    assert safe_join(root, "loop").parent == root


def test_a_root_behind_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert safe_join(tmp_path / "link", "a") == tmp_path / "real" / "a"


def test_a_sibling_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "root-2").mkdir()
    (root / "sneaky").symlink_to(tmp_path / "root-2")
    with pytest.raises(InputError):
        safe_join(root, "sneaky")


def test_joining_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one part"):
        safe_join(tmp_path)
