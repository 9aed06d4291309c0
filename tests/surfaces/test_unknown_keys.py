"""Unknown keys of a node's file through the tools: shown apart, copied, submitted, accepted, exported, edited."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgd.cli.editing import changes_between
from kgd.codec import documents
from kgd.errors import Invalid
from kgd.model.access import Principal, Scope
from kgd.model.node import Node, Relation, Source
from kgd.model.uri import Uri
from kgd.tools.proposals.own_nodes import difference, whole
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.builders import commit_file
from tests.surfaces.conftest import Ask, git, upsert

A = "concept://shop/infra/a"
PATH = "nodes/concept/infra/a.yaml"
OTHERS = {"license": "MIT", "trust": "local", "version": 7}
NODE = Node(
    Uri(A),
    name="A",
    source=Source("url", "x", {"fetched": "2026-01-01"}),
    relations=(Relation("uses", Uri("concept://shop/infra/b"), 0.5, others={"since": 2020}),),
    others=OTHERS,
)
TEXT = documents.encode(NODE).decode()


@pytest.fixture
def file(ask: Ask, ws: Workspace) -> Workspace:
    ask.put(changes=upsert("infra/b", name="B"))
    commit_file(ws, PATH, TEXT)
    return ws


@pytest.fixture
def proposer(session: Session) -> Ask:
    scope = Scope.of("shop", ["read", "propose"], ["/infra/**"])
    principal = Principal("tok00001", "billing-agent", "agent", (scope,))
    return Ask(Session(session.daemon, client="claude", principal=principal))


def shown(ask: Ask, uri: str = A) -> dict[str, Any]:
    node: dict[str, Any] = ask.get(uris=uri)["nodes"][0]
    return node


def bytes_at(ws: Workspace, path: str = PATH) -> str:
    blob = ws.store.entry(ws.store.tree_of(bytes.fromhex(ws.tip)), path)
    assert blob
    return ws.store.read(blob).decode()


def test_an_answer_has_them_apart_from_the_fields_that_kgd_vouches_for(ask: Ask, file: Workspace) -> None:
    node = shown(ask)
    assert node["others"] == OTHERS
    assert (node["version"], node["origin"]["trust"]) == (1, "local")
    assert node["source"] == {"type": "url", "id": "x", "others": {"fetched": "2026-01-01"}}
    assert node["relations"][0]["others"] == {"since": 2020}
    assert "others" not in shown(ask, "infra/b")


def test_a_change_names_them_in_others_and_any_other_parameter_is_refused(ask: Ask, file: Workspace) -> None:
    with pytest.raises(Invalid):
        ask.put(changes=upsert("infra/a", license="BSD"))
    with pytest.raises(Invalid, match="reserved"):
        ask.put(changes=upsert("infra/a", others={"kgd_trusted": True}))
    answer = ask.put(changes=upsert("infra/a", others={"license": "BSD", "version": None, "sumary": "x"}))
    assert answer["warnings"] == [f"{A}: the key 'sumary' has no meaning; did you mean 'summary'?"]
    assert shown(ask)["others"] == {"license": "BSD", "sumary": "x", "trust": "local"}
    assert ask.status()["misspelt_keys"] == [f"{PATH}: the key 'sumary' has no meaning; did you mean 'summary'?"]


def test_a_proposal_shows_them_and_its_acceptance_keeps_them(ask: Ask, file: Workspace, proposer: Ask) -> None:
    changes = [upsert("infra/a", summary="s"), upsert("infra/c", name="C", others={"license": "GPL"})]
    done = proposer.submit_subgraph(changes=changes)
    (one,) = ask.proposals(name=done["proposal"])["proposals"]
    (made,) = [each for each in one["diff"] if each["uri"] == "concept://shop/infra/c"]
    assert made["fields"]["license"] == {"before": None, "after": "GPL"}
    ask.accept(name=done["proposal"])
    assert shown(ask)["others"] == OTHERS
    assert shown(ask, "infra/c")["others"] == {"license": "GPL"}
    with pytest.raises(Invalid, match="reserved"):
        proposer.submit_subgraph(changes=upsert("infra/d", others={"kgd_trusted": True}))


def test_a_submission_of_own_nodes_carries_them_and_later_their_changes(
    ask: Ask, file: Workspace, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    ask.remote(action="add", name="origin", url=str(bare), sync=0)
    ask.sync()
    ask.put(changes=upsert("infra/b", others={"license": "MPL"}))
    done = ask.submit_subgraph(remote="origin", roots=["infra/b"], max_cost=0)
    assert done["outcome"] == "proposed"
    (offered,) = [one for one in git(bare, "for-each-ref", "--format=%(refname)").split() if "proposals/" in one]
    assert "license: MPL\n" in git(bare, "show", f"{offered}:nodes/concept/infra/b.yaml")


def test_a_copy_gets_them_whole_at_first_and_then_what_changed(ask: Ask, file: Workspace) -> None:
    own, copy = file.node(Uri(A)), Uri("concept://shop/copy/a")
    assert own
    homes = {own.uri: copy}
    ask.put(changes=[whole(own, homes, None)])
    made = file.node(copy)
    assert made
    assert (made.others, made.source, made.relations) == (own.others, own.source, own.relations)
    ask.put(
        changes=upsert(
            "infra/a",
            others={"license": None, "more": 1},
            relations=[{"type": "uses", "target": "infra/b", "weight": 0.5, "others": {"since": 2021}}],
        )
    )
    now = file.node(own.uri)
    assert now
    ask.put(changes=difference(own, now, homes, {"uri": A, "commit": file.tip}, new=()))
    made = file.node(copy)
    assert made
    assert made.others == {"more": 1, "trust": "local", "version": 7}
    assert made.relations[0].others == {"since": 2021}


def test_an_exported_note_brings_them_back(ask: Ask, file: Workspace, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ask.export(target=str(out), format="vault")
    tip = file.tip
    ask.__getattr__("import")(source=str(out))
    assert file.tip == tip
    ask.put(changes={"op": "delete", "uri": A})
    ask.__getattr__("import")(source=str(out))
    found = documents.decode(bytes_at(file).encode())
    assert (found.others, found.source, found.relations) == (NODE.others, NODE.source, NODE.relations)


@pytest.mark.parametrize("others", ['{"uri": "concept://shop/x"}', '{"kgd_trusted": true}', "[1]"])
def test_a_note_with_forged_keys_is_not_imported(ask: Ask, file: Workspace, tmp_path: Path, others: str) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "n.md").write_text(f"---\nkgd:\n  uri: concept://shop/n\n  others: {others}\n---\ntext\n")
    answer = ask.__getattr__("import")(source=str(notes), format="vault")
    assert len(answer["troubles"]) == 1
    assert ask.get(uris="n")["missing"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace("license: MIT", "license: BSD"),
        lambda text: text.replace("license: MIT\n", ""),
        lambda text: text.replace("  since: 2020\n", "  since: 2021\n  until: 2030\n"),
        lambda text: text.replace('  fetched: "2026-01-01"\n', ""),
        lambda text: text.replace("  id: x\n", "  id: y\n"),
        lambda text: text.replace("name: A", "name: B").replace("weight: 0.5", "weight: 0.75"),
    ],
)
def test_an_edit_in_an_editor_changes_exactly_what_it_changes(
    ask: Ask, file: Workspace, edit: Callable[[str], str]
) -> None:
    after = documents.decode(edit(TEXT).encode())
    assert changes_between(NODE, NODE, 1) == []
    changes = changes_between(NODE, after, 1)
    ask.put(changes=changes)
    assert documents.decode(bytes_at(file).encode()) == after


def test_a_rewritten_node_of_the_unified_graph_keeps_them(ask: Ask, file: Workspace) -> None:
    ask.update_node(uri=A, name="B", source={"type": "url", "id": "x"})
    ask.create_edges(edges=[{"source": A, "target": "concept://shop/infra/b", "type": "uses", "weight": 0.25}])
    after = documents.decode(bytes_at(file).encode())
    assert (after.others, after.source) == (NODE.others, NODE.source)
    assert (after.relations[0].weight, after.relations[0].others) == (0.25, {"since": 2020})


def test_a_node_with_large_unknown_keys_can_be_read(ask: Ask, file: Workspace) -> None:
    ask.put(changes=upsert("infra/a", others={f"k{n}": "x" * 1000 for n in range(200)}, content="text\n"))
    node = ask.get(uris=A, budget=1_000)["nodes"][0]
    assert node["uri"] == A
