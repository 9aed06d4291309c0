"""No file can make reading slow, large or dangerous."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.codec import documents
from kgd.errors import KgdError
from tests.codec.hostile import DEEP, FULL, MANY, URI, YAML, Hostile, filled

ROOT = Path(__file__).resolve().parents[2]


WORST = {"a list of 60,000", "lines without a colon", "20,000 keys in one line"}
"""The slowest there are known."""

# Full files take half a second each: a third of them in every run, all of them in `make test-all`.
TIMED = [pytest.param(c, marks=[pytest.mark.slow] if c in MANY and MANY.index(c) % 3 else [], id=c.name) for c in YAML]


def cpu_seconds(data: bytes) -> float:
    """The least of a few readings, since other processes share the processor's caches and clock."""
    least = 9.0
    for _ in range(3 if len(data) < 10_000 else 2):
        began = time.process_time()
        refusal(data)
        least = min(least, time.process_time() - began)
    return least


def refusal(data: bytes) -> KgdError | None:
    try:
        documents.decode(data, at="f.yaml")
    except KgdError as error:
        return error
    return None


@pytest.mark.slow
@pytest.mark.parametrize("case", TIMED)
def test_a_hostile_file_is_refused(case: Hostile) -> None:
    error = refusal(case.data)
    assert type(error) is case.error
    assert error.at.startswith("f.yaml")
    assert len(str(error)) <= 512
    assert str(error).isprintable()


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in MANY if c.name in WORST], ids=lambda c: c.name)
def test_a_hostile_file_is_settled_within_a_second(case: Hostile) -> None:
    assert cpu_seconds(case.data) < 1.0


@pytest.mark.parametrize("case", DEEP, ids=lambda c: c.name)
def test_deep_nesting_is_settled_before_the_parser_looks_ahead(case: Hostile) -> None:
    assert cpu_seconds(case.data) < 0.1


@pytest.mark.slow
def test_all_hostile_files_together_stay_within_64_mib() -> None:
    """In a process of its own, whose address space may not grow by more."""
    program = """
import resource
from kgd.codec import documents, guard
from kgd.errors import KgdError
from tests.codec.hostile import YAML
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20, resource.RLIM_INFINITY))
refused = 0
for case in YAML:
    try:
        documents.decode(case.data)
    except KgdError:
        refused += 1
print(refused == len(YAML))
"""
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


SECRET = "hunter2-this-must-not-be-repeated"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('summary: "no end\n', 3, "a quotation mark is never closed; it was opened in line 2"),
        ("tags: [a, b\nname: c\n", 3, "a bracket [ is never closed, or a comma is missing; it was opened in line 2"),
        ("data: {a: 1\n", 3, "a brace { is never closed, or a comma is missing; it was opened in line 2"),
        ("summary: a: b\n", 2, "a second 'key:' in a line, or a wrong indent; text with ': ' needs quotes"),
        ("name: n\nfoo\n", 3, "a line is neither 'key: value' nor an item of a list"),
        ("data:\n   a: 1\n  b: 2\n", 4, "a line has the wrong indent, or something follows a value in quotes"),
        ("data:\n\ta: 1\n", 3, "a tab cannot indent a line or begin a value"),
        ("summary: @all\n", 2, "a value begins with a character that needs quotes"),
        ("tags: ]\n", 2, "a value begins with a character that needs quotes"),
        ("summary: - x\n", 2, "a '- ' is at a place where a list cannot begin"),
        ("content: |x\n  a\n", 2, "only an indent, + or - may follow the | or > that begins a block of text"),
    ],
)
def test_invalid_yaml_is_reported_in_a_sentence_with_its_line(text: str, line: int, reason: str) -> None:
    error = refusal(URI + text.encode())
    assert error is not None
    assert (error.at, error.message) == (f"f.yaml:{line}", f"this is not YAML: {reason}")


@pytest.mark.parametrize(
    "text",
    [
        f"uri: concept://ws/a\nname: &{SECRET} x\n",
        f"uri: concept://ws/a\nname: !{SECRET} x\n",
        f"uri: concept://ws/a\nname: @{SECRET}\n",
        f"uri: concept://ws/a\nname: *{SECRET}\n",
        f"uri: concept://ws/a\ndata: {{{SECRET}: 1, {SECRET}: 2}}\n",
        f"uri: concept://ws/a\nname: a: {SECRET}\n",
        f'uri: concept://ws/a\nname: "{SECRET}\n',
        f"uri: concept://ws/a\nweight: [{SECRET}\n",
        f"%{SECRET} x\n---\nuri: concept://ws/a\n",
        f"<<<<<<< {SECRET}\nuri: concept://ws/a\n",
    ],
)
def test_a_refusal_never_repeats_the_bytes(text: str) -> None:
    with pytest.raises(KgdError) as caught:
        documents.decode(text.encode(), at="nodes/concept/a.yaml")
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__cause__)


@pytest.mark.parametrize(
    "text",
    [
        filled(URI + b"content: |\n", b"  [[[[ {{{{ - - - ? ? &a *a !t <<: x\n"),
        URI + b"content: | # prose\n  <<<<<<< not at the margin\n  =======\n",
        URI + b"name: 'it''s [one] {two} & three * four'\n",
        b"# why\n---\n" + URI + b"...\n",
        URI + b"data: {a: {b: {c: {d: [[[[[1]]]]]}}}}\n",
    ],
    ids=["brackets in prose", "markers in prose", "indicators in quotes", "explicit document", "some depth"],
)
def test_harmless_text_that_looks_hostile_is_read(text: bytes) -> None:
    assert len(text) <= FULL
    assert documents.decode(text).uri == "concept://ws/a"


@given(
    st.binary(max_size=200)
    | st.text(st.sampled_from("uri: \n-[]{}&*!|>'\"%@`#,?:<=~\t0x1.e_"), max_size=80).map(str.encode)
)
def test_any_bytes_are_a_node_or_a_named_error(data: bytes) -> None:
    for head in (b"", URI, URI + b"data:\n  a: "):
        error = refusal(head + data)
        if error is not None:
            assert error.at.startswith("f.yaml")
            assert len(str(error)) <= 512
