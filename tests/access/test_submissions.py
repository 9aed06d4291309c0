"""A submission is merged with the changes since its base, or waits as a proposal."""

from __future__ import annotations

import threading

import pytest

from kgd.errors import Forbidden, Invalid, Limit, Refused, Stale
from kgd.model.access import Policy, Principal, Verb
from kgd.model.change import Author, ChangeSet, Delete, Edit, Move, Relate, Revert
from kgd.workspace.proposals import deciding, proposals
from kgd.workspace.proposals.deciding import Submission, Submitter
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.touched_nodes import Permit, authorize_all
from tests.access.conftest import holder
from tests.builders import change, to, upsert, uri

BILLING = Author("billing-agent", "tok00001@token.invalid", "claude")


def permit(who: Principal, verb: Verb) -> Permit:
    return lambda touched, policy: authorize_all(who, policy, verb, touched)


def submitter(who: Principal, most: int | None = None) -> Submitter:
    return Submitter("billing-agent", who, permit(who, Verb.WRITE), permit(who, Verb.PROPOSE), most)


def submit(ws: Workspace, who: Principal, *edits: Edit, base: str = "", request: str = "") -> Submission:
    changes = ChangeSet(edits, BILLING, "learned", request, operation="submit", origin="token tok00001")
    return deciding.submit(ws, changes, submitter(who), base=base)


def put(ws: Workspace, *edits: Edit) -> str:
    return ws.submit(change(*edits)).commit or ""


WRITER = holder("write", "/infra/**")
PROPOSER = holder("propose", "/infra/**")


@pytest.mark.requirement("E17")
def test_with_write_a_submission_becomes_one_commit_of_the_holder(ws: Workspace) -> None:
    found = submit(ws, WRITER, upsert("infra/a", name="A"), upsert("infra/b", to("infra/a")))
    assert found.what == "merged"
    (entry,) = ws.history.entries(commit=found.outcome.commit)
    assert (entry.author, entry.email, entry.client) == ("billing-agent", "tok00001@token.invalid", "claude")
    message = ws.store.commit(bytes.fromhex(found.outcome.commit or "")).message
    assert "Kgd-Op: submit" in message
    assert "Kgd-Origin: token tok00001" in message


@pytest.mark.requirement("B9")
def test_with_propose_a_submission_waits_and_moves_nothing(ws: Workspace) -> None:
    tip = put(ws, upsert("infra/a", name="A"))
    found = submit(ws, PROPOSER, upsert("infra/a", summary="s"))
    assert found.what == "proposed"
    assert "may not write concept://ws/infra/a" in found.why
    assert ws.tip == tip
    (waits,) = proposals.listed(ws)
    assert waits == found.proposal
    assert waits.name == "billing-agent-1"


OUTSIDE: list[list[Edit]] = [
    [upsert("db/x", name="X")],
    [upsert("infra/a", name="A"), upsert("db/x")],
    [Move(uri("infra/old"), uri("db/x"))],
    [Move(uri("db/old"), uri("infra/x"))],
    [Delete(uri("db/old"))],
    [Relate(uri("db/old"), to("infra/a"))],
    [upsert("infra/a", aliases=(uri("db/x"),))],
    [upsert("infra/a", to("https://example.com/x"))],
    [upsert("infra/a", to("file://ws/db/new.py"))],
    [upsert("infrared/a")],
    [upsert("Infra/a")],
    [upsert("old-name", name="through an alias")],
]


@pytest.mark.requirement("E16")
@pytest.mark.parametrize("who", [WRITER, PROPOSER], ids=["write", "propose"])
def test_outside_the_scope_a_submission_is_neither_merged_nor_kept(ws: Workspace, who: Principal) -> None:
    put(ws, upsert("infra/old", name="O"), upsert("db/old", name="D", aliases=(uri("old-name"),)))
    tip = ws.tip
    for edits in OUTSIDE:
        with pytest.raises(Forbidden) as caught:
            submit(ws, who, *edits)
        assert caught.value.at.startswith(("concept://", "https://", "file://")), edits
    assert ws.tip == tip
    assert proposals.listed(ws) == ()


def test_reverting_another_user_s_change_needs_scope_too(ws: Workspace) -> None:
    commit = put(ws, upsert("infra/a", name="A"), upsert("db/x", name="X"))
    with pytest.raises(Forbidden, match="db/x"):
        submit(ws, WRITER, Revert(commit))


def test_the_policy_turns_writing_into_proposing(ws: Workspace) -> None:
    import subprocess

    from tests.access.test_proposals import commit_on

    text = ws.store.read(ws.store.entry(ws.store.tree_of(bytes.fromhex(ws.tip)), "kgd.yaml") or b"").decode()
    rules = text + "policy:\n- paths: [/**]\n  agents: propose\n"
    commit = commit_on(ws, ws.tip, ("kgd.yaml", rules))
    subprocess.run(["git", "-C", str(ws.layout.git_dir), "update-ref", "refs/heads/proposals/p", commit], check=True)
    deciding.accept(ws, proposals.named(ws, "p"), BILLING)
    assert ws.policy.level("agent", ("infra",))[0] == "propose"
    assert submit(ws, WRITER, upsert("infra/a")).what == "proposed"
    assert submit(ws, holder("write", "/infra/**", kind="person"), upsert("infra/b")).what == "merged"


def test_changes_since_the_base_are_kept(ws: Workspace) -> None:
    base = put(ws, upsert("infra/a", name="A", content="one\n"))
    put(ws, upsert("infra/a", summary="by somebody"), upsert("infra/c"))
    found = submit(ws, WRITER, upsert("infra/a", content="two\n"), base=base)
    assert found.what == "merged"
    node = ws.node(uri("infra/a"))
    assert node is not None
    assert (node.content, node.summary) == ("two\n", "by somebody")
    assert len(ws.history.entries(commit=found.outcome.commit)[0].parents) == 1
    assert found.outcome.nodes == ((uri("infra/a"), ws.version(ws.path(uri("infra/a")))),)


def test_a_submission_in_conflict_waits_and_names_the_node(ws: Workspace) -> None:
    base = put(ws, upsert("infra/a", name="A"))
    put(ws, upsert("infra/a", name="B"))
    found = submit(ws, WRITER, upsert("infra/a", name="C"), upsert("infra/z", name="Z"), base=base)
    assert (found.what, found.conflicts) == ("proposed", (uri("infra/a"),))
    assert ws.node(uri("infra/z")) is None
    assert ws.conflict_count == 0
    look = proposals.look(ws, found.proposal)  # type: ignore[arg-type]
    assert look.base == base


def test_the_versions_read_stand_for_a_base(ws: Workspace) -> None:
    put(ws, upsert("infra/a", name="A", content="one\n"))
    version = ws.version(ws.path(uri("infra/a")))
    put(ws, upsert("infra/a", summary="later"))
    found = submit(ws, WRITER, upsert("infra/a", content="two\n", expect_version=version))
    assert found.what == "merged"
    assert ws.node(uri("infra/a")).summary == "later"  # type: ignore[union-attr]
    with pytest.raises(Stale):
        submit(ws, WRITER, upsert("infra/a", content="x", expect_version=99))


def test_a_base_of_another_history_is_refused(ws: Workspace) -> None:
    from tests.access.test_proposals import commit_on

    stray = commit_on(ws, ws.tip, ("nodes/concept/b.yaml", "uri: concept://ws/b\n"))
    with pytest.raises(Invalid, match="not in the history"):
        submit(ws, WRITER, upsert("infra/a"), base=stray)


def test_a_repeated_request_gets_the_outcome_of_the_first(ws: Workspace) -> None:
    one = submit(ws, WRITER, upsert("infra/a", name="A"), request="tok00001/r1")
    again = submit(ws, WRITER, upsert("infra/a", name="other"), request="tok00001/r1")
    assert (again.what, again.outcome.commit, again.outcome.repeated) == ("merged", one.outcome.commit, True)
    waits = submit(ws, PROPOSER, upsert("infra/b"), request="tok00001/r2")
    assert submit(ws, PROPOSER, upsert("infra/b"), request="tok00001/r2").proposal == waits.proposal
    deciding.accept(ws, waits.proposal, BILLING)  # type: ignore[arg-type]
    assert submit(ws, PROPOSER, upsert("infra/b"), request="tok00001/r2").what == "merged"


def test_many_at_once_are_each_merged_or_wait_once(ws: Workspace) -> None:
    base = put(ws, *(upsert(f"infra/n{n}", name="N") for n in range(4)))
    found: list[Submission] = []

    def one(number: int) -> None:
        edit = upsert(f"infra/n{number % 4}", name=f"by {number}")
        found.append(submit(ws, WRITER, edit, base=base, request=f"tok00001/{number % 8}"))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert sum(1 for one in found if one.what == "merged" and not one.outcome.repeated) == 4
    assert len(proposals.listed(ws)) == 4


@pytest.mark.parametrize("who", [WRITER, PROPOSER], ids=["write", "propose"])
def test_a_secret_is_neither_merged_nor_kept(ws: Workspace, who: Principal) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with pytest.raises(Refused) as caught:
        submit(ws, who, upsert("infra/a", content=f"token {secret}\n"))
    assert secret not in str(caught.value)
    assert proposals.listed(ws) == ()
    assert ws.node(uri("infra/a")) is None


def test_only_so_many_may_wait(ws: Workspace) -> None:
    changes = ChangeSet((upsert("infra/a"),), BILLING)
    deciding.submit(ws, changes, submitter(PROPOSER, most=1))
    with pytest.raises(Limit, match="1 proposals"):
        deciding.submit(ws, ChangeSet((upsert("infra/b"),), BILLING), submitter(PROPOSER, most=1))


def test_a_submission_without_changes_is_reported_as_unchanged(ws: Workspace) -> None:
    base = put(ws, upsert("infra/a", name="A"))
    put(ws, upsert("infra/b"))
    assert submit(ws, WRITER, upsert("infra/a", name="A"), base=base).what == "unchanged"
    assert submit(ws, WRITER, upsert("infra/a", name="A")).what == "unchanged"
    assert Policy("ws") == ws.policy
