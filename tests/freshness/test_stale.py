"""A node that cites code is stale after that code changes, until it is verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Forbidden, Invalid, NotFound
from kgd.freshness.citations import notes_of
from kgd.freshness.freshness import Freshness
from kgd.model.access import Principal, Scope
from kgd.model.merge import merge
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.freshness.conftest import SESSION, becomes_stale, commit, stale
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until

FACT = "gotcha://shop/tokens"
Mark = Callable[[str], Any]


def cite(ask: Ask, *cites: str, uri: str = FACT, **fields: Any) -> Any:
    return ask.put(
        changes=upsert(uri, **{"summary": "tokens are returned unsigned", "data": {"cites": list(cites)}, **fields})
    )


def test_a_fact_is_stale_from_the_commit_that_changed_its_code(ask: Ask, code: Path, mark: Mark) -> None:
    cite(ask, SESSION)
    assert mark(FACT) is None
    assert ask.stale()["total"] == 0
    changed = commit(code, SESSION, "def sign(token):\n    return hmac(token)\n")
    commit(code, SESSION, "def sign(token):\n    return hmac(token, KEY)\n", "once more")
    found = becomes_stale(ask, FACT)
    assert found["unverified"]["commit"] == changed
    assert SESSION in found["unverified"]["reason"]
    assert mark(FACT) == found["unverified"]
    assert ask.status()["counts"]["unverified"] == 1


def test_a_stale_node_is_marked_in_every_answer_and_ranks_lower(ask: Ask, code: Path) -> None:
    cite(ask, "README.md", uri="a/tokens", relations=[{"type": "about", "target": "b/tokens", "weight": 0.5}])
    cite(ask, SESSION, uri="b/tokens")
    assert [hit["uri"] for hit in ask.search(query="tokens unsigned")["hits"]] == [
        "concept://shop/a/tokens",
        "concept://shop/b/tokens",
    ]
    commit(code, "README.md", "# Another shop\n")
    becomes_stale(ask, "concept://shop/a/tokens")
    hits = ask.search(query="tokens unsigned")["hits"]
    assert [hit["uri"] for hit in hits] == ["concept://shop/b/tokens", "concept://shop/a/tokens"]
    assert [("unverified" in hit) for hit in hits] == [False, True]
    assert hits[0]["score"] > hits[1]["score"]
    walked = {node["uri"]: node for node in ask.traverse(start="a/tokens")["nodes"]}
    assert "unverified" in walked["concept://shop/a/tokens"]
    assert "unverified" not in walked["concept://shop/b/tokens"]


def test_pages_of_hits_have_no_gap_where_some_of_them_are_unverified(ask: Ask, code: Path) -> None:
    names = [f"n{number:02}" for number in range(12)]
    ask.put(
        changes=[
            upsert(name, summary="the same words", data={"cites": [SESSION]} if number % 3 else {})
            for number, name in enumerate(names)
        ]
    )
    commit(code, SESSION, "changed = True\n")
    until(lambda: ask.stale()["total"] == 8)
    seen, cursor = [], None
    while True:
        answer = ask.search(query="same words", limit=5, **({"cursor": cursor} if cursor else {}))
        seen += [hit["name"] for hit in answer["hits"]]
        cursor = answer.get("cursor")
        if not cursor:
            break
    assert sorted(seen) == names
    assert seen[:4] == ["n00", "n03", "n06", "n09"]


def test_verifying_is_one_call_and_does_not_change_the_fact(ask: Ask, code: Path, mark: Mark) -> None:
    cite(ask, SESSION)
    commit(code, SESSION, "def sign(token):\n    return token  # as ever\n")
    becomes_stale(ask, FACT)
    before = ask.get(uris=FACT)["nodes"][0]
    answer = ask.put(changes={"op": "verify", "uri": FACT})
    assert answer["nodes"] == [{"uri": FACT, "version": before["version"] + 1}]
    assert mark(FACT) is None
    assert stale(ask) == []
    after = ask.get(uris=FACT)["nodes"][0]
    assert {k: after[k] for k in ("summary", "name", "type")} == {k: before[k] for k in ("summary", "name", "type")}
    assert ask.put(changes={"op": "verify", "uri": FACT})["commit"] is None


def test_stale_verifies_the_given_nodes_and_lists_the_rest(ask: Ask, code: Path) -> None:
    for number in range(3):
        cite(ask, SESSION, uri=f"n{number}")
    commit(code, SESSION, "changed = True\n")
    until(lambda: ask.stale()["total"] == 3)
    assert ask.stale(verify=["n0", "n1"], dry_run=True)["total"] == 3
    answer = ask.stale(verify=["n0", "n1"])
    assert stale(ask) == [node["uri"] for node in answer["nodes"]] == ["concept://shop/n2"]
    assert ask.history(limit=1)["commits"][0]["nodes"] == ["concept://shop/n0", "concept://shop/n1"]
    assert ask.history(limit=1)["commits"][0]["message"] == "verify concept://shop/n0 and 1 more"
    first = ask.stale(limit=1)
    assert "cursor" not in first


def test_verifying_a_missing_node_suggests_similar_names(ask: Ask) -> None:
    ask.put(changes={"op": "upsert", "uri": "gotcha:keys-rotate", "summary": "s", "data": {"cites": [SESSION]}})
    with pytest.raises(NotFound) as refused:
        ask.stale(verify="keys-rotate")
    assert refused.value.next == "Did you mean gotcha://shop/keys-rotate?"


def test_a_citation_of_an_unknown_commit_gives_a_warning(ask: Ask, code: Path) -> None:
    unknown, known = f"{SESSION}@1234567", f"{SESSION}@{git(code, 'rev-parse', 'HEAD')[:12]}"
    answer = ask.put(changes=upsert(FACT, data={"cites": [unknown, known]}))
    assert answer["warnings"] == [f"{unknown} has an unknown commit or blob, so changes cannot be detected"]
    assert ask.put(changes=upsert(FACT, tags=["auth"]))["warnings"] == []


def test_an_uncommitted_change_is_reported_and_later_names_its_commit(ask: Ask, code: Path) -> None:
    cite(ask, SESSION)
    (code / SESSION).write_text("changed = True\n")
    found = becomes_stale(ask, FACT)
    assert "commit" not in found["unverified"]
    assert "not committed yet" in found["unverified"]["reason"]
    made = commit(code, SESSION, "changed = True\n")
    assert ask.stale()["nodes"][0]["unverified"]["commit"] == made


def test_a_symbol_is_unverified_only_when_its_own_text_changes(ask: Ask, code: Path) -> None:
    cite(ask, f"{SESSION}#sign")
    cite(ask, SESSION, uri="whole")
    commit(code, SESSION, "import hmac\n\n\ndef sign(token):\n    return token\n\n\ndef other():\n    pass\n")
    becomes_stale(ask, "concept://shop/whole")
    assert stale(ask) == ["concept://shop/whole"]
    changed = commit(code, SESSION, "import hmac\n\n\ndef sign(token):\n    return hmac.new(token)\n")
    assert becomes_stale(ask, FACT)["unverified"]["commit"] == changed
    commit(code, SESSION, "import hmac\n")
    until(lambda: "sign in src/auth/session.py is gone" in str(ask.stale()["nodes"]))


def test_a_file_that_is_gone_is_named_and_cannot_be_verified(ask: Ask, code: Path) -> None:
    cite(ask, SESSION, "README.md")
    git(code, "rm", "-q", SESSION)
    git(code, "commit", "-q", "-m", "gone")
    assert becomes_stale(ask, FACT)["unverified"]["reason"].startswith(f"{SESSION} is gone")
    with pytest.raises(Invalid, match="is not in the code tree"):
        ask.put(changes={"op": "verify", "uri": FACT})
    ask.put(changes=upsert(FACT, data={"cites": ["README.md"]}))
    assert stale(ask) == []


def test_a_symbol_that_never_was_found_is_not_called_gone(ask: Ask, code: Path) -> None:
    cite(ask, f"{SESSION}#nosuch")
    changed = commit(code, SESSION, "def sign(token):\n    return hmac(token)\n")
    reason = f"nosuch in {SESSION} is not found, and the file changed in {changed[:10]}"
    until(lambda: reason in str(ask.stale()["nodes"]), say=lambda: ask.stale())


@pytest.mark.parametrize("folder", ["src/auth/", "src/auth", "file://shop/src/auth/", "dir://shop/src/auth"])
def test_a_cited_folder_is_stale_only_when_it_is_gone(ask: Ask, code: Path, mark: Mark, folder: str) -> None:
    assert cite(ask, folder)["warnings"] == []
    cite(ask, SESSION, uri="file")
    commit(code, SESSION, "changed = True\n")
    becomes_stale(ask, "concept://shop/file")
    assert stale(ask) == ["concept://shop/file"]
    git(code, "rm", "-q", "-r", "src/auth")
    until(lambda: mark(FACT))  # the watch saw that the files are gone
    assert mark(FACT)["reason"] == "src/auth is gone"


def test_another_branch_writes_nothing_and_what_held_on_both_stays_verified(ask: Ask, code: Path, mark: Mark) -> None:
    cite(ask, SESSION)
    git(code, "checkout", "-q", "-b", "feature")
    commit(code, SESSION, "on_a_branch = True\n")
    becomes_stale(ask, FACT)
    ask.put(changes={"op": "verify", "uri": FACT})
    commits = ask.history()["commits"]
    for branch in ("main", "feature", "main"):
        git(code, "checkout", "-q", branch)
        ask.ingest()
        assert stale(ask) == []
    assert ask.history()["commits"] == commits


def test_rewriting_the_content_verifies_the_current_code(ask: Ask, code: Path, mark: Mark) -> None:
    cite(ask, SESSION, content="It returns the token.\n")
    commit(code, SESSION, "def sign(token):\n    return 2\n")
    becomes_stale(ask, FACT)
    ask.put(changes=[upsert(FACT, tags=["auth"]), {"op": "append", "uri": FACT, "text": "See the docs."}])
    assert mark(FACT)
    version = ask.get(uris=FACT)["nodes"][0]["version"]
    ask.put(changes=upsert(FACT, content="It returns 2.\n", expect_version=version))
    assert mark(FACT) is None
    commit(code, SESSION, "def sign(token):\n    return token\n", "as it was before")
    becomes_stale(ask, FACT)  # the restored text was not verified against this code


@pytest.mark.parametrize("form", ["{path}@{commit}", "{path}@{commit}#sign", "{path}#sign@{commit}"])
def test_a_citation_may_say_as_of_which_commit_it_is(ask: Ask, code: Path, form: str) -> None:
    old = git(code, "rev-parse", "HEAD").strip()
    changed = commit(code, SESSION, "def sign(token):\n    return 2\n")
    cite(ask, form.format(path=SESSION, commit=old[:10]))
    assert becomes_stale(ask, FACT)["unverified"]["commit"] == changed
    ask.put(changes={"op": "verify", "uri": FACT})
    assert stale(ask) == []
    cite(ask, form.format(path=SESSION, commit=changed), uri="newer")
    assert stale(ask) == []


@pytest.mark.slow
def test_a_relation_to_a_file_counts_where_it_says_as_of_when(ask: Ask, code: Path) -> None:
    head = git(code, "rev-parse", "HEAD").strip()
    target = {"type": "about", "target": f"file://shop/{SESSION}", "weight": 0.5}
    ask.put(
        changes=[
            upsert("with", relations=[{**target, "data": {"commit": head}}]),
            upsert("without", relations=[target]),
        ]
    )
    commit(code, SESSION, "changed = True\n")
    becomes_stale(ask, "concept://shop/with")
    assert stale(ask) == ["concept://shop/with"]
    ask.put(changes=[{"op": "verify", "uri": "with"}, {"op": "verify", "uri": "without"}])
    assert stale(ask) == []
    commit(code, SESSION, "changed = 2\n")
    until(lambda: stale(ask) == ["concept://shop/with", "concept://shop/without"])


@pytest.mark.slow
def test_a_node_written_by_hand_is_held_against_the_code_of_that_time(ask: Ask, ws: Workspace, code: Path) -> None:
    file = ws.layout.work_tree / "nodes/concept/by-hand.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"uri: concept://shop/by-hand\nsummary: s\ndata:\n  cites:\n  - {SESSION}\n")
    until(lambda: ask.get(uris="concept://shop/by-hand")["nodes"])
    assert stale(ask) == []
    commit(code, SESSION, "changed = True\n")
    becomes_stale(ask, "concept://shop/by-hand")


@pytest.mark.slow
def test_a_folder_cited_by_hand_is_sound_while_it_exists(ask: Ask, ws: Workspace, code: Path) -> None:
    file = ws.layout.work_tree / "nodes/concept/by-hand.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("uri: concept://shop/by-hand\nsummary: s\ndata:\n  cites:\n  - file://shop/src/auth/\n")
    until(lambda: ask.get(uris="concept://shop/by-hand")["nodes"])
    assert stale(ask) == []
    (cited,) = ask.get(uris="concept://shop/by-hand", include="citations")["nodes"][0]["citations"]
    assert (cited["state"], cited["file"]) == ("verified", "dir://shop/src/auth")
    git(code, "rm", "-q", "-r", "src/auth")
    assert becomes_stale(ask, "concept://shop/by-hand")["unverified"]["reason"] == "src/auth is gone"


@pytest.mark.slow
def test_citations_outside_the_tree_are_ignored(ask: Ask, code: Path) -> None:
    outside = ("Smith 2020, p. 3", "https://example.org/x.py", "/etc/passwd", "../up.py")
    answer = cite(ask, *outside, "src/none.py", "src/a.py:2-5")
    assert [w for w in answer["warnings"] if "cited" in w] == [
        "src/none.py is cited, but the code tree has no such file",
        "src/a.py:2-5 is cited, but the code tree has no such file; cite a file or PATH#SYMBOL, without line numbers",
    ]
    ask.put(changes=upsert(FACT, data={"cites": list(outside)}))
    ask.put(changes=upsert("odd", data={"cites": ["x" * 500], "verified": ["no", 3]}))
    ask.put(changes=upsert("one", data={"cites": SESSION}))
    assert stale(ask) == []
    for uri in (FACT, "odd"):
        with pytest.raises(Invalid, match="does not cite any code"):
            ask.put(changes={"op": "verify", "uri": uri})
    with pytest.raises(NotFound):
        ask.put(changes={"op": "verify", "uri": "nobody"})
    commit(code, SESSION, "changed = True\n")
    becomes_stale(ask, "concept://shop/one")
    assert stale(ask) == ["concept://shop/one"]


def test_a_citation_of_a_file_that_is_not_read_warns_that_changes_are_not_detected(ask: Ask, code: Path) -> None:
    inner = code / "vendor/lib"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    (inner / "a.py").write_text("a = 1\n")
    (warning,) = cite(ask, "vendor/lib/a.py")["warnings"]
    assert warning.startswith("vendor/lib/a.py is cited, but kgd detects no changes of files")
    (inner / "a.py").write_text("a = 2\n")
    assert stale(ask) == []


def test_it_is_known_again_after_a_restart_without_reading_every_node(ask: Ask, ws: Workspace, code: Path) -> None:
    cite(ask, SESSION)
    head = git(code, "rev-parse", "HEAD").strip()
    relation = {"type": "about", "target": f"file://shop/{SESSION}", "data": {"commit": head}}
    ask.put(changes=upsert("about", relations=[relation]))
    ask.put(changes=[upsert(f"other{number}", summary="x") for number in range(20)])
    ask.session.daemon.forget(ws)
    ask.session.here = None
    commit(code, SESSION, "changed = True\n")
    assert sorted(stale(ask)) == ["concept://shop/about", FACT]
    again = Freshness.of(ask.session.daemon.workspace("shop"))
    assert len(again._citing) == 2


def test_a_code_tree_that_is_away_makes_nothing_unverified(ask: Ask, ws: Workspace, code: Path) -> None:
    cite(ask, SESSION)
    away = code.parent / "away"
    code.rename(away)  # in one step, since the watcher may look at any moment
    code.mkdir()
    Freshness.of(ws).files_changed([SESSION])
    assert Freshness.of(ws).settle()
    until(lambda: Freshness.of(ws).doubted == frozenset())  # a look during the rename may find the file missing
    (away / ".git").rename(code / ".git")


def test_two_people_who_cite_and_verify_on_two_branches_do_not_conflict() -> None:
    def node(cites: list[str], *notes: str) -> Node:
        return Node(Uri(FACT), data={"cites": cites, "verified": dict.fromkeys(notes, True)})

    base = node(["a.py"], "a.py@000000000001")
    ann = node(["a.py", "b.py"], "a.py@000000000001", "a.py@000000000002", "b.py@000000000005")
    bob = node(["a.py", "c.py"], "a.py@000000000001", "a.py@000000000003")
    merged = merge(base, ann, bob)
    assert merged.conflict is None
    assert merged.node is not None
    assert notes_of(merged.node)["a.py"] == {"000000000001", "000000000002", "000000000003"}
    assert merged.node.data["cites"] in (["a.py", "b.py", "c.py"], ["a.py", "c.py", "b.py"])


def test_ignored_and_linked_files_are_not_recorded(ask: Ask, code: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/secret.txt").write_text("1234\n")
    (code / "link").symlink_to(tmp_path / "elsewhere")
    (code / ".gitignore").write_text(".env\n")
    until(lambda: ask.get(uris="./.gitignore")["nodes"])  # a look that began before it would list the next file
    (code / ".env").write_text("PIN=1234\n")
    cite(ask, ".env", "link/secret.txt", "./src/new.py", uri="n")
    (code / "src/new.py").write_text("just_made = True\n")
    cite(ask, ".env", "link/secret.txt", "./src/new.py", uri="n", summary="again")
    assert [key.partition("@")[0] for key in ask.get(uris="n")["nodes"][0]["data"]["verified"]] == ["./src/new.py"]


def test_a_token_neither_records_the_code_nor_sees_its_changes(ask: Ask, code: Path) -> None:
    scope = Scope.of("shop", ["read", "write"], ["/infra/**"])
    holder = Ask(Session(ask.session.daemon, principal=Principal("tok1", "agent", "agent", (scope,))))
    head = git(code, "rev-parse", "HEAD").strip()
    uri = "concept://shop/infra/spy"
    holder.put(changes=upsert(uri, summary="tokens", data={"cites": [SESSION, f"README.md@{head}"]}))
    assert "verified" not in holder.get(uris=uri)["nodes"][0]["data"]
    with pytest.raises(Forbidden):
        holder.put(changes={"op": "verify", "uri": uri})
    commit(code, "README.md", "# Another\n")
    becomes_stale(ask, uri)
    assert "unverified" not in holder.get(uris=uri)["nodes"][0]
    assert "unverified" not in holder.search(query="tokens")["hits"][0]
    assert "unverified" not in holder.traverse(start=uri)["nodes"][0]
    assert "unverified" not in holder.status()["counts"]


SIGN = f"symbol://shop/{SESSION}/sign"


@pytest.mark.parametrize(
    "change",
    [
        upsert(FACT, summary="tokens are unsigned", relations=[{"type": "about", "target": SIGN}]),
        {"op": "relate", "source": "note", "target": SIGN, "type": "about"},
    ],
    ids=["upsert", "relate"],
)
def test_a_fact_about_a_symbol_goes_stale_with_it(ask: Ask, code: Path, change: dict[str, Any]) -> None:
    ask.put(changes=[upsert("note", summary="tokens are unsigned"), change])
    assert ask.stale()["total"] == 0
    commit(code, SESSION, "def sign(token):\n    return token\n\n\ndef other():\n    pass\n", "beside it")
    commit(code, SESSION, "def sign(token):\n    return hmac(token)\n")
    found = becomes_stale(ask, FACT if change["op"] == "upsert" else "concept://shop/note")
    assert SESSION in found["unverified"]["reason"]


def test_a_fact_that_cites_a_missing_file_is_stale_until_the_file_is_there(ask: Ask, code: Path) -> None:
    cite(ask, "src/pay.py#Pay", "a book", "README.md")
    assert becomes_stale(ask, FACT)["unverified"]["reason"] == "src/pay.py is not in the code tree"
    (node,) = ask.get(uris=FACT, include=["citations"])["nodes"]
    assert [(one["state"], one.get("reason")) for one in node["citations"][:1]] == [
        ("absent", "is not in the code tree")
    ]
    with pytest.raises(Invalid, match=r"src/pay\.py is not in the code tree"):
        ask.put(changes={"op": "verify", "uri": FACT})
    (code / "src/pay.py").write_text("class Pay:\n    pass\n")
    until(lambda: stale(ask) == [], say=lambda: ask.stale())
