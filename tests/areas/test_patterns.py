"""Path patterns match as git's users expect, in any number and for any input."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgd.areas.patterns import Matcher, check_pattern
from kgd.errors import Invalid
from kgd.model.uri import Uri

ATOM = Uri("atom://shop/it")


def matches(pattern: str, path: str) -> bool:
    return Matcher([(ATOM, [pattern])]).matches(path) == [ATOM]


@pytest.mark.requirement("A12")
@pytest.mark.parametrize(
    ("patterns", "inside", "outside"),
    [
        (
            ["src/pages/checkout/**"],
            ["src/pages/checkout/index.tsx", "src/pages/checkout/steps/pay.tsx"],
            ["src/pages/profile.tsx", "src/pages/checkout-old/x.ts", "lib/src/pages/checkout/a.ts"],
        ),
        (
            ["src/payments/gateway/**", "src/payments/stripe-*.ts"],
            ["src/payments/gateway/a/b.ts", "src/payments/stripe-webhook.ts"],
            ["src/payments/paypal.ts", "src/payments/stripe-webhook.js", "src/payments/old/stripe-x.ts"],
        ),
        (
            ["src/shared/email-client.ts"],
            ["src/shared/email-client.ts"],
            ["src/shared/email-client.tsx", "src/shared/email-client", "other/src/shared/email-client.ts"],
        ),
    ],
)
def test_the_examples_of_the_specification(patterns: list[str], inside: list[str], outside: list[str]) -> None:
    matcher = Matcher([(ATOM, patterns)])
    assert all(matcher.matches(path) == [ATOM] for path in inside)
    assert not any(matcher.matches(path) for path in outside)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*.py", ["a.py", ".py", ".hidden.py"], ["a/b.py", "a.pyc"]),
        ("**", ["a", "a/b/c"], []),
        ("**/*.py", ["a.py", "x/y/a.py"], ["a.js"]),
        ("src/**/test_*.py", ["src/test_a.py", "src/a/b/test_x.py"], ["src/a/b.py", "test_a.py"]),
        ("src/a?c/[x-z]*[!0-9]", ["src/abc/xa", "src/a-c/zz"], ["src/ac/xa", "src/abc/x1", "src/a/c/xa"]),
        ("src/[^a]/[]-]", ["src/b/]", "src/c/-"], ["src/a/]", "src/b/x"]),
        ("{src,lib/x}/*.{ts,tsx}", ["src/a.ts", "lib/x/b.tsx"], ["lib/a.ts", "src/a.js", "src/x/b.tsx"]),
        ("a{,.b{1,2}}/c", ["a/c", "a.b1/c", "a.b2/c"], ["a.b/c", "a.b3/c"]),
        ("a**b", ["ab", "axb"], ["a/b"]),
        ("src", ["src", "src/a", "src/a/b"], ["src2", "a/src"]),
        ("src/*", ["src/a"], ["src", "src/a/b"]),
        ("src/", ["src/a", "src/a/b", "src/"], ["src"]),
        ("./src//a/./b.py", ["src/a/b.py"], ["src/a/c.py"]),
        ("app/[slug]/page.tsx", ["app/[slug]/page.tsx", "app/s/page.tsx"], ["app/slug/page.tsx"]),
        ("{{cookiecutter.name}}/**", ["{{cookiecutter.name}}/a.py"], ["cookiecutter.name/a.py"]),
        ("caf\u00e9/*", ["cafe\u0301/menu"], ["cafe/menu"]),
        ("src/(group)/+page@x.svelte", ["src/(group)/+page@x.svelte"], ["src/group/page"]),
        ("A.py", ["A.py"], ["a.py"]),
    ],
)
def test_files_covered_by_a_pattern(pattern: str, inside: list[str], outside: list[str]) -> None:
    for path in inside:
        assert matches(pattern, path), path
    for path in outside:
        assert not matches(pattern, path), path


@pytest.mark.requirement("A12")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "/etc/**",
        "C:/x",
        "C:\\x\\y",
        "../up",
        "a/../b",
        "a/..",
        "{a,..}/b",
        "x" * 513,
        "a[b",
        "a/[b/c]",
        "{a,b",
        "{a",
        "src\\*.py",
        "!src/**",
        "a\nb",
        "a\0b",
        "[[:alpha:]]",
        "[z-a]",
        "a{1..9}",
        "{a,/b}",
        "{" * 200,
        "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}",
        "{" + ",".join(map(str, range(65))) + "}",
    ],
)
def test_a_bad_pattern_is_refused_with_its_place_and_a_way_out(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_pattern(text, "paths[3]")
    assert refused.value.at == "paths[3]"
    assert refused.value.code == "VALIDATION_ERROR"
    assert Matcher([(ATOM, [text])]).matches("a/b") == []


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        (" ./src//a ", "src/a"),
        ("src/", "src/**"),
        (".", "**"),
        ("**/**/a/**/**", "**/a/**"),
        ("x" * 512, "x" * 512),
        ("a]b}c", "a]b}c"),
        ("a{b}c", "a{b}c"),
        ("[{]x", "[{]x"),
    ],
)
def test_a_pattern_is_stored_in_one_spelling(written: str, stored: str) -> None:
    assert check_pattern(written, "paths") == stored
    assert check_pattern(stored, "paths") == stored


def test_one_bad_pattern_takes_nothing_from_the_others() -> None:
    assert Matcher([(ATOM, ["a[", "../x", "src/**"])]).matches("src/a") == [ATOM]


def test_all_areas_of_a_path_are_found_in_order() -> None:
    areas = [Uri(f"atom://shop/{name}") for name in ("b", "a", "c")]
    matcher = Matcher([(areas[0], ["src/**", "**/*.py"]), (areas[1], ["src/a.py"]), (areas[2], ["lib/**"])])
    assert matcher.matches("src/a.py") == [areas[1], areas[0]]


SEGMENTS = ["a", "b", "ab", "a*", "*b", "?", "[ab]", "[!a]*", "**", "*", "a*b*a", "*a*"]
NAMES = ["a", "b", "ab", "ba", "aba", "abab", "c"]
patterns = st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=5).map("/".join)
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=5).map("/".join)
entries = st.dictionaries(st.sampled_from("uvwxyz"), st.lists(patterns, max_size=4), max_size=6)


@lru_cache(50_000)
def naive(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """The rules said once more, by recursion on both sides."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(path)
        return naive(pattern[1:], path) or (bool(path) and naive(pattern, path[1:]))
    return bool(path) and name(pattern[0], path[0]) and naive(pattern[1:], path[1:])


@lru_cache(50_000)
def name(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return name(pattern[1:], text) or (bool(text) and name(pattern, text[1:]))
    if pattern[0] == "[":
        inside, rest = pattern[1:].split("]", 1)
        wanted = text[:1] not in inside[1:] if inside[0] == "!" else text[:1] in inside
        return bool(text) and wanted and name(rest, text[1:])
    return bool(text) and pattern[0] in ("?", text[0]) and name(pattern[1:], text[1:])


def expected(patterns: Sequence[str], path: str) -> bool:
    segments = tuple(path.split("/"))
    for pattern in patterns:
        folded = tuple(
            s for n, s in enumerate(pattern.split("/")) if s != "**" or pattern.split("/")[n - 1 : n] != ["**"]
        )
        wild = any(mark in pattern for mark in "*?[")
        if naive(folded, segments) or (not wild and segments[: len(folded)] == folded):
            return True
    return False


@pytest.mark.slow
@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(entries, st.lists(paths, min_size=1, max_size=12))
def test_many_patterns_match_as_each_of_them_does_alone(known: dict[str, list[str]], asked: list[str]) -> None:
    matcher = Matcher((Uri(uri), patterns) for uri, patterns in known.items())
    for path in asked:
        assert matcher.matches(path) == sorted(uri for uri, patterns in known.items() if expected(patterns, path))


@pytest.mark.slow
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("uvw"), st.lists(patterns, max_size=3))), st.lists(paths, max_size=8))
def test_a_changed_matcher_equals_a_new_one(changes: list[tuple[str, list[str]]], asked: list[str]) -> None:
    changed, now = Matcher(), dict[str, list[str]]()
    for uri, patterns in changes:
        if patterns:
            changed.put(Uri(uri), patterns)
        else:
            changed.put(Uri(uri), ())
        now[uri] = patterns
    made = Matcher((Uri(uri), patterns) for uri, patterns in now.items())
    assert [changed.matches(path) for path in asked] == [made.matches(path) for path in asked]


GIT_PATTERNS = [
    "*",
    "**",
    "a",
    "a/b",
    "a/",
    "*.py",
    "**/*.py",
    "a/*",
    "a/**",
    "a/**/*.py",
    "**/b/**",
    "a/?",
    "a/[bc]",
    "a/[!b]*",
    "[a-c]/*",
    "**/[x-z].py",
    "a*/b",
    "*/b",
    "**/x.py",
    "a/b/c/**",
    "a/**/c/**",
    "**/.*",
    ".*",
    "a**c",
    "*a*a*",
    "*-*",
    "a/**/**/x.py",
    "c?/*",
    "[]x]/*",
    "[^a]",
    "a/[b-]",
    "**/a",
    "a b/*",
    "*/*/*",
]
GIT_PATHS = [
    "a/b",
    "a/x.py",
    "a/b.py/x",
    "b/x.py",
    "x.py",
    "y.py",
    "z.txt",
    "a-a/b",
    "aa/b",
    "a/c/x.py",
    "a/d/b/c/x.py",
    "a/d/c/y.py",
    "b/c/d",
    ".env",
    "c1/.env",
    "c1/b",
    "cc/x",
    "]/x",
    "x/y",
    "a/-",
    "a b/c",
    "abc",
    "aXc",
    "banana",
    "d/e/f/g.py",
    "a/b2/c/d",
    "q/a/w",
    "a/d/a",
    "b",
    "d",
]


def test_git_itself_finds_the_same_files(tmp_path: Path) -> None:
    def git(*arguments: str, given: str = "") -> str:
        done = subprocess.run(["git", "-C", str(tmp_path), *arguments], input=given, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    git("init", "-q")
    blob = git("hash-object", "-w", "--stdin").strip()
    # Not all of them can lie side by side on a disk; an index does not mind a name that is file and folder.
    files = [path for path in GIT_PATHS if not any(other.startswith(f"{path}/") for other in GIT_PATHS)]
    git("update-index", "--index-info", given="".join(f"100644 {blob}\t{path}\n" for path in files))
    assert len(files) > 20
    for pattern in GIT_PATTERNS:
        listed = git("-c", "core.quotePath=false", "ls-files", "-z", "--", f":(glob){pattern}").split("\0")[:-1]
        assert sorted(path for path in files if matches(pattern, path)) == sorted(listed), pattern


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 200 + "*b", "a" * 1_000),
        ("[a]*" * 100 + "b", "a" * 1_000),
        ("*?" * 150 + "b", "a" * 1_000),
        ("**/a/" * 100 + "b", "a/" * 500 + "c"),
        ("**/*a*/" * 60 + "b", "a/" * 300 + "c"),
        ("{a*,*a,a}/" * 3 + "b", "a/" * 30 + "c"),
    ],
)
def test_no_pattern_makes_a_path_cost_more_than_both_are_long(pattern: str, path: str) -> None:
    """With backtracking, each of these would take practically forever."""
    assert not matches(check_pattern(pattern, "paths"), path)
