"""`blame`: the author of each line, from the versions in git, for callers who may read the node."""

from __future__ import annotations

import pytest

from kgd.errors import Forbidden, Invalid, NotFound
from kgd.model.access import Principal, Scope
from kgd.tools import SERVED
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until

URI = "concept://shop/prose"


def write(ask: Ask, content: str, **more: object) -> str:
    """Replace the content; returns the commit."""
    version = ask.get(uris=[URI])["nodes"]
    expected = {"expect_version": version[0]["version"]} if version else {}
    return str(ask.put(changes=[upsert("prose", content=content, **expected, **more)])["commit"])


def told(answer: dict[str, object]) -> list[tuple[int, int, str, str]]:
    return [(one["first"], one["last"], one["commit"], one["text"]) for one in answer["ranges"]]  # type: ignore[attr-defined]


def test_each_line_has_the_commit_that_wrote_it(ask: Ask) -> None:
    first = write(ask, "a\nb\nc\n")
    second = write(ask, "a\n\nB\nc\n")
    third = write(ask, "a\n\nB\nc\nd\n")
    answer = ask.blame(uri=URI)
    assert told(answer) == [(1, 1, first, "a"), (2, 3, second, "\nB"), (4, 4, first, "c"), (5, 5, third, "d")]
    assert (answer["lines"], answer["versions"]) == (5, 3)
    assert all(one["author"] == "Ann Person" for one in answer["ranges"])
    assert "cursor" not in answer


def test_lines_keep_their_commit_when_the_node_moves(ask: Ask) -> None:
    first = write(ask, "a\nb\n")
    ask.put(changes=[{"op": "move", "uri": URI, "to": "concept://shop/moved"}])
    ask.put(changes=[{"op": "append", "uri": "concept://shop/moved", "text": "c"}])
    answer = ask.blame(uri=URI)
    assert answer["uri"] == "concept://shop/moved"
    assert answer["ranges"][0]["commit"] == first
    assert answer["ranges"][0]["text"] == "a\nb"
    assert len({one["commit"] for one in answer["ranges"]}) == 2


def test_a_long_content_is_answered_in_pages(ask: Ask) -> None:
    text = "\n".join(f"line {number} of a longer text" for number in range(400))
    commit = write(ask, text)
    found, cursor = [], None
    while True:
        answer = ask.blame(uri=URI, budget=1_000, **({"cursor": cursor} if cursor else {}))
        found += told(answer)
        cursor = answer.get("cursor")
        if not cursor:
            break
    assert len(found) > 2
    assert "\n".join(text for _, _, _, text in found) == text
    assert [one[0] for one in found[1:]] == [one[1] + 1 for one in found[:-1]]
    assert {one[2] for one in found} == {commit}
    with pytest.raises(Invalid, match="cursor"):
        ask.blame(uri=URI, cursor="nonsense")


def test_a_node_without_content_has_no_lines_and_a_missing_node_is_refused(ask: Ask) -> None:
    ask.put(changes=[upsert("bare", name="Bare")])
    assert ask.blame(uri="concept://shop/bare")["ranges"] == []
    with pytest.raises(NotFound, match="nothing is stored"):
        ask.blame(uri="concept://shop/nobody")


def test_blame_of_an_unreadable_node_does_not_name_its_authors(ask: Ask, session: Session) -> None:
    write(ask, "secret words\n")
    ask.put(changes=[upsert("open/a", content="seen\n"), upsert("prose", tags=["x"])], message="about the zebra")
    scope = Scope.of("shop", ["read"], ("/open/**",))
    holder = Principal("tok00001", "billing-agent", "agent", (scope,))
    theirs = Session(session.daemon, client="claude", principal=holder)
    for uri in (URI, "concept://shop/nobody"):
        with pytest.raises(Forbidden):
            SERVED["blame"].call(theirs, {"uri": uri})
    (line,) = SERVED["blame"].call(theirs, {"uri": "concept://shop/open/a"})["ranges"]
    assert (line["text"], line["author"]) == ("seen", "Ann Person")
    assert "zebra" not in line["message"]


def test_lines_from_an_unreadable_former_address_are_not_attributed_to_the_mover(ask: Ask, session: Session) -> None:
    write(ask, "older than it looks\n")
    ask.put(changes=[{"op": "move", "uri": URI, "to": "concept://shop/open/moved"}])
    ask.put(changes=[{"op": "append", "uri": "concept://shop/open/moved", "text": "new"}])
    holder = Principal("tok00001", "billing-agent", "agent", (Scope.of("shop", ["read"], ("/open/**",)),))
    theirs = Session(session.daemon, client="claude", principal=holder)
    first, last = SERVED["blame"].call(theirs, {"uri": "concept://shop/open/moved"})["ranges"]
    assert (first["text"], first["earlier"]) == ("older than it looks", True)
    assert (last["text"].strip(), "earlier" in last) == ("new", False)


def test_a_file_renamed_with_git_keeps_the_commits_of_its_lines(ask: Ask, ws: Workspace) -> None:
    first = write(ask, "one\ntwo\n")
    until(lambda: ws.is_settled)
    folder = ws.layout.work_tree / "nodes/concept"
    text = (folder / "prose.yaml").read_text().replace("concept://shop/prose", "concept://shop/z")
    (folder / "prose.yaml").unlink()
    (folder / "z.yaml").write_text(text)
    git(ws.layout.work_tree, "add", "-A")
    git(ws.layout.work_tree, "commit", "-qm", "rename")
    ws.settle()
    until(lambda: ask.get(uris="z")["nodes"])
    assert told(ask.blame(uri="z")) == [(1, 2, first, "one\ntwo")]
    (renamed,) = (answer := ask.history(uri="z"))["commits"]
    earlier = f"history with uri={URI} lists the earlier commits."
    assert answer["next"] == f"It was {URI} before its file was renamed: {earlier}"
    assert [one["commit"] for one in ask.history(uri="concept://shop/prose")["commits"]] == [renamed["commit"], first]
    assert "next" not in ask.history(uri="z", author="Ann")


def test_a_new_node_beside_a_removed_one_is_not_called_renamed(ask: Ask) -> None:
    write(ask, "one\n")
    ask.put(changes=[{"op": "upsert", "uri": "b", "content": "two\n"}, {"op": "delete", "uri": "prose"}])
    assert "next" not in ask.history(uri="b")
    ask.put(changes=[{"op": "upsert", "uri": name, "content": "same\n"} for name in "cd"])
    ask.put(
        changes=[*({"op": "delete", "uri": one} for one in "cd"), {"op": "upsert", "uri": "e", "content": "same\n"}]
    )
    assert "next" not in ask.history(uri="e"), "either of two may have become it"
