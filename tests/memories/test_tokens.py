"""Reading a memory's file needs read access to its node, changing it needs write access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kgd.errors import Forbidden, KgdError
from kgd.model.access import Principal, Scope
from kgd.tools.session import Session
from tests.builders import commit_file
from tests.surfaces.conftest import Ask

As = Callable[..., Ask]
MINE, THEIRS = "decision://shop/infra/a", "decision://shop/secret/x"


@pytest.fixture
def holds(session: Session) -> As:
    def make(verbs: str, *paths: str) -> Ask:
        scope = Scope.of("shop", verbs.split(","), paths)
        principal = Principal("tok00001", "billing-agent", "agent", (scope,))
        return Ask(Session(session.daemon, client="claude", principal=principal))

    return make


@pytest.fixture
def filled(ask: Ask) -> Ask:
    ask.put(changes=[put(MINE, detail="apples\n"), put(THEIRS, detail="zebra\n")])
    return ask


def put(where: str, **fields: Any) -> dict[str, Any]:
    return {"op": "upsert", "uri": where, **fields}


def detail(ask: Ask, where: str) -> Any:
    (node,) = ask.get(uris=[where])["nodes"]
    return node.get("detail")


def test_a_detail_is_read_and_written_below_the_paths_of_a_token_alone(filled: Ask, holds: As) -> None:
    mine = holds("read,write", "/infra/**")
    assert detail(mine, MINE)["text"] == "apples"
    mine.put(changes=[put(MINE, detail="pears\n", expect_version=1), put("gotcha://shop/infra/b", detail="new\n")])
    assert detail(filled, MINE)["text"] == "pears"
    with pytest.raises(Forbidden):
        mine.put(changes=[put(THEIRS, detail="mine now\n", expect_version=1)])
    with pytest.raises(Forbidden):
        mine.get(uris=[THEIRS])
    assert [hit["uri"] for hit in mine.search(query="zebra")["hits"]] == []
    assert [hit["uri"] for hit in filled.search(query="zebra")["hits"]] == [THEIRS]


def test_naming_a_file_is_no_way_to_read_take_or_delete_it(filled: Ask, holds: As) -> None:
    mine, path = holds("read,write", "/infra/**"), detail(filled, THEIRS)["file"]
    said = set()
    for change in (
        [put("decision://shop/infra/thief", data={"file": path})],
        [put(MINE, data={"file": path})],
        [put("decision://shop/infra/thief", data={"file": "memories/not-there.md"})],
    ):
        with pytest.raises(KgdError) as refused:
            mine.put(changes=change)
        said.add(refused.value.message)
        assert detail(filled, THEIRS) == {"file": path, "text": "zebra"}
    assert said == {"data.file names the memory of another node"}
    assert detail(filled, MINE)["text"] == "apples"
    mine.put(changes=[put("decision://shop/infra/thief", data={"file": path}, detail="of my own\n")])
    assert detail(filled, THEIRS) == {"file": path, "text": "zebra"}


def test_a_proposal_brings_the_detail_along(filled: Ask, holds: As) -> None:
    theirs = holds("read,propose", "/infra/**")
    theirs.submit_subgraph(changes=[put("pattern://shop/infra/p", detail="retry\n")], workspace="shop")
    (waiting,) = filled.proposals()["proposals"]
    filled.accept(name=waiting["id"])
    assert detail(filled, "pattern://shop/infra/p")["text"] == "retry"


def test_a_node_that_names_the_memory_of_another_does_not_keep_its_owner_from_writing(
    filled: Ask, holds: As, session: Session
) -> None:
    ws = session.daemon.workspace("shop")
    mine, path = holds("read,write", "/infra/**"), detail(filled, MINE)["file"]
    commit_file(ws, "nodes/concept/secret/y.yaml", f"uri: concept://shop/secret/y\ndata:\n  file: {path}\n")
    mine.put(changes=[put(MINE, detail="plums\n", expect_version=1)])
    assert detail(filled, MINE)["text"] == "plums"
    with pytest.raises(Forbidden):
        holds("read,write", "/secret/**").put(changes=[put(MINE, detail="mine now\n", expect_version=2)])
