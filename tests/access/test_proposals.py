"""A proposal waits as its own commit, moves nothing, and is accepted, partly accepted, or rejected."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from kgd.errors import Forbidden, Invalid, KgdError, Limit, NotFound, Stale
from kgd.git.refs import list_refs, read_log
from kgd.model.access import Principal, Verb
from kgd.model.change import Append, Author, Delete, Move
from kgd.workspace.history.commits import changed_fields
from kgd.workspace.proposals import deciding, proposals, records
from kgd.workspace.proposals.proposals import Proposal
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.touched_nodes import Permit, authorize_all
from tests.access.conftest import holder
from tests.builders import ANN, change, to, upsert, uri

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
BOB = Author("Bob", "bob@example.org", "tests")


def put(ws: Workspace, *edits: object, author: Author = ANN) -> str:
    commit = ws.submit(change(*edits, author=author)).commit  # type: ignore[arg-type]
    assert commit
    return commit


def propose(ws: Workspace, *edits: object, base: str = "", request: str = "", by: Author = BOB) -> Proposal:
    changes = change(*edits, author=by, request=request)  # type: ignore[arg-type]
    return proposals.propose(ws, changes, bytes.fromhex(base or ws.tip), holder="bob")[0]


def permit_of(verbs: str, *paths: str) -> Permit:
    who = holder(verbs, *paths)
    return lambda touched, policy: authorize_all(who, policy, Verb.WRITE, touched)


def content(ws: Workspace, name: str) -> str | None:
    node = ws.node(uri(name))
    return node.content if node else None


def test_a_proposal_moves_nothing_and_survives_a_restart(ws: Workspace) -> None:
    tip = put(ws, upsert("a", content="one\n"))
    made = propose(ws, Append(uri("a"), "two"), upsert("b", name="B"))
    assert ws.tip == tip
    assert content(ws, "a") == "one\n"
    (found,) = proposals.listed(ws)
    assert found == made
    assert (found.author, found.subject) == ("Bob (tests)", "change concept://ws/a and 1 more")
    assert subprocess.run(["git", "-C", str(ws.layout.git_dir), "fsck", "--full"], capture_output=True).returncode == 0


def test_a_proposal_is_shown_as_a_difference_of_nodes(ws: Workspace) -> None:
    put(ws, upsert("a", content="one\n"))
    made = propose(ws, upsert("a", summary="short"), upsert("b", name="B"))
    look = proposals.look(ws, made)
    assert look.state == "open"
    assert [(c.uri, c.before is None) for c in look.changes] == [(uri("a"), False), (uri("b"), True)]


def test_an_accepted_proposal_is_in_history_with_its_author_and_no_longer_waits(ws: Workspace) -> None:
    put(ws, upsert("a", content="one\n"))
    made = propose(ws, upsert("b", name="B"))
    put(ws, upsert("c", name="meanwhile"))
    outcome = deciding.accept(ws, made, ANN)
    assert proposals.listed(ws) == ()
    assert [entry.author for entry in ws.history.entries(uri=uri("b"))] == ["Bob"]
    (merge,) = ws.history.entries(commit=outcome.commit)
    assert (merge.author, merge.operation, len(merge.parents)) == ("Ann", "accept", 2)
    assert ws.node(uri("c")) is not None
    assert ws.version(ws.path(uri("b"))) == 1


def test_a_field_changed_on_both_sides_is_kept_as_a_conflict(ws: Workspace) -> None:
    put(ws, upsert("a", name="one"))
    made = propose(ws, upsert("a", name="two"))
    put(ws, upsert("a", name="three"))
    look = proposals.look(ws, made)
    assert (look.state, look.conflicts) == ("conflicts", (uri("a"),))
    outcome = deciding.accept(ws, made, ANN)
    assert "conflict" in outcome.warnings[0]
    (conflict,) = ws.conflicts.find(uri("a"))
    assert set(conflict.conflict.fields["name"].sides) == {"two", "three"}


def test_a_part_becomes_one_commit_of_the_same_author_and_the_rest_waits(ws: Workspace) -> None:
    put(ws, upsert("a", name="A"))
    made = propose(ws, upsert("b", name="B"), upsert("c", name="C"))
    outcome = deciding.accept(ws, made, ANN, only=[uri("b")])
    assert ws.node(uri("b")) is not None
    assert ws.node(uri("c")) is None
    (entry,) = ws.history.entries(commit=outcome.commit)
    assert (entry.author, entry.client, len(entry.parents)) == ("Bob", "tests", 1)
    message = ws.store.commit(bytes.fromhex(outcome.commit or "")).message
    assert f"Kgd-Origin: proposals/{made.id}" in message
    assert [c.uri for c in proposals.look(ws, made).changes] == [uri("c")]
    deciding.accept(ws, made, ANN, only=[uri("c")])
    assert proposals.listed(ws) == ()


def test_both_ends_of_a_move_are_accepted_together(ws: Workspace) -> None:
    put(ws, upsert("a", name="A"))
    made = propose(ws, Move(uri("a"), uri("b")))
    with pytest.raises(Invalid, match="cannot be accepted alone"):
        deciding.accept(ws, made, ANN, only=[uri("b")])
    deciding.accept(ws, made, ANN, only=[uri("a"), uri("b")])
    assert ws.graph.resolve(uri("a")) == uri("b")


def test_a_node_outside_the_proposal_cannot_be_selected(ws: Workspace) -> None:
    made = propose(ws, upsert("b", name="B"))
    with pytest.raises(NotFound, match="does not change"):
        deciding.accept(ws, made, ANN, only=[uri("zzz")])


def test_a_rejected_proposal_is_kept_with_the_reason(ws: Workspace) -> None:
    made = propose(ws, upsert("b", name="B"))
    kept = deciding.reject(ws, made, "Ann", "not now")
    assert proposals.listed(ws) == ()
    assert list_refs(ws.layout.git_dir, "refs/kgd/rejected/") == {kept: bytes.fromhex(made.commit)}
    assert read_log(ws.layout.git_dir, kept)[-1].note == "kgd: rejected by Ann: not now"
    again = propose(ws, upsert("b", name="another"))
    assert again.name != made.name
    deciding.reject(ws, again, "Ann")
    assert len(list_refs(ws.layout.git_dir, "refs/kgd/rejected/")) == 2


def test_a_decision_about_an_older_version_is_refused(ws: Workspace) -> None:
    made = propose(ws, upsert("b", name="B"))
    assert proposals.named(ws, made.id) == made
    other = propose(ws, upsert("c", name="C"))
    git = ["git", "-C", str(ws.layout.git_dir)]
    subprocess.run([*git, "update-ref", made.ref, other.commit], check=True)
    with pytest.raises(Stale, match="has changed since"):
        proposals.named(ws, made.id)
    with pytest.raises(NotFound):
        proposals.named(ws, "nobody-9")


def test_each_holder_has_a_distinct_name_in_refs() -> None:
    names = ["王伟", "李娜", "José", "Josè", "🎉", "🎊", "!!", "a" * 70, "a" * 71, "Ann Person", "billing-agent"]
    found = [proposals.holder_name(name) for name in names]
    assert len(set(found)) == len(names)
    assert found[-2:] == ["Ann-Person", "billing-agent"], "as written before names had a hash"
    assert all(map(proposals.is_name, found))
    assert proposals.holder_name("Jose\u0301") == proposals.holder_name("José"), "one name in two encodings"


def test_the_same_request_is_one_proposal(ws: Workspace) -> None:
    one = propose(ws, upsert("b", name="B"), request="r1")
    assert propose(ws, upsert("b", name="B"), request="r1") == one
    assert len(proposals.listed(ws)) == 1


def test_a_token_and_its_children_share_one_limit_of_proposals_under_any_name(ws: Workspace) -> None:
    one = holder("propose", "/**")
    child = replace(one, id="child001", parent=one.id, root=one.id, name="other")
    other = replace(one, id="other001")

    def put_up(number: int, who: Principal) -> None:
        holder = proposals.holder_name(who.name)
        proposals.propose(ws, change(upsert(f"n{number}")), bytes.fromhex(ws.tip), holder=holder, owner=who, most=2)

    put_up(0, one)
    put_up(1, child)
    for who in (one, child):
        with pytest.raises(Limit, match="2 proposals of"):
            put_up(2, who)
    put_up(2, other)


def test_accepting_a_proposal_needs_the_right_to_all_its_nodes(ws: Workspace) -> None:
    put(ws, upsert("infra/a", name="A"))
    made = propose(ws, upsert("infra/a", to("infra/b"), summary="s"), upsert("other/c", name="C"))
    permit = permit_of("write", "/infra/**")
    tip = ws.tip
    with pytest.raises(Forbidden, match="may not write concept://ws/other/c"):
        deciding.accept(ws, made, ANN, permit=permit)
    with pytest.raises(Forbidden, match="concept://ws/other/c"):
        deciding.reject(ws, made, "x", permit=permit)
    assert ws.tip == tip
    deciding.accept(ws, made, ANN, only=[uri("infra/a")], permit=permit)
    assert ws.node(uri("other/c")) is None


def commit_on(ws: Workspace, parent: str, *files: tuple[str, str | None], mode: str = "100644") -> str:
    """A commit made with git in any way."""
    import os

    git_dir = str(ws.layout.git_dir)
    env = {
        **os.environ,
        "GIT_INDEX_FILE": str(ws.layout.derived_dir / "test-index"),
        "GIT_DIR": git_dir,
        "GIT_AUTHOR_NAME": "Eve",
        "GIT_AUTHOR_EMAIL": "eve@example.org",
        "GIT_COMMITTER_NAME": "Eve",
        "GIT_COMMITTER_EMAIL": "eve@example.org",
    }

    def git(*arguments: str, input: str = "") -> str:
        done = subprocess.run(["git", *arguments], env=env, input=input.encode(), capture_output=True, check=True)
        return done.stdout.decode().strip()

    git("read-tree", parent)
    for path, text in files:
        if text is None:
            git("update-index", "--force-remove", path)
        else:
            blob = git("hash-object", "-w", "--stdin", input=text)
            git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{path}")
    return git("commit-tree", git("write-tree"), "-p", parent, "-m", "by hand")


def offered(ws: Workspace, commit: str, name: str = "eve-1") -> Proposal:
    subprocess.run(
        ["git", "-C", str(ws.layout.git_dir), "update-ref", f"refs/heads/proposals/{name}", commit], check=True
    )
    return proposals.named(ws, name)


def test_a_change_reverted_within_the_proposal_is_judged_too(ws: Workspace) -> None:
    base = put(ws, upsert("infra/a", name="A"), upsert("secret/b", name="B"))
    hidden = commit_on(ws, base, ("nodes/concept/secret/b.yaml", "uri: concept://ws/secret/b\nname: stolen\n"))
    taken_back = commit_on(
        ws,
        hidden,
        ("nodes/concept/secret/b.yaml", "uri: concept://ws/secret/b\nname: B\n"),
        ("nodes/concept/infra/a.yaml", "uri: concept://ws/infra/a\nname: fine\n"),
    )
    made = offered(ws, taken_back)
    assert [c.uri for c in proposals.look(ws, made).changes] == [uri("infra/a")]
    with pytest.raises(Forbidden, match="secret/b"):
        deciding.accept(ws, made, ANN, permit=permit_of("write", "/infra/**"))
    assert ws.tip == base


@pytest.mark.parametrize(
    ("path", "text", "mode", "says"),
    [
        ("nodes/concept/a.yaml", "uri: concept://ws/b\n", "100644", "must contain the node"),
        ("nodes/concept/a.yaml", "uri: concept://ws/a\nname: [", "100644", "a.yaml"),
        ("nodes/concept/a.yaml", "../../secret", "120000", "plain files"),
        ("nodes/concept/a.yaml", "uri: concept://ws/a\n", "100755", "plain files"),
        ("kgd.yaml", "workspace: other\n", "100644", "cannot be changed"),
        ("nodes/concept/a.yaml", f"uri: concept://ws/a\ncontent: {SECRET}\n", "100644", "secret"),
        ("kgd.yaml", None, "100644", "settings"),
    ],
)
def test_a_proposal_that_no_workspace_can_hold_is_shown_as_broken_and_not_accepted(
    ws: Workspace, path: str, text: str | None, mode: str, says: str
) -> None:
    base = put(ws, upsert("a", name="A"))
    made = offered(ws, commit_on(ws, base, (path, text), mode=mode))
    look = proposals.look(ws, made)
    assert look.state == "broken"
    assert says in look.why
    with pytest.raises(Exception, match=says):
        deciding.accept(ws, made, ANN)
    assert ws.tip == base


def test_a_deletion_is_proposed_like_anything_else(ws: Workspace) -> None:
    put(ws, upsert("a", name="A"))
    made = propose(ws, Delete(uri("a")))
    deciding.accept(ws, made, ANN)
    assert ws.node(uri("a")) is None


def test_a_remote_s_proposal_is_listed_and_accepted_here(ws: Workspace) -> None:
    base = put(ws, upsert("a", name="A"))
    commit = commit_on(ws, base, ("nodes/concept/b.yaml", "uri: concept://ws/b\nname: theirs\n"))
    ref = "refs/kgd/in/origin/proposals/x"
    subprocess.run(["git", "-C", str(ws.layout.git_dir), "update-ref", ref, commit], check=True)
    assert proposals.count(ws) == 1
    (found,) = proposals.listed(ws)
    assert (found.name, found.remote, found.author) == ("origin/x", "origin", "Eve")
    deciding.accept(ws, found, ANN)
    assert ws.node(uri("b")) is not None
    assert proposals.listed(ws) == ()


def test_single_fields_of_a_node_are_accepted_and_the_others_wait(ws: Workspace) -> None:
    put(ws, upsert("a", name="A", summary="old", content="one\n", data={"owner": "Ann"}))
    edit = upsert("a", to("b"), name="B", summary="new", data={"owner": "Bob", "team": "x"})
    made = propose(ws, edit, upsert("c", name="C"))
    put(ws, upsert("a", tags=("meanwhile",)))
    relation = "relations/relates_to/concept:~1~1ws~1b"
    outcome = deciding.accept(ws, made, ANN, fields={uri("a"): ["summary", "data/team", relation]})
    node = ws.node(uri("a"))
    assert node is not None
    assert (node.name, node.summary, dict(node.data)) == ("A", "new", {"owner": "Ann", "team": "x"})
    assert (node.tags, [one.target for one in node.relations]) == (("meanwhile",), [uri("b")])
    assert ws.history.entries(commit=outcome.commit)[0].author == "Bob"
    look = proposals.look(ws, proposals.named(ws, made.name))
    left = {one.uri: [field.field for field in changed_fields(one)] for one in look.changes}
    assert left == {uri("a"): ["data/owner", "name"], uri("c"): ["name"]}, "the accepted fields are no longer shown"
    deciding.accept(ws, made, ANN, only=[uri("c")], fields={uri("a"): ["name", "data/owner"]})
    assert proposals.listed(ws) == (), "nothing is left to decide"


def test_a_field_that_cannot_be_accepted_alone_is_refused(ws: Workspace) -> None:
    put(ws, upsert("a", name="one", summary="old"), upsert("gone", name="G"))
    made = propose(ws, upsert("a", name="two"), upsert("b", name="B"), Delete(uri("gone")))
    for name, field, reason in (
        ("a", "summary", "the field 'summary'"),
        ("b", "name", "creates"),
        ("gone", "name", "deletes"),
    ):
        with pytest.raises((Invalid, NotFound), match=reason):
            deciding.accept(ws, made, ANN, fields={uri(name): [field]})
    put(ws, upsert("a", name="three"))
    with pytest.raises(Invalid, match="also has a conflict"):
        deciding.accept(ws, made, ANN, fields={uri("a"): ["name"]})
    assert ws.conflicts.find(uri("a")) == ()


def test_comments_stay_with_a_proposal_and_its_name_is_not_used_again(ws: Workspace) -> None:
    made = propose(ws, upsert("b", name="B"))
    records.add_comment(ws, made, "Ann", "Why not\n C?")
    records.add_comment(ws, made, 'Bob "the" Builder', "C is taken: see a.")
    found = records.comments_on(ws, proposals.named(ws, made.name))
    assert [(one.by, one.text) for one in found] == [
        ("Ann", "Why not C?"),
        ('Bob "the" Builder', "C is taken: see a."),
    ]
    assert proposals.named(ws, made.name).id == made.id, "a comment is not a new version"
    deciding.accept(ws, made, ANN)
    again = propose(ws, upsert("c", name="C"))
    assert (again.name, records.comments_on(ws, again)) == ("bob-2", ())


def test_comments_after_the_last_one_of_an_author_are_found(ws: Workspace) -> None:
    made = propose(ws, upsert("b", name="B"))
    for by, text in (("Ann", "Why?"), ("Bob", "It is shorter."), ("Ann", "Than what?"), ("Cid", "Than C.")):
        records.add_comment(ws, made, by, text)
    assert [one.text for one in records.comments_after(ws, made, "Bob")] == ["Than what?", "Than C."]
    assert records.comments_after(ws, made, "Cid") == ()
    assert records.comments_after(ws, made, "Dan") == records.comments_on(ws, made)


def test_an_empty_a_long_and_a_secret_comment_are_refused(ws: Workspace) -> None:
    made = propose(ws, upsert("b", name="B"))
    for text, error in ((" \n", Invalid), ("x" * 1_001, Limit), (f"the token is {SECRET}", KgdError)):
        with pytest.raises(error):
            records.add_comment(ws, made, "Ann", text)
    assert records.comments_on(ws, made) == ()
