"""After a file or folder of the code is renamed: its facts name the new path, are found by it, and move there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgd.code_history.history import CodeHistory
from kgd.errors import Invalid, NotFound
from kgd.freshness.citations import moved
from kgd.model.access import Principal, Scope
from kgd.model.uri import MAX_SEGMENTS
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.freshness.conftest import SESSION, becomes_stale, commit, stale
from tests.mcp.test_sampling_fields import Lent
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until

LOGIN = "src/auth/login.py"
CITING, RELATED, OTHER = "gotcha://shop/citing", "insight://shop/related", "insight://shop/other"


def rename(code: Path, old: str = SESSION, new: str = LOGIN) -> str:
    """Rename a path of the code in a commit; the commit."""
    (code / new).parent.mkdir(parents=True, exist_ok=True)
    git(code, "mv", old, new)
    git(code, "commit", "-qm", f"rename {old}")
    return git(code, "rev-parse", "HEAD").strip()


@pytest.fixture
def facts(ask: Ask) -> None:
    """A fact that cites a definition, a fact about the file, and a fact about another file."""
    relation = {"type": "about", "target": f"./{SESSION}", "weight": 0.5, "data": {"reason": "its tokens"}}
    ask.put(
        changes=[
            upsert(CITING, summary="tokens are unsigned", data={"cites": [f"{SESSION}#sign", "README.md"]}),
            upsert(RELATED, summary="sessions last a day", relations=[relation]),
            upsert(OTHER, summary="keys are empty", data={"cites": ["src/auth/keys.py"]}),
        ]
    )


def node(ask: Ask, uri: str) -> Any:
    return ask.get(uris=uri)["nodes"][0]


def move(ask: Ask, old: str = f"./{SESSION}", new: str = f"./{LOGIN}", **more: Any) -> Any:
    return ask.put(changes=[{"op": "move", "uri": old, "to": new}], **more)


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_a_stale_mark_and_a_broken_link_name_the_new_path_and_its_repair(ask: Ask, code: Path) -> None:
    renamed = rename(code)
    found = becomes_stale(ask, CITING)["unverified"]
    assert found["reason"] == f"sign in {SESSION} is gone in {renamed[:10]}, now {LOGIN}"
    repair = f"put with op=move, uri={SESSION}, to={LOGIN}"
    assert repair in ask.stale()["next"]
    assert node(ask, CITING)["unverified"]["reason"] == found["reason"]
    [broken] = ask.broken()["broken"]
    assert broken["moved"] == LOGIN
    assert repair in broken["next"]
    cited = ask.get(uris=CITING, include=["citations"])["nodes"][0]["citations"][0]
    assert cited["reason"].endswith(f", now {LOGIN}")


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_a_move_leads_citations_and_relations_to_the_new_file_in_one_commit(ask: Ask, code: Path) -> None:
    rename(code)
    becomes_stale(ask, CITING)
    tried = move(ask, dry_run=True)
    assert tried["moved"] == [{"path": SESSION, "to": LOGIN, "facts": 2}]
    assert node(ask, CITING)["data"]["cites"] == [f"{SESSION}#sign", "README.md"]
    done = move(ask)
    assert done["moved"] == tried["moved"]
    assert {one["uri"] for one in done["nodes"]} == {CITING, RELATED}
    assert node(ask, CITING)["data"]["cites"] == [f"{LOGIN}#sign", "README.md"]
    assert not any(SESSION in key for key in node(ask, CITING)["data"]["verified"])
    [relation] = ask.get(uris=RELATED, include=["relations"])["nodes"][0]["relations"]
    assert (relation["target"], relation["weight"]) == (f"file://shop/{LOGIN}", 0.5)
    assert relation["data"] == {"reason": "its tokens"}
    assert stale(ask) == []
    assert ask.broken()["broken"] == []
    with pytest.raises(NotFound, match=f"no fact cites {SESSION}"):
        move(ask)
    ask.put(changes=[{"op": "revert", "commit": done["commit"]}])
    assert node(ask, CITING)["data"]["cites"] == [f"{SESSION}#sign", "README.md"]
    assert becomes_stale(ask, CITING)
    assert move(ask)["moved"] == tried["moved"]
    assert node(ask, f"file://shop/{LOGIN}")["version"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_a_repeated_move_of_code_returns_the_first_result(ask: Ask, code: Path) -> None:
    rename(code)
    becomes_stale(ask, CITING)
    done = move(ask, request_id="move-1")
    again = move(ask, request_id="move-1")
    assert (again["repeated"], again["commit"]) == (True, done["commit"])


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_a_definition_that_changed_in_the_move_stays_stale(ask: Ask, code: Path) -> None:
    rename(code)
    commit(code, LOGIN, "def sign(token):\n    return hmac(token)\n")
    becomes_stale(ask, CITING)
    move(ask)
    assert f"sign in {LOGIN} changed" in becomes_stale(ask, CITING)["unverified"]["reason"]


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
@pytest.mark.parametrize("is_committed", [True, False])
def test_code_that_changed_in_its_rename_names_this_commit_and_the_change(
    ask: Ask, code: Path, is_committed: bool
) -> None:
    git(code, "mv", SESSION, LOGIN)
    text = (code / LOGIN).read_text()
    (code / LOGIN).write_text(text.replace("return token", "return hmac(token)"))
    if is_committed:
        git(code, "commit", "-qam", "rename and change")
    becomes_stale(ask, CITING)
    move(ask)
    changed = f"changed in {git(code, 'rev-parse', 'HEAD')[:10]}" if is_committed else "changed, not committed yet"
    assert becomes_stale(ask, CITING)["unverified"]["reason"] == f"sign in {LOGIN} {changed}"
    [shown, _] = ask.get(uris=CITING, include=["citations"])["nodes"][0]["citations"]
    assert shown["reason"] == changed
    assert {"-    return token", "+    return hmac(token)"} <= set(shown["diff"].splitlines())


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_a_change_before_the_second_rename_is_found_under_the_path_in_between(ask: Ask, code: Path) -> None:
    rename(code)
    changed = commit(code, LOGIN, "def sign(token):\n    return hmac(token)\n")
    move(ask)
    rename(code, LOGIN, "src/auth/entry.py")
    becomes_stale(ask, CITING)
    move(ask, f"./{LOGIN}", "./src/auth/entry.py")
    assert becomes_stale(ask, CITING)["unverified"]["commit"] == changed


@pytest.mark.slow
def test_a_verified_commit_and_a_citation_of_a_symbol_move(ask: Ask, code: Path) -> None:
    head = git(code, "rev-parse", "HEAD").strip()
    symbol = {"type": "about", "target": f"symbol://shop/{SESSION}/sign"}
    ask.put(
        changes=[
            upsert(CITING, data={"cites": [f"{SESSION}@{head[:12]}"]}),
            upsert(RELATED, relations=[symbol]),
        ]
    )
    rename(code)
    until(lambda: set(stale(ask)) == {CITING, RELATED})
    assert move(ask)["moved"][0]["facts"] == 2
    assert node(ask, CITING)["data"]["cites"] == [LOGIN]
    [relation] = ask.get(uris=RELATED, include=["relations"])["nodes"][0]["relations"]
    assert relation["target"] == f"symbol://shop/{LOGIN}/sign"
    assert stale(ask) == []
    commit(code, LOGIN, "def sign(token):\n    return hmac(token)\n")
    until(lambda: set(stale(ask)) == {CITING, RELATED})


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_a_renamed_folder_moves_with_all_facts_below_it(ask: Ask, code: Path, session: Session) -> None:
    ask.put(changes=[upsert("insight://shop/folder", data={"cites": ["src/auth/"]}, relations=_about("./src/auth"))])
    rename(code, "src/auth", "src/signing")
    until(lambda: len(stale(ask)) == 3, say=lambda: ask.stale())
    found = ask.stale()
    reasons = {one["uri"]: one["unverified"]["reason"] for one in found["nodes"]}
    assert reasons["insight://shop/folder"] == "src/auth is gone, now src/signing"
    repair = "src/auth was renamed; put with op=move, uri=src/auth, to=src/signing moves its facts."
    assert found["next"].endswith(f"correct it with put. {repair}")
    assert [one["next"] for one in ask.broken()["broken"] if "next" in one] == [repair]
    elsewhere = Ask(Session(session.daemon))  # as of a page, which has no directory
    done = move(elsewhere, "src/auth", "src/signing", workspace="shop")
    assert done["moved"] == [{"path": "src/auth", "to": "src/signing", "facts": 4}]
    assert node(ask, "insight://shop/folder")["data"]["cites"] == ["src/signing/"]
    assert node(ask, OTHER)["data"]["cites"] == ["src/signing/keys.py"]
    assert stale(ask) == []
    assert ask.broken()["broken"] == []


def _about(target: str) -> list[dict[str, str]]:
    return [{"type": "about", "target": target}]


@pytest.mark.usefixtures("facts")
def test_chains_of_renames_lead_to_the_last_path(ask: Ask, code: Path) -> None:
    rename(code)
    rename(code, LOGIN, "src/last.py")
    assert becomes_stale(ask, CITING)["unverified"]["reason"].endswith(", now src/last.py")


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_a_node_stored_for_the_former_path_moves_too(ask: Ask, code: Path) -> None:
    ask.put(changes=[upsert(f"file://shop/{SESSION}", summary="signs sessions")])
    rename(code)
    becomes_stale(ask, CITING)
    assert move(ask)["moved"][0]["facts"] == 2
    assert node(ask, f"file://shop/{LOGIN}")["summary"] == "signs sessions"


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_an_undo_restores_the_node_stored_for_the_former_path(ask: Ask, code: Path) -> None:
    ask.put(changes=[upsert(f"file://shop/{SESSION}", summary="signs sessions", content="Precious.")])
    rename(code)
    becomes_stale(ask, CITING)
    move(ask)
    ask.undo()
    [found] = ask.get(uris=[f"file://shop/{SESSION}"], include=["content"])["nodes"]
    assert (found["summary"], found["content"]) == ("signs sessions", "Precious.")


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_an_undo_of_a_move_creates_no_node_for_the_former_path(ask: Ask, code: Path) -> None:
    rename(code)
    becomes_stale(ask, CITING)
    move(ask)
    done = ask.undo()
    assert {one["uri"] for one in done["nodes"]} == {CITING, RELATED}
    assert (done["created"], ask.get(uris=f"file://shop/{SESSION}")["nodes"]) == ([], [])
    assert done["warnings"] == [f"file://shop/{SESSION} is not in the code tree; the restored link to it is broken"]
    [broken] = ask.broken()["broken"]
    assert (broken["uri"], broken["moved"]) == (f"file://shop/{SESSION}", LOGIN)


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_a_move_into_a_folder_leads_to_the_file_in_it(ask: Ask, code: Path) -> None:
    rename(code, SESSION, "lib/session.py")
    becomes_stale(ask, CITING)
    assert move(ask, SESSION, "lib")["moved"][0]["to"] == "lib/session.py"
    assert node(ask, CITING)["data"]["cites"][0] == "lib/session.py#sign"


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_a_file_that_left_its_renamed_folder_moves_alone(ask: Ask, code: Path) -> None:
    git(code, "mv", SESSION, "src/session.py")
    rename(code, "src/auth", "src/signing")
    becomes_stale(ask, OTHER)
    becomes_stale(ask, CITING)
    told = ask.stale()["next"]
    assert f"uri={SESSION}, to=src/session.py" in told
    assert "uri=src/auth/keys.py, to=src/signing/keys.py" in told


@pytest.mark.usefixtures("facts")
def test_a_rename_in_the_index_of_git_is_followed_before_its_commit(ask: Ask, code: Path, session: Session) -> None:
    git(code, "mv", SESSION, LOGIN)
    assert becomes_stale(ask, CITING)["unverified"]["reason"].endswith(f"not committed yet, now {LOGIN}")
    assert f"uri={SESSION}, to={LOGIN}" in ask.stale()["next"]
    until(lambda: [one["moved"] for one in ask.broken()["broken"]] == [LOGIN])
    until(lambda: {one["uri"] for one in ask.context(paths=LOGIN)["items"]} == {CITING, RELATED})
    assert {one["uri"] for one in ask.code_file(uri=f"./{LOGIN}")["notes"]} == {CITING, RELATED}
    git(code, "mv", LOGIN, SESSION)
    until(lambda: not ask.stale()["nodes"])
    git(code, "mv", SESSION, LOGIN)
    git(code, "commit", "-qm", "rename")
    git(code, "mv", LOGIN, "src/last.py")
    until(lambda: {one["uri"] for one in ask.context(paths="src/last.py")["items"]} == {CITING, RELATED})
    assert becomes_stale(ask, CITING)["unverified"]["reason"].endswith(", now src/last.py")
    git(code, "mv", "src/auth", "src/signing")
    until(lambda: "uri=src/auth/keys.py, to=src/signing/keys.py" in ask.stale()["next"], say=ask.stale)


def test_the_holder_of_a_token_sees_no_rename_before_its_commit(ask: Ask, code: Path, ws: Workspace) -> None:
    git(code, "mv", SESSION, LOGIN)
    history = CodeHistory.of(ws)
    assert history.former([LOGIN]) == {LOGIN: [SESSION]}
    assert history.former([LOGIN], committed=True) == {}


@pytest.mark.usefixtures("facts")
def test_facts_move_at_once_after_a_rename_without_a_commit(ask: Ask, code: Path) -> None:
    git(code, "mv", SESSION, LOGIN)
    done = move(ask, SESSION, LOGIN)
    assert (done["moved"][0]["facts"], done["warnings"], done["created"]) == (2, [], [])


@pytest.mark.usefixtures("facts")
@pytest.mark.parametrize("prefix", ["", "./"])
@pytest.mark.parametrize(
    ("old", "new", "rest"),
    [
        (SESSION, LOGIN, ""),
        ("src/auth", "src/signing", ""),
        (SESSION, "docs", ""),
        (SESSION, "src/a b.py", "'src/a b.py'"),
    ],
)
def test_code_that_is_still_there_is_moved_first(ask: Ask, prefix: str, old: str, new: str, rest: str) -> None:
    with pytest.raises(Invalid, match=f"{old} is still in the code tree") as refused:
        move(ask, f"{prefix}{old}", f"{prefix}{new}")
    assert refused.value.next == f"Move it first: `git mv {old} {rest or new}`."


@pytest.mark.usefixtures("facts")
def test_facts_do_not_move_from_one_existing_file_to_another(ask: Ask) -> None:
    with pytest.raises(Invalid, match=f"{SESSION} is still in the code tree") as refused:
        move(ask, new="./src/auth/keys.py")
    assert refused.value.next == "Facts move once their file is gone: move or delete it first."


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
@pytest.mark.parametrize("prefix", ["", "./"])
def test_a_move_of_code_to_a_missing_path_names_the_actual_one(ask: Ask, code: Path, prefix: str) -> None:
    rename(code)
    until(lambda: ask.context(paths=LOGIN)["items"])
    with pytest.raises(Invalid, match=r"src/nowhere.py is not in the code tree") as refused:
        move(ask, f"{prefix}{SESSION}", f"{prefix}src/nowhere.py")
    assert refused.value.next == f"{SESSION} was renamed; put with op=move, uri={SESSION}, to={LOGIN} moves its facts."


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_facts_of_a_deleted_file_move_only_to_an_existing_file(ask: Ask, code: Path) -> None:
    git(code, "rm", "-q", SESSION)
    becomes_stale(ask, CITING)
    with pytest.raises(Invalid, match=r"src/nowhere.py is not in the code tree") as refused:
        move(ask, SESSION, "src/nowhere.py")
    assert refused.value.next == f"Name the path to which {SESSION} was moved."


def test_the_node_of_a_file_becomes_a_concept_only_by_its_uri(ask: Ask) -> None:
    ask.put(changes=[upsert(f"file://shop/{SESSION}", summary="signs sessions")])
    with pytest.raises(Invalid, match="is still in the code tree") as refused:
        move(ask, SESSION, "services/session")
    assert "write concept:NAME" in refused.value.next
    assert move(ask, SESSION, "concept:services/session")["created"] == ["concept://shop/services/session"]


@pytest.mark.parametrize("path", [SESSION, "src/auth"])
def test_a_move_of_code_to_its_own_path_is_refused_without_a_move_in_git(ask: Ask, path: str) -> None:
    with pytest.raises(Invalid, match=f"{path} is still in the code tree") as refused:
        move(ask, f"./{path}", f"./{path}")
    assert str(refused.value.next) == "The new path is the same: name the former path first, then the new one."


def test_context_of_a_former_path_names_the_new_one(ask: Ask, code: Path, session: Session) -> None:
    rename(code)
    until(lambda: "was renamed" in ask.context(paths=SESSION)["missing"]["message"])
    told = ask.context(paths=[SESSION, "src/new.py"])["missing"]["message"]
    assert f" src/new.py is not in the code tree yet. {SESSION} was renamed to {LOGIN}." in told
    scope = Scope.of("shop", ["read"], ["/**"])
    guest = Ask(Session(session.daemon, principal=Principal("tok1", "bot", "agent", (scope,))))
    assert "renamed" not in guest.context(paths=SESSION)["missing"]["message"]


@pytest.mark.usefixtures("facts")
def test_the_holder_of_a_token_moves_no_code(ask: Ask, code: Path, session: Session) -> None:
    rename(code)
    becomes_stale(ask, CITING)
    scope = Scope.of("shop", ["read", "write"], ["/**"])
    guest = Session(session.daemon, principal=Principal("tok1", "bot", "agent", (scope,)))
    change = {"op": "move", "uri": f"file://shop/{SESSION}", "to": f"file://shop/{LOGIN}"}
    with pytest.raises(NotFound):
        call(guest, "put", {"changes": [change]})


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_context_of_a_renamed_file_has_the_facts_about_its_former_path(ask: Ask, code: Path) -> None:
    rename(code)
    rename(code, LOGIN, "src/last.py")
    found = {one["uri"]: one["why"] for one in ask.context(paths="src/last.py")["items"]}
    assert found == {CITING: f"cites sign in {SESSION}, now src/last.py", RELATED: f"about {SESSION}, now src/last.py"}
    assert ask.context(paths="src/last.py")["described"] == ["src/last.py"]
    until(lambda: {one["uri"] for one in ask.context(paths="src/")["items"]} == {CITING, RELATED, OTHER})
    until(lambda: ask.code_file(uri="./src/last.py")["symbols"])
    line = ask.context(paths="src/last.py:1")["items"]
    assert line[0]["why"].startswith("cites sign, which contains the line")


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_the_page_and_the_area_of_a_renamed_file_have_the_facts_about_its_former_path(ask: Ask, code: Path) -> None:
    symbol = _about(f"symbol://shop/{SESSION}/sign")
    ask.put(changes=[upsert("insight://shop/symbol", summary="signs", relations=symbol)])
    rename(code)
    until(lambda: ask.code_file(uri=f"./{LOGIN}")["state"] == "text" and ask.code_file(uri=f"./{LOGIN}")["symbols"])
    notes = {one["uri"]: one for one in ask.code_file(uri=f"./{LOGIN}")["notes"]}
    assert notes.keys() == {CITING, RELATED, "insight://shop/symbol"}
    assert notes[CITING]["why"] == f"cites {SESSION}, now {LOGIN}"
    assert notes[CITING]["places"] == [{"symbol": "sign", "first": 1, "last": 2}]
    area = {"entityType": "atom", "name": "Login", "paths": [LOGIN], "createdByTaskId": "https://example.org/1"}
    uri = ask.manage_graph(operation="create", **area)["data"]["atom"]["id"]
    facts = ask.area_facts(area=uri)["facts"]
    assert {one["uri"] for one in facts} == notes.keys()
    assert facts[0]["files"] == [LOGIN]
    assert ask.coverage(area=uri)["files"][0]["facts"] == 3


@pytest.mark.usefixtures("facts")
def test_context_of_a_file_of_a_renamed_folder_has_the_facts_about_the_folder(ask: Ask, code: Path) -> None:
    ask.put(changes=[upsert("insight://shop/folder", summary="all of it signs", relations=_about("./src/auth"))])
    rename(code, "src/auth", "src/signing")
    items = {one["uri"]: one["why"] for one in ask.context(paths="src/signing/keys.py")["items"]}
    assert items["insight://shop/folder"] == "about src/auth/, the former folder of src/signing/keys.py"


@pytest.mark.slow
@pytest.mark.usefixtures("facts")
def test_a_former_path_that_no_uri_can_have_is_skipped(ask: Ask, code: Path) -> None:
    deep = f"{'d/' * MAX_SEGMENTS}session.py"
    rename(code, SESSION, deep)
    rename(code, deep, LOGIN)
    until(lambda: ask.code_file(uri=f"./{LOGIN}")["symbols"])
    assert {one["uri"] for one in ask.code_file(uri=f"./{LOGIN}")["notes"]} == {CITING, RELATED}
    line = ask.context(paths=f"{LOGIN}:1")["items"]
    assert {one["uri"] for one in line} == {CITING, RELATED}


@pytest.mark.usefixtures("facts")
def test_a_path_that_exists_again_keeps_its_facts(ask: Ask, code: Path) -> None:
    rename(code)
    commit(code, SESSION, "SESSIONS = {}\n", "another file of this name")
    assert not ask.context(paths=LOGIN)["items"]
    assert {one["uri"] for one in ask.context(paths=SESSION)["items"]} == {CITING, RELATED}


def test_a_path_is_led_without_its_commit() -> None:
    to = {"a.py": "b.py", "a": "b"}.get
    assert moved("a.py#Class.method", "shop", to) == "b.py#Class.method"
    assert moved("a.py@1a2b3c4d#f", "shop", to) == "b.py#f"
    assert moved("file://shop/a.py", "shop", to) == "b.py"
    assert moved("a/", "shop", to) == "b/"
    assert moved("other.py@1a2b3c4d", "shop", to) == "other.py@1a2b3c4d"
    assert moved("https://example.org/a.py", "shop", to) == "https://example.org/a.py"


@pytest.mark.parametrize(("old", "new"), [("src/gone.py", "src/nowhere.py"), ("src/gone/", "src/nowhere"), ("x", "y")])
def test_a_move_of_nothing_to_nothing_names_both_paths(ask: Ask, old: str, new: str) -> None:
    with pytest.raises(NotFound, match=f"neither {old.rstrip('/')} nor {new} is in the code tree, and no node"):
        move(ask, old, new)


def disagree_about_a_link(ask: Ask, code: Path) -> None:
    """Make an open conflict about the relation to the file before its rename, as after a change on another machine: a
    revert, after the facts were moved, of a change before that."""
    link = {"type": "about", "target": f"./{SESSION}"}
    ask.put(changes=upsert(RELATED, relations=[{**link, "weight": 0.7}]), message="weight")
    before = ask.history(limit=1)["commits"][0]["commit"]
    rename(code)
    until(lambda: CodeHistory.of(ask.session.daemon.workspace("shop")).renamed(SESSION) == LOGIN)
    move(ask)
    ask.revert(commit=before)
    [conflict] = ask.conflicts()["conflicts"]
    assert all(SESSION in field.replace("~1", "/") for field in conflict["fields"])


@pytest.mark.usefixtures("facts")
@pytest.mark.parametrize("tool", ["resolve", "resolve_conflicts"])
def test_the_side_of_a_conflict_from_before_a_rename_leads_to_the_new_path(ask: Ask, code: Path, tool: str) -> None:
    disagree_about_a_link(ask, code)
    [conflict] = ask.conflicts()["conflicts"]
    [sides] = [field["sides"] for field in conflict["fields"].values()]
    [chosen] = [one for one in sides if one["value"] is not None]
    getattr(ask, tool)(resolutions=[{"id": conflict["id"], "take": chosen["side"]}])
    [relation] = ask.get(uris=RELATED, include=["relations"])["nodes"][0]["relations"]
    assert (relation["target"], relation["weight"]) == (f"file://shop/{LOGIN}", 0.5)
    assert ask.broken()["broken"] == []
    assert node(ask, f"file://shop/{LOGIN}")["version"] == 0
    assert ask.get(uris=f"file://shop/{SESSION}")["missing"]


@pytest.mark.usefixtures("facts")
@pytest.mark.parametrize("is_holder", [False, True])
def test_a_model_leads_a_side_to_the_new_path_unless_it_is_asked_for_the_holder_of_a_token(
    ask: Ask, code: Path, *, is_holder: bool
) -> None:
    disagree_about_a_link(ask, code)
    [conflict] = ask.conflicts()["conflicts"]
    [sides] = [field["sides"] for field in conflict["fields"].values()]
    [chosen] = [one["side"] for one in sides if one["value"] is not None]
    principal = Principal("tok1", "agent", "agent", (Scope.of("shop", ["read", "resolve"], ["/**"]),))
    caller = Session(ask.session.daemon, principal=principal) if is_holder else ask.session
    assert Ask(replace(caller, ask=Lent(chosen))).resolve_conflicts()["open"] == 0
    relations = ask.get(uris=RELATED, include=["relations"])["nodes"][0]["relations"]
    assert (f"file://shop/{SESSION}" in {one["target"] for one in relations}) is is_holder


@pytest.mark.usefixtures("facts")
def test_the_side_of_a_conflict_with_a_missing_path_stores_no_node_for_it(ask: Ask, code: Path) -> None:
    ask.put(changes=upsert(RELATED, relations=[{"type": "about", "target": f"./{SESSION}", "weight": 0.7}]))
    weighed = ask.history(limit=1)["commits"][0]["commit"]
    unlink = {"op": "unrelate", "source": RELATED, "target": f"file:{SESSION}", "type": "about"}
    ask.put(changes=unlink)
    (code / SESSION).unlink()
    until(lambda: ask.get(uris=f"./{SESSION}")["missing"])
    ask.revert(commit=weighed)
    ask.put(changes=unlink)
    [conflict] = ask.conflicts()["conflicts"]
    [chosen] = [one for field in conflict["fields"].values() for one in field["sides"] if one["value"] is not None]
    done = ask.resolve(resolutions=[{"id": conflict["id"], "take": chosen["side"]}])
    assert [one["uri"] for one in ask.broken()["broken"]] == [f"file://shop/{SESSION}"]
    assert any("the restored link to it is broken" in one for one in done["warnings"])
