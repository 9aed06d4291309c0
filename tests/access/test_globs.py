"""Paths are matched by whole canonical segments; another spelling cannot bypass a pattern."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgd.errors import Invalid, KgdError, Limit
from kgd.model.globs import Glob, place_of
from kgd.model.uri import parse

NAMES = st.sampled_from(["infra", "db", "x", "ab", "aab", "a", "Infra", "%20", "caf%C3%A9"])
PARTS = st.sampled_from(["infra", "db", "*", "a*", "*b", "a*b", "*a*", "**", "x", "**", "Infra"])
PLACES = st.lists(NAMES, max_size=6).map(tuple)
GLOBS = st.lists(PARTS, min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts))


def independent(glob: str, place: tuple[str, ...]) -> bool:
    """The same by a regular expression over the path, each segment ended by a slash."""
    pattern = ""
    for part in glob[1:].split("/"):
        pattern += "(?:[^/]+/)*" if part == "**" else re.escape(part).replace(r"\*", "[^/]*") + "/"
    return re.fullmatch(pattern, "".join(f"{segment}/" for segment in place)) is not None


@pytest.mark.slow
@given(GLOBS, PLACES)
@example("/**/a*/**/x", ("a", "b", "x", "a", "q"))
def test_a_glob_agrees_with_an_independent_matcher(glob: str, place: tuple[str, ...]) -> None:
    assert Glob(glob).covers(place) == independent(glob, place)


@given(GLOBS, GLOBS, PLACES)
@example("/**", "/a/*", ("a",))
@example("/a/*", "/a/**", ("a", "x", "x"))
def test_a_glob_within_another_covers_nothing_more(one: str, other: str, place: tuple[str, ...]) -> None:
    if Glob(one).within(Glob(other)) and Glob(one).covers(place):
        assert Glob(other).covers(place)


@pytest.mark.parametrize(
    ("narrow", "wide", "within"),
    [
        ("/infra/**", "/**", True),
        ("/infra/**", "/infra/**", True),
        ("/infra/db/**", "/infra/**", True),
        ("/infra/**", "/infra/*", False),
        ("/infra/*", "/infra/**", True),
        ("/infra", "/infra/**", True),
        ("/**", "/infra/**", False),
        ("/inf*/**", "/infra/**", False),
        ("/infra*", "/inf*", True),
        ("/a*b", "/a*", True),
        ("/a*", "/a*b", False),
        ("/**/x", "/**", True),
        ("/*/**", "/**", True),
    ],
)
def test_a_narrower_pattern_is_recognised(narrow: str, wide: str, within: bool) -> None:
    assert Glob(narrow).within(Glob(wide)) is within


@pytest.mark.requirement("B5")
@pytest.mark.parametrize(
    ("glob", "covered", "not_covered"),
    [
        (
            "/services/**",
            ["concept://ws/services", "file://ws/services/a/b.py", "dir://ws/services", "atom://ws/services/x"],
            [
                "concept://ws/service",
                "concept://ws/Services/x",
                "concept://ws/a/services/x",
                "https://services/x",
                "concept://ws/servicesx",
                "dir://ws/_",
            ],
        ),
        ("/services/*", ["concept://ws/services/x"], ["concept://ws/services", "concept://ws/services/x/y"]),
        ("/**", ["dir://ws/_", "https://example.com/a/../b", "mailto:a@example.com", "concept://ws/a"], []),
        ("/_/**", ["dir://ws/%5F/x", "concept://ws/_/x"], ["dir://ws/_"]),
        (
            "/https/example.com/docs/**",
            ["https://example.com/docs/a?q=/x#y", "https://example.com/docs/"],
            [
                "https://example.com/docs/../secret",
                "https://example.com/docs/%2e%2e/secret",
                "https://example.com/docs//x",
                "https://example.com/docs/%252e%252e/x",
                "https://example.com/docs/a%2fb",
                "https://example.com/docs\\..\\x",
                "https://example.com@evil.example/docs/a",
                "http://example.com/docs/a",
                "https://example.com/other",
                "https://EXAMPLE.com/docs/a",
            ],
        ),
        (
            "/https/example.com/**",
            ["https://example.com/docs/../secret", "https://example.com/"],
            ["https://../example.com/x", "https://evil/example.com/x"],
        ),
        ("/infra/a%20b", ["concept://ws/infra/a%20b"], ["concept://ws/infra/ab"]),
    ],
)
def test_a_scope_covers_paths_under_every_scheme(glob: str, covered: list[str], not_covered: list[str]) -> None:
    for uri in covered:
        assert Glob(glob).covers(place_of(parse(uri))), uri
    for uri in not_covered:
        assert not Glob(glob).covers(place_of(parse(uri))), uri


@pytest.mark.parametrize(
    "glob",
    [
        "",
        "infra/**",
        "/",
        "//",
        "/infra/",
        "/infra//x",
        "/infra/../x",
        "/./x",
        "/a b",
        "/%41",
        "/a%2fb",
        "/%5F/x",
        "/infra/a**",
        "/***",
        "/cafe\u0301",
        "/x?",
        "/[ab]",
        "concept://ws/infra",
        "/infra\n",
        "/a\\b",
        "/%zz",
    ],
)
def test_a_pattern_that_could_match_nothing_is_refused_where_it_is_given(glob: str) -> None:
    with pytest.raises(Invalid, match=r"matches nothing|begins with"):
        Glob(glob)


def test_a_refused_pattern_comes_with_a_correction() -> None:
    with pytest.raises(Invalid, match=re.escape("Write /a%20b/**.")):
        Glob("/a b/**")
    with pytest.raises(Invalid, match=re.escape("Write /infra/**.")):
        Glob("infra/**")


def test_a_hostile_pattern_is_matched_in_no_time() -> None:
    slow = Glob("/" + "/".join(["**", "*a*a*a*a*b"] * 30))
    assert not slow.covers(("a" * 250,) * 60)
    with pytest.raises(Limit):
        Glob("/" + "a/" * 5000 + "a")


@pytest.mark.slow
@given(st.text(max_size=40))
def test_any_text_is_a_pattern_or_a_refusal(text: str) -> None:
    with contextlib.suppress(KgdError):
        assert Glob(text).segments
