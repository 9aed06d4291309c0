"""Context Files are read line by line; an unreadable line does not affect the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.memories.tasks import PATHS_LIMIT, read_paths

LINES = [
    ("src/a.py", ["src/a.py"]),
    ("src/a.py, src/b.py,src/c.py", ["src/a.py", "src/b.py", "src/c.py"]),
    ("- src/a.py", ["src/a.py"]),
    ("  * `src/a.py` - why it matters, and to which team", ["src/a.py"]),
    ("12. src/a.py: the handlers", ["src/a.py"]),
    ("- [ ] src/a.py (new)", ["src/a.py"]),
    ("+ src/a.py — uses src/b.py", ["src/a.py"]),
    ("`src/a.py`, `src/b.py` and `c.py`", ["src/a.py", "src/b.py", "c.py"]),
    ("`src/a.py` — uses `src/b.py`", ["src/a.py"]),
    ("src/a.py:42, src/b.py:10-20, src/c.py#L7", ["src/a.py", "src/b.py", "src/c.py"]),
    ("tests/test_a.py::test_one", ["tests/test_a.py"]),
    ("[the webhook](src/a.py)", ["src/a.py"]),
    ('["src/a.ts", "src/b.ts"]', ["src/a.ts", "src/b.ts"]),
    ("| src/a.py | the handlers |", ["src/a.py"]),
    ("Modify: src/a.py", ["src/a.py"]),
    ("See src/a.py for the details.", ["src/a.py"]),
    ("src/a.py handles src/b.py", ["src/a.py", "src/b.py"]),
    ("src\\pay\\a.py", ["src\\pay\\a.py"]),
    ("/tree/src/a.py", ["/tree/src/a.py"]),
    ("file://shop/src/a.py", ["file://shop/src/a.py"]),
    ("src/, docs/guides/", ["src/", "docs/guides/"]),
    ("src/payments/**", ["src/payments/**"]),
    ("src/{a,b}.ts, pages/[id].tsx", ["src/{a,b}.ts", "pages/[id].tsx"]),
    ("docs/My File.md", ["docs/My File.md"]),
    ('"docs/with, comma.md"', ["docs/with, comma.md"]),
    ("`docs/My File.md`, README.md", ["docs/My File.md", "README.md"]),
    ("Makefile, .gitignore, setup.cfg", ["Makefile", ".gitignore", "setup.cfg"]),
    ("src/größe/übung.py", ["src/größe/übung.py"]),
    ("(src/a.py)", ["src/a.py"]),
    ("src/a.py; src/b.py", ["src/a.py", "src/b.py"]),
    ("> - src/a.py", ["src/a.py"]),
]
NO_PATHS = [
    "",
    "   ",
    "These are the files that matter, and/or those beside them.",
    "N/A",
    "None",
    "TBD.",
    "e.g. the handlers, etc.",
    "### Files to look at",
    "```python",
    "https://example.org/a/b.html, and mail@example.org",
    "- we read/write a lot here (see below)",
    "--force, $(pwd)",
    "....",
    ", , ,",
    "the customer said: make it fast",
]


@pytest.mark.requirement("A15")
@pytest.mark.parametrize(("line", "paths"), LINES)
def test_paths_are_found_however_they_are_listed(line: str, paths: list[str]) -> None:
    assert list(read_paths(line)) == paths


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("line", NO_PATHS)
def test_prose_is_no_path(line: str) -> None:
    assert read_paths(line) == ()


def test_an_unreadable_line_costs_only_itself() -> None:
    text = "\n".join(f"{prose}\n{line}" for prose, (line, _) in zip(NO_PATHS * 3, LINES, strict=False))
    expected = dict.fromkeys(path for _, paths in LINES for path in paths)
    assert list(read_paths(text)) == list(expected)


def test_a_path_in_two_spellings_is_one_and_the_first_stays() -> None:
    assert read_paths("./src/a.py\nsrc/a.py, src\\a.py\nsrc/b/\nsrc/b") == ("./src/a.py", "src/b/")


_names = st.text("abcxyz-_019äé", min_size=1, max_size=8).filter(lambda name: name.strip("-_") == name)
_endings = st.sampled_from(["py", "ts", "tsx", "md", "yaml", "h"])
_paths = st.builds(
    lambda folders, name, ending: "/".join([*folders, f"{name}.{ending}"]),
    st.lists(_names, min_size=1, max_size=3),
    _names,
    _endings,
)
_dressed = st.sampled_from(
    [
        "{}",
        "- {}",
        "* `{}`",
        "3. {}",
        "- [x] {}",
        "{} - the reason",
        "`{}` - like `other/file.py`",
        "{}: why",
        "- {} (new)",
        "\t{}  ",
        '"{}"',
        "{}.",
        "- [name]({})",
        "{}:12",
        "**{}**",
        "- {} -- see below",
    ]
)
_prose = st.sampled_from(["", "These matter most.", "## Files", "and then the rest, as before", "```"])


@pytest.mark.requirement("A15")
@given(
    st.lists(
        st.tuples(
            _prose,
            st.one_of(
                st.tuples(_dressed, st.lists(_paths, min_size=1, max_size=1)),
                st.tuples(st.sampled_from([",", ", ", " , ", "; "]), st.lists(_paths, min_size=2, max_size=4)),
            ),
        ),
        max_size=6,
    )
)
def test_paths_in_any_text_are_found_once_and_in_order(
    lines: list[tuple[str, tuple[str, list[str]]]],
) -> None:
    text, expected = "", dict[str, None]()
    for prose, (style, paths) in lines:
        text += f"{prose}\n" + (style.format(*paths) if "{}" in style else style.join(paths)) + "\n"
        expected |= dict.fromkeys(paths)
    assert list(read_paths(text)) == list(expected)


@given(st.text(max_size=400))
def test_any_text_is_read_and_reading_the_result_changes_nothing(text: str) -> None:
    found = read_paths(text)
    assert len({path.replace("\\", "/").removeprefix("./") for path in found}) == len(found)
    assert all(path.strip() and path.isprintable() for path in found)


@pytest.mark.parametrize(
    "piece", ["`", "- ", "[", "](", "{", "a/", "a.b,", " - ", '"', ":1", "((", "::", "./", "a/b.c "]
)
def test_a_long_text_of_anything_is_read_in_a_moment(piece: str) -> None:
    """A backtracking pattern would not finish here."""
    assert len(read_paths(piece * 100_000)) <= PATHS_LIMIT
    assert len(read_paths((piece * 400 + "\n") * 60)) <= PATHS_LIMIT


def test_a_very_long_list_of_paths_is_cut() -> None:
    assert len(read_paths("\n".join(f"src/{n}.py" for n in range(3 * PATHS_LIMIT)))) == PATHS_LIMIT
