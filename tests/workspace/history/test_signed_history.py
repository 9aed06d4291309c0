"""Signed commits: kgd signs its own, reports the signer of each, and refuses unsigned ones where they are required."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kgd.errors import Forbidden, Unavailable
from kgd.git.layout import locate
from kgd.git.objects import ObjectId, Signature, make, signed_parts, with_signature
from kgd.git.refs import NOTES, PROPOSALS, move_ref
from kgd.git.staging import Sign, Staging
from kgd.model.access import Principal
from kgd.signatures import keys
from kgd.workspace.history import pushers
from kgd.workspace.history.pushers import SignedHistory, Verdict
from kgd.workspace.proposals.deciding import accept
from kgd.workspace.proposals.proposals import listed, propose
from kgd.workspace.publishing import adoption
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.writer import Staged
from tests.builders import ANN, change, commit_file, new_layout, upsert, uri
from tests.ssh_keys import allow, new_key
from tests.workspace.people import git

pytestmark = [pytest.mark.needs("ssh-keygen"), pytest.mark.requirement("N8")]

REQUIRED = "workspace: ws\nformat: 1\nmerge_rules: 1\nsignatures: required\n"


@pytest.fixture
def hub_key(tmp_path: Path) -> Path:
    return new_key(tmp_path, "hub")


@contextmanager
def opened(folder: Path, key: Path | None) -> Iterator[Workspace]:
    layout = locate(folder) if folder.exists() else new_layout(folder)
    assert layout is not None
    signer = keys.load(key, {}) if key else None
    with closing(Workspace.open(layout, publish=False, key=lambda: signer)) as workspace:
        yield workspace


@pytest.fixture
def ws(tmp_path: Path, hub_key: Path) -> Iterator[Workspace]:
    """A workspace whose commits are signed by `hub`, an allowed signer."""
    with opened(tmp_path / "knowledge", hub_key) as workspace:
        commit_file(workspace, "allowed_signers", allow(hub_key))
        yield workspace


def require(ws: Workspace) -> None:
    rules = ws.store.read(ws.store.entry(ws.store.tree_of(bytes.fromhex(ws.tip)), "kgd.yaml") or b"").decode()
    commit_file(ws, "kgd.yaml", rules + "signatures: required\n")


def verdicts(ws: Workspace) -> list[Verdict]:
    return list(SignedHistory(ws.store, bytes.fromhex(ws.tip), ws.sharded).walk())


def states(ws: Workspace) -> list[str]:
    return [found.state for found in verdicts(ws)]


def signs_with(key: Path | None) -> Sign | None:
    if key is None:
        return None
    signer = keys.load(key, {})
    return lambda staging, body: with_signature(body, signer.sign(body))


def foreign(
    ws: Workspace, name: str, key: Path | None = None, *, on: str = "", files: dict[str, str] | None = None
) -> ObjectId:
    """A commit from elsewhere, which no ref leads to."""
    parent = bytes.fromhex(on or ws.tip)
    git = Staging(ws.store, ws.store.tree_of(parent), signs_with(key))
    for path, text in (files or {f"nodes/concept/{name}.yaml": f"uri: concept://ws/{name}\n"}).items():
        git.put(path, text.encode())
    made = git.commit(git.write_tree(), [parent], Signature("Bob", "bob@example.org", ws.now()), name)
    ws.store.release(ws.store.write(git.objects))
    return made


def test_plain_git_verifies_the_commits_that_kgd_signs(ws: Workspace, tmp_path: Path, hub_key: Path) -> None:
    outcome = ws.submit(change(upsert("a", name="A")))
    ws.submit(change(upsert("b", name="B"), request="once"))
    allowed = tmp_path / "allowed"
    allowed.write_text(allow(hub_key))
    for found in verdicts(ws):
        words = ("-c", f"gpg.ssh.allowedSignersFile={allowed}", "verify-commit", found.commit.id.hex())
        is_good = git(ws.layout.git_dir, *words, check=False).startswith("0 ")
        assert is_good == (found.state == "signed"), found
    assert outcome.commit
    assert states(ws) == ["attested", "signed", "signed", "signed"]
    assert verdicts(ws)[-1].by == "hub@example.org"
    assert git(ws.layout.git_dir, "fsck", "--strict") == ""


def test_a_signed_change_is_made_once(tmp_path: Path, hub_key: Path) -> None:
    with opened(tmp_path / "w", hub_key) as ws:
        first = ws.submit(change(upsert("a", name="A"), request="r1")).commit
    with opened(tmp_path / "w", hub_key) as ws:
        again = ws.submit(change(upsert("a", name="A"), request="r1"))
        assert (again.commit, again.repeated) == (first, True)


def test_without_a_key_nothing_is_signed(tmp_path: Path) -> None:
    with opened(tmp_path / "w", None) as ws:
        ws.submit(change(upsert("a", name="A")))
        assert states(ws) == ["pure", "unsigned"]
        assert ws.store.ref(NOTES) is None


def test_an_unusable_key_refuses_the_change_and_is_reported(tmp_path: Path) -> None:
    is_broken = True

    def key() -> keys.SigningKey | None:
        return keys.load(tmp_path / "absent", {}) if is_broken else None

    with closing(Workspace.open(new_layout(tmp_path / "w"), publish=False, key=key)) as ws:
        tip = ws.tip
        with pytest.raises(Unavailable, match="signing key cannot be read"):
            ws.submit(change(upsert("a", name="A")))
        assert ws.tip == tip
        assert any("signing key" in problem for problem in ws.degraded())
        is_broken = False
        ws.submit(change(upsert("b", name="B")))
        nodes = [file.path for file in ws.store.files(ws.store.tree_of(bytes.fromhex(ws.tip))) if "nodes/" in file.path]
        assert nodes == ["nodes/concept/b.yaml"], "the refused change is not in the next commit"


def test_unsigned_foreign_and_changed_commits_have_different_states(ws: Workspace, tmp_path: Path) -> None:
    for name, key in (("unsigned", None), ("unknown", new_key(tmp_path, "mallory"))):
        ws.run(adoption.merge(ws, foreign(ws, name, key)))
    own = ws.submit(change(upsert("a", name="A"))).commit or ""
    covered, signature = signed_parts(ws.store.read(bytes.fromhex(own)))
    bad = make("commit", with_signature(covered.replace(b"put", b"cut"), signature))
    ws.store.release(ws.store.write([bad]))
    found = SignedHistory(ws.store, bad.id, ws.sharded)
    assert [one.state for one in found.walk()][-3:] == ["unsigned", "unknown", "bad"]
    assert [one.is_accepted for one in found.walk()][-3:] == [True, True, False]


def test_merges_are_the_same_everywhere_and_attested_here(ws: Workspace, tmp_path: Path) -> None:
    base = ws.tip
    ws.submit(change(upsert("a", name="A")))
    ours = ws.tip
    ws.run(adoption.merge(ws, foreign(ws, "b", on=base)))
    with opened(tmp_path / "plain", None) as other:
        git(other.layout.git_dir, "fetch", "-q", str(ws.layout.git_dir), f"{ws.tip}:refs/heads/copy")
        other.run(adoption.merge(other, bytes.fromhex(ours)))
        other.run(adoption.merge(other, ws.store.commit(bytes.fromhex(ws.tip)).parents[0]))
        other.run(adoption.merge(other, ws.store.commit(bytes.fromhex(ws.tip)).parents[1]))
        assert other.tip == ws.tip, "a signature does not change a merge"
        assert states(other)[-1] == "pure"
    assert states(ws)[-1] == "attested"
    git(ws.layout.git_dir, "update-ref", "-d", NOTES)
    assert states(ws)[-1] == "pure"


def test_a_merge_that_is_refused_after_it_was_made_is_not_attested(ws: Workspace) -> None:
    other = foreign(ws, "b")
    ws.submit(change(upsert("a", name="A")))
    made = list[ObjectId]()

    def refused(staging: Staging, tip: ObjectId) -> Staged[object]:
        made.append(adoption.merge_commit(ws.store, staging, tip, other, ws.sharded))
        raise Forbidden("no")

    with pytest.raises(Forbidden):
        ws.run(refused)
    ws.submit(change(upsert("c", name="C")))
    ws.run(adoption.merge(ws, foreign(ws, "d")))
    assert not {*made} & pushers.attestations(ws.store).keys()


def test_a_merge_with_a_change_of_its_own_is_not_pure(ws: Workspace) -> None:
    base = ws.tip
    ours, theirs = foreign(ws, "a", on=base), foreign(ws, "b", on=base)
    ws.run(adoption.merge(ws, ours))
    ws.run(adoption.merge(ws, theirs))
    merge = ws.store.commit(bytes.fromhex(ws.tip))
    staging = Staging(ws.store, merge.tree)
    staging.put("nodes/concept/evil.yaml", b"uri: concept://ws/evil\n")
    made = staging.commit(staging.write_tree(), merge.parents, merge.author, merge.message)
    ws.store.release(ws.store.write(staging.objects))
    assert SignedHistory(ws.store, made, ws.sharded).verdict(made).state == "unsigned"


def test_a_pushers_record_is_signed_and_attests_the_commits(ws: Workspace) -> None:
    pushed = foreign(ws, "pushed")
    pushers.record(ws.layout, ws.store, [pushed], Principal("tok1", "Ann", "person", ()), ws.now(), ws.signing)
    ws.run(adoption.merge(ws, pushed))
    assert states(ws)[-1] == "attested"
    ledger = ws.store.ref(NOTES)
    assert ledger is not None
    assert "Kgd-Pushed-By: Ann (tok1), person" in ws.store.commit(ledger).message
    assert SignedHistory(ws.store, ledger, ws.sharded)._attestations.keys() >= {pushed}


def test_a_forged_record_attests_nothing(ws: Workspace, tmp_path: Path) -> None:
    pushed = foreign(ws, "pushed")
    ws.run(adoption.merge(ws, pushed))
    for key in (None, new_key(tmp_path, "mallory")):
        git = Staging(ws.store, None, signs_with(key))
        git.put(f"{pushed.hex()[:2]}/{pushed.hex()[2:]}", b"Kgd-Pushed-By: Ann (tok1), person\n")
        made = git.commit(git.write_tree(), [], Signature("Ann", "ann@example.org", 1), "x")
        ws.store.release(ws.store.write(git.objects))
        (ws.layout.git_dir / NOTES).unlink(missing_ok=True)
        move_ref(ws.layout.git_dir, ws.layout.derived_dir, NOTES, None, made)
        assert states(ws)[-1] == "unsigned"


# ---- the list of allowed signers, and the requirement


def test_a_change_of_the_list_applies_from_its_commit_on(ws: Workspace, tmp_path: Path, hub_key: Path) -> None:
    bob = new_key(tmp_path, "bob")
    ws.run(adoption.merge(ws, foreign(ws, "early", bob)))
    commit_file(ws, "allowed_signers", allow(hub_key, bob))
    ws.run(adoption.merge(ws, foreign(ws, "member", bob)))
    commit_file(ws, "allowed_signers", allow(hub_key))
    ws.run(adoption.merge(ws, foreign(ws, "late", bob)))
    found = {one.commit.subject: (one.state, one.by) for one in verdicts(ws)}
    assert found["early"][0] == "unknown"
    assert found["member"] == ("signed", "bob@example.org")
    assert found["late"][0] == "unknown"


def test_history_before_the_requirement_is_accepted(ws: Workspace, tmp_path: Path) -> None:
    ws.run(adoption.merge(ws, foreign(ws, "before")))
    before = ws.tip
    require(ws)
    ws.submit(change(upsert("a", name="A")))
    assert all(one.is_accepted for one in verdicts(ws))
    ws.run(adoption.merge(ws, foreign(ws, "after")))
    ws.run(adoption.merge(ws, foreign(ws, "beside", on=before)))
    assert {one.commit.subject for one in verdicts(ws) if not one.is_accepted} == {"after", "beside"}


def test_a_requirement_can_be_turned_off_again(ws: Workspace) -> None:
    require(ws)
    commit_file(ws, "kgd.yaml", REQUIRED.replace("signatures: required\n", ""))
    ws.run(adoption.merge(ws, foreign(ws, "free")))
    assert all(one.is_accepted for one in verdicts(ws))


def test_a_workspace_that_requires_signatures_refuses_changes_without_one(tmp_path: Path, hub_key: Path) -> None:
    with opened(tmp_path / "w", hub_key) as ws:
        commit_file(ws, "allowed_signers", allow(hub_key))
        require(ws)
    for key, reason in ((None, "no signing key"), (new_key(tmp_path, "other"), "not an allowed signer")):
        with opened(tmp_path / "w", key) as ws:
            tip = ws.tip
            with pytest.raises(Forbidden, match=reason) as refusal:
                ws.submit(change(upsert("a", name="A")))
            assert refusal.value.next
            assert ws.tip == tip


def test_new_commits_need_a_key_that_is_still_allowed(ws: Workspace, tmp_path: Path, hub_key: Path) -> None:
    bob, carl = new_key(tmp_path, "bob"), new_key(tmp_path, "carl")
    commit_file(ws, "allowed_signers", allow(hub_key, bob))
    old = ws.tip
    require(ws)
    commit_file(ws, "allowed_signers", allow(hub_key))
    tip = bytes.fromhex(ws.tip)
    history = SignedHistory(ws.store, tip, ws.sharded)
    for made, reason in (
        (foreign(ws, "unsigned"), "is not signed,"),
        (foreign(ws, "bob", bob), "is not signed by an allowed key"),
        (foreign(ws, "beside", bob, on=old), "no longer an allowed signer"),
        (foreign(ws, "smuggled", carl, files={"allowed_signers": allow(carl)}), "is not signed by an allowed key"),
    ):
        with pytest.raises(Forbidden, match=reason) as refusal:
            history.check_new([made], tip, made)
        assert "sign" in str(refusal.value.next)
    added = foreign(ws, "adds bob", hub_key, files={"allowed_signers": allow(hub_key, bob)})
    by_bob = foreign(ws, "by bob", bob, on=added.hex())
    history.check_new([added, by_bob], tip, by_bob)


def test_a_removed_list_admits_no_new_one(ws: Workspace, tmp_path: Path) -> None:
    require(ws)
    tip = bytes.fromhex(ws.tip)
    git = Staging(ws.store, ws.store.tree_of(tip))
    git.remove("allowed_signers")
    bare = git.commit(git.write_tree(), [tip], Signature("Ann", "ann@example.org", ws.now()), "remove")
    ws.store.release(ws.store.write(git.objects))
    mallory = new_key(tmp_path, "mallory")
    made = foreign(ws, "new list", mallory, on=bare.hex(), files={"allowed_signers": allow(mallory)})
    assert SignedHistory(ws.store, made, ws.sharded).verdict(made).state == "unknown"


def joined(ws: Workspace, parents: tuple[ObjectId, ...], key: Path, files: dict[str, str]) -> ObjectId:
    """A merge made elsewhere, with the tree of the branch and these files."""
    git = Staging(ws.store, ws.store.tree_of(bytes.fromhex(ws.tip)), signs_with(key))
    for path, text in files.items():
        git.put(path, text.encode())
    made = git.commit(git.write_tree(), parents, Signature("Mallory", "m@example.org", ws.now()), "join")
    ws.store.release(ws.store.write(git.objects))
    return made


def first(ws: Workspace) -> str:
    """The first commit, which has no list of allowed signers."""
    return ws.store.commits_between([], bytes.fromhex(ws.tip), limit=100)[0].hex()


def test_a_list_beside_the_branch_allows_no_key_of_its_own(ws: Workspace, tmp_path: Path, hub_key: Path) -> None:
    require(ws)
    mallory, tip = new_key(tmp_path, "mallory"), bytes.fromhex(ws.tip)
    beside = foreign(ws, "own list", mallory, on=first(ws), files={"allowed_signers": allow(mallory)})
    both = {"allowed_signers": allow(hub_key, mallory), "nodes/concept/x.yaml": "uri: concept://ws/x\n"}
    merge = joined(ws, (beside, tip), mallory, both)
    with pytest.raises(Forbidden, match="is not signed by an allowed key"):
        SignedHistory(ws.store, tip, ws.sharded).check_new([beside, merge], tip, merge)
    found = {one.commit.subject: one.is_accepted for one in SignedHistory(ws.store, merge, ws.sharded).walk()}
    assert (found["own list"], found["join"]) == (False, False)


def test_a_record_by_a_key_from_a_list_beside_the_branch_attests_nothing(ws: Workspace, tmp_path: Path) -> None:
    require(ws)
    mallory, tip = new_key(tmp_path, "mallory"), bytes.fromhex(ws.tip)
    beside = foreign(ws, "own list", None, on=first(ws), files={"allowed_signers": allow(mallory)})
    merge = joined(ws, (beside, tip), mallory, {"nodes/concept/x.yaml": "uri: concept://ws/x\n"})
    sign = signs_with(mallory)
    assert sign
    pushers.attest(ws.layout, ws.store, [beside], ws.now(), sign)
    with pytest.raises(Forbidden, match="requires signatures"):
        SignedHistory(ws.store, tip, ws.sharded).check_new([beside, merge], tip, merge)
    found = {one.commit.subject: one.is_accepted for one in SignedHistory(ws.store, merge, ws.sharded).walk()}
    assert (found["own list"], found["join"]) == (False, False)


def test_a_requirement_beside_the_branch_is_not_the_only_first_one(
    ws: Workspace, tmp_path: Path, hub_key: Path
) -> None:
    require(ws)
    mallory, tip = new_key(tmp_path, "mallory"), bytes.fromhex(ws.tip)
    both = {"allowed_signers": allow(hub_key, mallory)}
    beside = foreign(ws, "own list", on=first(ws), files={**both, "kgd.yaml": REQUIRED})
    for parents in ((beside, tip), (tip, beside)):  # git lists the two lines of history in either order
        merge = joined(ws, parents, mallory, both)
        found = {one.commit.subject: one.is_accepted for one in SignedHistory(ws.store, merge, ws.sharded).walk()}
        assert (found["own list"], found["join"]) == (False, False)


def test_a_removed_key_cannot_return_through_an_old_list(ws: Workspace, tmp_path: Path, hub_key: Path) -> None:
    bob = new_key(tmp_path, "bob")
    commit_file(ws, "allowed_signers", allow(hub_key, bob))
    require(ws)
    old = ws.tip
    commit_file(ws, "allowed_signers", allow(hub_key))
    tip = bytes.fromhex(ws.tip)
    beside = foreign(ws, "beside", bob, on=old)
    merge = joined(ws, (beside, tip), bob, {"allowed_signers": allow(hub_key, bob)})
    with pytest.raises(Forbidden, match="no longer an allowed signer"):
        SignedHistory(ws.store, tip, ws.sharded).check_new([beside, merge], tip, merge)


def test_a_persons_unsigned_commit_is_not_adopted(ws: Workspace, hub_key: Path) -> None:
    require(ws)
    tip = bytes.fromhex(ws.tip)
    with pytest.raises(Forbidden, match="requires signatures"):
        adoption.adopt(ws, tip, foreign(ws, "by hand"), ANN, ws.now())
    ws.run(adoption.adopt(ws, tip, foreign(ws, "by hand", hub_key), ANN, ws.now()))
    assert Counter(states(ws))["signed"] >= 3


def test_a_proposal_from_before_the_requirement_is_accepted_in_a_signed_commit(ws: Workspace) -> None:
    commit = foreign(ws, "proposed")
    move_ref(ws.layout.git_dir, ws.layout.derived_dir, f"{PROPOSALS}bob-1", None, commit)
    require(ws)
    [proposal] = listed(ws)
    with pytest.raises(Forbidden, match="requires signatures") as refusal:
        accept(ws, proposal, ANN)
    assert "--only" in str(refusal.value.next)
    assert accept(ws, proposal, ANN, only=(uri("proposed"),)).commit
    assert all(one.is_accepted for one in verdicts(ws))


def test_a_proposal_that_kgd_makes_is_signed(ws: Workspace) -> None:
    require(ws)
    proposal, _ = propose(ws, change(upsert("a", name="A")), bytes.fromhex(ws.tip), holder="ann")
    assert accept(ws, proposal, ANN).commit
    assert all(one.is_accepted for one in verdicts(ws))
    assert states(ws)[-2:] == ["signed", "signed"]
