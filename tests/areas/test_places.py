"""Paths of any spelling are one path of the code tree, or lie outside of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.areas.patterns import normalise


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").touch()
    return root


@pytest.mark.requirement("A6")
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("./src/a.py", "src/a.py"),
        ("src//x/../a.py", "src/a.py"),
        (" src/a.py\n", "src/a.py"),
        ("`src/a.py`", "src/a.py"),
        ("src\\a.py", "src/a.py"),
        (".\\src\\a.py", "src/a.py"),
        ("src/a.py:12", "src/a.py"),
        ("src/a.py:12:5", "src/a.py"),
        ("src/a.py:10-20", "src/a.py"),
        ("src/a.py#L3-L9", "src/a.py"),
        ("file://shop/src/a.py", "src/a.py"),
        ("file://shop/src/my%20a.py", "src/my%20a.py".replace("%20", " ")),
        ("dir://shop/src", "src/"),
        ("dir://shop/_", ""),
        ("src/", "src/"),
        ("src/.", "src/"),
        (".", ""),
        ("./", ""),
        ("src/nothing.py", "src/nothing.py"),
        ("caf\u00e9.py", "caf\u00e9.py"),
        ("../x", None),
        ("src/../../x", None),
        ("..", None),
        ("", None),
        ("  ", None),
        ("a\0b", None),
        ("x" * 5_000, None),
        ("/etc/passwd", None),
        ("C:\\shop\\src\\a.py", None),
        ("https://example.org/a.py", None),
        ("file:///etc/passwd", None),
        ("file://other/src/a.py", None),
        ("file://shop/%zz", None),
        ("\\\\server\\share\\a.py", None),
    ],
)
def test_one_spelling(tree: Path, text: str, path: str | None) -> None:
    assert normalise(text, tree, workspace="shop") == path


def test_absolute_paths_are_inside_where_they_lie_below_the_tree(tree: Path, tmp_path: Path) -> None:
    assert normalise(str(tree / "src/a.py"), tree) == "src/a.py"
    assert normalise(f"{tree}/src/", tree) == "src/"
    assert normalise(str(tree), tree) == ""
    assert normalise(f"file://{tree}/src/a.py", tree) == "src/a.py"
    assert normalise(f"file://localhost{tree}/src/a%20b.py", tree) == "src/a b.py"
    assert normalise(f"{tree}-other/src/a.py", tree) is None
    (tmp_path / "link").symlink_to(tree)
    assert normalise(str(tmp_path / "link/src/a.py"), tree) == "src/a.py"
    assert normalise(str(tree / "src/a.py"), tmp_path / "link") == "src/a.py"


def test_without_a_code_tree_only_relative_paths_mean_something() -> None:
    assert normalise("src/a.py", None) == "src/a.py"
    assert normalise("/src/a.py", None) is None


def test_a_file_that_is_really_called_so_keeps_its_name(tree: Path) -> None:
    for name in ("a\\b.py", "notes:12", "x.py#L3"):
        (tree / name).touch()
        assert normalise(name, tree) == name


@pytest.mark.slow
@given(st.text(max_size=60))
def test_normalisation_stays_inside_the_tree_and_is_idempotent(text: str) -> None:
    found = normalise(text, None)
    if found is not None:
        assert not found.startswith("/")
        assert ".." not in found.split("/")
        again = normalise(os.path.join("/tree", found), Path("/tree"))
        assert again is None or ".." not in again.split("/")
