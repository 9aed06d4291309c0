"""Two fields that only a row of `NODE_FIELDS` describes, through every surface. `tests/test_extending.py` adds the rows
to a copy of the code and runs this file there."""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import kgd
from kgd.cli import printing
from kgd.codec import documents
from kgd.config import Home
from kgd.errors import Invalid, KgdError
from kgd.mentions.candidates import merged
from kgd.model.change import Upsert
from kgd.model.merge import merge
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.tools.proposals.own_nodes import difference
from kgd.ui.pages.node_form import changes, texts_of
from kgd.workspace.workspace import Workspace
from tests.builders import change
from tests.cli.conftest import Kgd
from tests.conftest import ROOT
from tests.daemon.conftest import end_daemon
from tests.surfaces.conftest import Ask, upsert
from tests.surfaces.test_conflicts import disagree

A = "concept://shop/a"
BYTES = b"""uri: concept://shop/a
data:
  x: 1
owner: Ann Person
audience:
- dev
- ops
"""


def put(ask: Ask, **fields: Any) -> None:
    ask.put(changes=upsert("a", **fields), conflicts="show")


def having(node: Node, **fields: Any) -> Node:
    return replace(node, **fields)


def node(ws: Workspace) -> Node:
    found = ws.node(Uri(A))
    assert found is not None
    return found


def shown(ask: Ask) -> dict[str, Any]:
    found: dict[str, Any] = ask.get(uris=A)["nodes"][0]
    return found


@pytest.fixture
def filled(ask: Ask, ws: Workspace) -> Workspace:
    put(ask, owner="Ann Person", audience=["ops", "dev"], data={"x": 1})
    return ws


def test_its_file_has_the_fields_and_is_read_back(filled: Workspace) -> None:
    assert documents.encode(node(filled)) == BYTES
    assert documents.decode(BYTES) == node(filled)


def test_a_file_with_another_shape_is_refused_at_its_line(ws: Workspace) -> None:
    for wrong, line in (("owner: [Ann]\n", 2), (f"owner: {'x' * 300}\n", 1), ('name: n\naudience:\n- " dev"\n', 3)):
        with pytest.raises(KgdError) as caught:
            documents.decode(f"uri: {A}\n{wrong}".encode(), at="a.yaml")
        assert caught.value.at in (f"a.yaml:{line}", "a.yaml:1")


def test_put_sets_adds_and_unsets(ask: Ask, filled: Workspace) -> None:
    put(ask, owner="Bob", audience=["qa"])
    assert (shown(ask)["owner"], shown(ask)["audience"]) == ("Bob", ["dev", "ops", "qa"])
    put(ask, unset=["owner", "audience"])
    assert not {"owner", "audience"} & shown(ask).keys()
    with pytest.raises(Invalid):
        put(ask, ownr="Bob")


def test_update_node_replaces_the_set(ask: Ask, filled: Workspace) -> None:
    ask.update_node(uri=A, owner="Bob", audience=["qa"])
    assert (shown(ask)["owner"], shown(ask)["audience"]) == ("Bob", ["qa"])


def test_the_sides_of_a_merge_meet_in_it(filled: Workspace) -> None:
    base = node(filled)
    ours = having(base, audience=("dev", "qa"), name="A")
    both = merge(base, ours, having(base, owner="Bob", audience=("all", "dev", "ops"))).node
    assert both == having(base, name="A", owner="Bob", audience=("all", "dev", "qa"))
    clash = merge(base, having(base, owner="Bob"), having(base, owner="Cid")).conflict
    assert clash is not None
    assert clash.fields.keys() == {"owner"}


def test_a_merge_of_duplicates_keeps_it(filled: Workspace) -> None:
    other = node(filled)
    keep = Node(Uri("concept://shop/kept"), "concept", name="A")
    filled.submit(change(Upsert(keep.uri, name="A")))
    filled.submit(change(*merged(keep, [other], (1, 1))))
    kept = filled.node(keep.uri)
    assert kept is not None
    assert kept == having(kept, owner="Ann Person", audience=("dev", "ops"), data={"x": 1})


def test_a_conflict_about_it_is_shown_and_settled(ask: Ask, filled: Workspace) -> None:
    disagree(ask, "a", "owner")
    (conflict,) = ask.conflicts()["conflicts"]
    assert {side["value"] for side in conflict["fields"]["owner"]["sides"]} == {"one", "three"}
    ask.resolve_conflicts(resolutions=[{"id": conflict["id"], "fields": {"owner": "three"}}])
    assert (ask.conflicts()["total"], shown(ask)["owner"]) == (0, "three")


@pytest.mark.parametrize("word", ["Person", "ops"])
def test_search_finds_the_node_by_it(ask: Ask, filled: Workspace, word: str) -> None:
    assert A in [hit["uri"] for hit in ask.search(query=word)["hits"]]


def test_a_node_with_nothing_else_is_not_bare(ask: Ask, ws: Workspace) -> None:
    put(ask, owner="Zacharias")
    assert [hit["uri"] for hit in ask.search(query="Zacharias")["hits"]] == [A]


def test_a_diff_and_the_history_name_it(ask: Ask, filled: Workspace) -> None:
    put(ask, owner="Bob")
    (commit,) = ask.history(uri=A, limit=1, diff=True)["commits"]
    assert commit["diff"][0]["fields"] == {"owner": {"before": "Ann Person", "after": "Bob"}}


def test_a_secret_in_it_is_refused(ask: Ask, ws: Workspace) -> None:
    with pytest.raises(KgdError, match="owner"):
        put(ask, owner="ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5")


def test_a_copy_and_an_export_carry_it(ask: Ask, filled: Workspace, tmp_path: Path) -> None:
    now = node(filled)
    made = difference(having(now, owner="", audience=("old",)), now, {now.uri: now.uri}, "", new=())
    assert (made[0]["owner"], made[0]["audience"], made[0]["unset"]) == ("Ann Person", ("dev", "ops"), ("audience",))
    ask.export(target=str(tmp_path / "out"), format="vault")
    ask.put(changes={"op": "delete", "uri": A})
    ask.__getattr__("import")(source=str(tmp_path / "out"))
    assert (shown(ask)["owner"], shown(ask)["audience"]) == ("Ann Person", ["dev", "ops"])


def test_the_form_of_a_page_edits_it(ask: Ask, filled: Workspace) -> None:
    base = texts_of(shown(ask))
    ask.put(changes=changes(base, {**base, "owner": "Bob", "audience": "qa"}, {"uri": A, "expect_version": 1}))
    assert (shown(ask)["owner"], shown(ask)["audience"]) == ("Bob", ["qa"])


def test_fsck_finds_nothing(ask: Ask, filled: Workspace) -> None:
    assert ask.fsck()["ok"]


def test_an_edit_of_the_model_takes_it(ws: Workspace) -> None:
    edit: Any = Upsert
    ws.submit(change(edit(Uri(A), owner="Ann", audience=("b", "a"))))
    assert documents.encode(node(ws)) == f"uri: {A}\nowner: Ann\naudience:\n- a\n- b\n".encode()


def test_get_prints_it(ask: Ask, filled: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    printing.get(ask.get(uris=A))
    assert "  owner: Ann Person\n  audience: dev, ops\n" in capsys.readouterr().out


# The program, the Python library and the pages, with a daemon of their own


@pytest.fixture
def program(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kgd]:
    monkeypatch.setenv("KGD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = Kgd(code, Home.find())
    made("up", "--quiet")
    yield made
    end_daemon(made.home)


def test_the_command_line_writes_prints_and_edits_it(program: Kgd, tmp_path: Path) -> None:
    program("put", "a", "--owner", "Ann Person", "--audience", "ops", "--audience", "dev")
    assert "  owner: Ann Person\n  audience: dev, ops\n" in program("get", "a")
    assert "--owner" in program("put", "--help")
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import sys, pathlib\nfile = pathlib.Path(sys.argv[1])\n"
        "file.write_text(file.read_text().replace('Ann', 'Bob').replace('- dev', '- qa'))\n"
    )
    assert program.run("edit", "a", EDITOR=f"{sys.executable} {editor}").returncode == 0
    assert "  owner: Bob Person\n  audience: ops, qa\n" in program("get", "a")


def test_the_python_library_has_it(program: Kgd) -> None:
    with kgd.open(program.directory) as ws:
        made: Any = ws.create_node("concept", "a", owner="Ann", audience=["b", "a"])
        assert (made.owner, made.audience) == ("Ann", ("a", "b"))
        made = ws.update_node(made, owner="Bob", audience=["c"])
        assert (made.owner, made.audience) == ("Bob", ("c",))


def test_its_page_and_form_show_it(program: Kgd) -> None:
    program("put", "a", "--owner", "Ann Person", "--audience", "ops")
    place, _, link = program.json("ui")["url"].partition("/ui/")
    web = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    web.open(f"{place}/ui/in", urlencode({"code": link.rpartition("/")[2]}).encode()).close()
    page, form = (web.open(f"{place}/ui/w/shop/{name}?uri={A}").read().decode() for name in ("node", "node/edit"))
    assert "<dt>Owner</dt><dd>Ann Person</dd>" in page
    assert "<dt>Audience</dt><dd>ops</dd>" in page
    assert re.search(r'name="owner"[^>]*>\s*Ann Person</textarea>', form)
