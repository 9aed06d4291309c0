"""Lines in citations and subjects: the symbol that encloses them is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Invalid, NotFound
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, ask, code, daemon, git, session, upsert, ws
from tests.waiting import until

__all__ = ["ask", "code", "daemon", "session", "ws"]

KEYS, README = "src/auth/keys.py", "README.md"
TEXT = "import os\n\n\ndef sign(token):\n    return token\n\n\nclass Keys:\n    def rotate(self):\n        pass\n"


@pytest.fixture(autouse=True)
def keys(code: Path, ask: Ask, ws: Workspace) -> None:
    (code / KEYS).write_text(TEXT)
    until(lambda: [one["uri"] for one in ask.get(uris=f"symbol://shop/{KEYS}/Keys.rotate")["nodes"]])


def stored(ask: Ask, answer: Any) -> Any:
    return ask.get(uris=answer["nodes"][0]["uri"])["nodes"][0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "cited", "warning"),
    [
        (f"{KEYS}:10", f"{KEYS}#Keys.rotate", f"cites {KEYS}#Keys.rotate, which contains line 10"),
        (f"{KEYS}:9-10", f"{KEYS}#Keys.rotate", f"cites {KEYS}#Keys.rotate, which contains lines 9-10"),
        (f"{KEYS}:8-10", f"{KEYS}#Keys", f"cites {KEYS}#Keys, which contains lines 8-10"),
        (f"./{KEYS}:5:9", f"{KEYS}#sign", f"cites {KEYS}#sign, which contains line 5"),
        (f"{KEYS}#L4-L5", f"{KEYS}#sign", f"cites {KEYS}#sign, which contains lines 4-5"),
        (
            f"{KEYS}:1",
            KEYS,
            f"cites {KEYS} as a whole: no known symbol contains line 1, and kgd stores no line numbers",
        ),
        (
            f"{KEYS}:5-8",
            KEYS,
            f"cites {KEYS} as a whole: no known symbol contains lines 5-8, and kgd stores no line numbers",
        ),
        (
            "README.md:1",
            "README.md",
            "cites README.md as a whole: no known symbol contains line 1, and kgd stores no line numbers",
        ),
        (f"{KEYS}#sign", f"{KEYS}#sign", ""),
        ("a book:12", "a book:12", ""),
    ],
)
def test_lines_are_stored_as_the_innermost_symbol(ask: Ask, given: str, cited: str, warning: str) -> None:
    fact = ask.remember(text="Keys rotate daily.", cites=[given])
    assert (stored(ask, fact)["data"]["cites"], fact["warnings"]) == ([cited], [warning] if warning else [])
    node = ask.put(changes=upsert("put", data={"cites": [given, "a paper"]}))
    assert stored(ask, node)["data"]["cites"] == [cited.removeprefix("./"), "a paper"]
    assert [one for one in node["warnings"] if one.startswith("cites")] == ([warning] if warning else [])


@pytest.mark.slow
def test_a_citation_that_is_no_text_is_refused_beside_lines(ask: Ask) -> None:
    with pytest.raises(Invalid, match="must be a list of strings"):
        ask.put(changes=upsert("put", data={"cites": [{"title": "a book"}, f"{KEYS}:5"]}))


@pytest.mark.slow
def test_lines_and_their_symbol_are_one_citation(ask: Ask) -> None:
    node = ask.put(changes=upsert("put", data={"cites": [f"{KEYS}:5", f"{KEYS}#sign", f"{KEYS}:4-5"]}))
    assert stored(ask, node)["data"]["cites"] == [f"{KEYS}#sign"]


@pytest.mark.slow
@pytest.mark.parametrize("lines", ["11", "9-11", "10-9", "0", "99999"])
def test_lines_that_the_file_does_not_have_are_refused(ask: Ask, lines: str) -> None:
    with pytest.raises(Invalid, match=f"{KEYS} has 10 lines, and no lines? {lines}") as refused:
        ask.remember(text="Keys rotate daily.", cites=["README.md", f"{KEYS}:{lines}"])
    assert refused.value.at == "cites[1]"
    with pytest.raises(Invalid, match="has 10 lines") as refused:
        ask.remember(text="Keys rotate daily.", about=[f"{KEYS}:{lines}"])
    assert refused.value.at == "about[0]"
    with pytest.raises(Invalid, match="has 10 lines") as refused:
        ask.put(changes=[upsert("a"), upsert("b", data={"cites": f"{KEYS}:{lines}"})])
    assert refused.value.at == "changes[1].data.cites"


@pytest.mark.slow
def test_a_fact_about_lines_or_a_symbol_of_a_file_is_about_the_symbol(ask: Ask) -> None:
    def subject(text: str) -> tuple[str, list[str]]:
        answer = ask.remember(text=f"About {text}.", about=[text])
        (relation,) = stored(ask, answer)["relations"]
        return relation["target"], answer["warnings"]

    rotate = f"symbol://shop/{KEYS}/Keys.rotate"
    assert subject(f"{KEYS}#Keys.rotate") == (rotate, [])
    assert subject(f"./{KEYS}#Keys.rotate") == (rotate, [])
    assert subject(f"{KEYS}:9-10") == (rotate, [f"is about {KEYS}#Keys.rotate, which contains lines 9-10"])
    whole = f"is about {KEYS} as a whole: no known symbol contains line 1, and kgd stores no line numbers"
    assert subject(f"{KEYS}:1") == (f"file://shop/{KEYS}", [whole])
    told = f"os was not found in {KEYS}; the fact is about the whole file"  # in its text, but no definition
    assert subject(f"{KEYS}#os") == (f"file://shop/{KEYS}", [told])
    told = f"alt-text was not found in {README}; the fact is about the whole file"
    assert subject(f"{README}#alt-text") == (f"file://shop/{README}", [told])


def test_a_warning_names_a_path_that_reads_like_a_sentence(ask: Ask, code: Path) -> None:
    page = "the fact is about cites x.md"
    (code / page).write_text("# Title\n")
    until(lambda: ask.get(uris=f"file:{page}")["nodes"])
    lines = "no known symbol contains line 1, and kgd stores no line numbers"
    assert ask.remember(text="About it.", about=[f"{page}:1"])["warnings"] == [f"is about {page} as a whole: {lines}"]
    told = f"alt was not found in {page}; "
    assert ask.remember(text="It.", about=[f"{page}#alt"])["warnings"] == [f"{told}the fact is about the whole file"]
    related = upsert("a", relations=[{"type": "about", "target": f"{page}#alt"}])
    assert ask.put(changes=[related])["warnings"] == [f"{told}the relation leads to the whole file"]


@pytest.mark.parametrize(
    ("name", "next"),
    [
        ("rotat", f"Did you mean {KEYS}#Keys.rotate?"),
        ("Keyes", f"Did you mean {KEYS}#Keys?"),
        ("nothing", f"Name a definition of the file, or the whole file as {KEYS}."),
    ],
)
def test_a_fact_about_a_name_that_code_does_not_have_is_refused(ask: Ask, name: str, next: str) -> None:
    related = {"op": "relate", "source": "concept:a", "target": f"{KEYS}#{name}", "type": "uses"}
    for call, given, at in (
        (ask.remember, {"text": "Keys rotate daily.", "about": ["README.md", f"{KEYS}#{name}"]}, "about[1]"),
        (ask.remember, {"text": "Keys rotate daily.", "cites": ["README.md", f"{KEYS}#{name}"]}, "cites[1]"),
        (ask.put, {"changes": [upsert("b", relations=[{"type": "uses", "target": f"./{KEYS}#{name}"}])]}, ""),
        (ask.put, {"changes": [upsert("a"), related]}, ""),
    ):
        with pytest.raises(NotFound, match=f"{KEYS} has no {name}") as refused:
            call(**given)
        assert refused.value.next.replace("./", "") == next
        assert at in refused.value.at
    assert ask.put(changes=[upsert("a"), related | {"target": KEYS}])["commit"]
    assert ask.put(changes=[related | {"op": "unrelate"}])["commit"], "also after the definition is gone"


@pytest.mark.slow
@pytest.mark.parametrize("text", [f"./{KEYS}#os", f"{KEYS}#os"])
def test_a_relation_to_an_unknown_symbol_leads_to_its_file(ask: Ask, text: str) -> None:
    told = [f"os was not found in {KEYS}; the relation leads to the whole file"]
    answer = ask.put(changes=[upsert("a", relations=[{"type": "about", "target": text}])])
    assert answer["warnings"] == told
    assert [one["target"] for one in stored(ask, answer)["relations"]] == [f"file://shop/{KEYS}"]
    assert answer["created"] == ["concept://shop/a"]
    related = {"op": "relate", "source": "concept://shop/a", "target": text, "type": "uses"}
    assert ask.put(changes=[related])["warnings"] == told
    assert ask.put(changes=[related | {"op": "unrelate"}])["commit"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("src/auth/kyes.py", KEYS),
        ("src/auth/kyes.py:3", KEYS),
        (f"{KEYS}:-3", KEYS),
        ("src/auht/keys.py", KEYS),
        ("src/auth/kyes.py#sign", KEYS),
    ],
)
def test_a_fact_about_missing_code_is_refused_with_the_nearest_path(ask: Ask, given: str, meant: str) -> None:
    for name in ("about", "cites"):
        with pytest.raises(NotFound, match="the code tree has no src/") as refused:
            ask.remember(text="Keys rotate daily.", **{name: ["README.md", given]})
        assert (refused.value.at, refused.value.next) == (f"{name}[1]", f"Did you mean {meant}?")
    assert ask.get(uris="insight:keys-rotate-daily")["nodes"] == []


@pytest.mark.slow
@pytest.mark.parametrize("given", ["services/nothing", "gotcha:nothing", "./nothing.py", "file://shop/nothing.py"])
def test_a_fact_about_nothing_is_refused(ask: Ask, given: str) -> None:
    with pytest.raises(NotFound, match="nothing"):
        ask.remember(text="Keys rotate daily.", about=[given])


@pytest.mark.slow
def test_a_fact_about_a_renamed_file_is_refused_with_its_new_path(ask: Ask, code: Path) -> None:
    git(code, "mv", "README.md", "docs/Start.md")
    until(lambda: not ask.get(uris="./README.md")["nodes"])
    for name in ("about", "cites"):
        with pytest.raises(NotFound) as refused:
            ask.remember(text="Keys rotate daily.", **{name: ["README.md"]})
        assert refused.value.next.startswith("Did you mean docs/Start.md")


@pytest.mark.slow
def test_a_fact_may_be_about_a_new_file_an_address_or_a_missing_node_of_a_past_commit(ask: Ask, code: Path) -> None:
    (code / "src/new.py").write_text("NEW = 1\n")
    fact = ask.remember(text="It is new.", about=["src/new.py"], cites=["src/new.py"])
    assert stored(ask, fact)["relations"][0]["target"] == "file://shop/src/new.py"
    head = git(code, "rev-parse", "HEAD").strip()
    ask.remember(text="It was there.", about=["https://example.org/x"], cites=[f"src/gone.py@{head[:12]}"])


@pytest.mark.slow
def test_a_symbol_of_a_file_is_an_address_of_every_call(ask: Ask) -> None:
    assert ask.get(uris=f"{KEYS}#sign")["nodes"][0]["uri"] == f"symbol://shop/{KEYS}/sign"
    ask.put(changes=upsert("a", relations=[{"type": "about", "target": f"./{KEYS}#sign"}]))
    assert ask.get(uris="a")["nodes"][0]["relations"][0]["target"] == f"symbol://shop/{KEYS}/sign"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "cited", "symbol"),
    [
        ("ab#1.py", "file://shop/ab%231.py", "ab#1.py#sign"),
        ("odd dir/a b#1.py", "file://shop/odd%20dir/a%20b%231.py", "odd dir/a b#1.py#sign"),
        ("c:3.py", "file://shop/c:3.py", "file://shop/c:3.py#sign"),
        ("c:3", "file://shop/c:3", "file://shop/c:3#sign"),
        ("odd dir/a b.py", "odd dir/a b.py", "odd dir/a b.py#sign"),
    ],
)
def test_a_file_whose_name_has_signs_of_citations_is_cited(
    ask: Ask, code: Path, path: str, cited: str, symbol: str
) -> None:
    (code / path).parent.mkdir(exist_ok=True)
    (code / path).write_text("def sign():\n    return 1\n")
    fact = ask.remember(text="Signing is slow.", cites=[path, f"{path}#sign"])
    assert (stored(ask, fact)["data"]["cites"], fact["warnings"]) == ([cited, symbol], [])
    other = ask.put(changes=[upsert("gotcha:other", summary="Slow.", data={"cites": [path]})])
    assert (stored(ask, other)["data"]["cites"], other["warnings"]) == ([cited], [])
    (code / path).write_text("def sign():\n    return 2\n")
    changed = {node["uri"] for node in ask.stale()["nodes"]}
    assert changed == {fact["nodes"][0]["uri"], other["nodes"][0]["uri"]}


@pytest.mark.slow
@pytest.mark.parametrize("text", ["c:9.py", "x#1.py", "odd dir/none.py", "odd dir/none.py#sign"])
def test_a_citation_of_a_missing_file_is_reported_in_any_spelling(ask: Ask, text: str) -> None:
    assert ask.remember(text="Signing is slow.", cites=[text])["warnings"] == [
        f"{text} is cited, but the code tree has no such file"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a book", "Knuth, The Art, 1.2", "https://example.org/a.html", "RFC 9110: 3.2"])
def test_a_citation_of_a_book_or_an_address_is_no_missing_file(ask: Ask, text: str) -> None:
    assert ask.remember(text="Signing is slow.", cites=[text])["warnings"] == []
