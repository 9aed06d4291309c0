"""The proposals of hubs that share a workspace. Each hub has its own repository; git and PostgreSQL are real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.errors import KgdError, Limit, NotFound, Unavailable
from kgd.git.refs import PENDING, PROPOSALS
from kgd.model.access import Principal, Scope
from kgd.postgres.database import Database
from kgd.postgres.hub_state import PostgresProposals
from kgd.sync.upstream import UpstreamProposals
from kgd.workspace.answers import Outcome
from kgd.workspace.proposals import decided, deciding, proposals, records
from kgd.workspace.proposals.decided import decision
from kgd.workspace.proposals.proposals import Proposal
from kgd.workspace.writing.writer import Overruled, Undecided
from tests.builders import ANN, WS, change, upsert, uri
from tests.postgres_server import Server
from tests.sync import test_commit_point as commit_point
from tests.sync.people import bare, git

pytestmark = pytest.mark.needs("postgres")
BOT = Principal("tok00001", "bot", "agent", (Scope.of(WS, ["propose"], ["/**"]),))


class Hub(commit_point.Hub):
    def __init__(self, folder: Path, upstream: Path, shared_key: Path | None, database: Database) -> None:
        super().__init__(folder, upstream, shared_key)
        self.told = 0

        def tell() -> None:
            self.told += 1

        self.proposals = UpstreamProposals(
            self.workspace,
            lambda: (self.settings, self.remote),
            PostgresProposals(database),
            turn=lambda: database.lock("proposals", 3),
            tell=tell,
        )

    def share(self) -> None:
        records.share(self.workspace, self.proposals)

    def propose(self, *paths: str, request: str = "", most: int | None = None) -> Proposal:
        changes = change(*(upsert(path, summary="proposed") for path in paths), request=request)
        base = bytes.fromhex(self.workspace.tip)
        return proposals.propose(self.workspace, changes, base, holder="bot", owner=BOT, most=most)[0]

    def accept(self, proposal: Proposal, *only: str) -> Outcome:
        return deciding.accept(self.workspace, proposal, ANN, only=[uri(path) for path in only])

    def reject(self, proposal: Proposal, reason: str = "") -> str:
        return deciding.reject(self.workspace, proposal, ANN.name, reason)

    def refreshed(self) -> list[str]:
        self.proposals.refresh()
        return self.listed()

    def listed(self) -> list[str]:
        return [one.name for one in proposals.listed(self.workspace)]


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    return bare(tmp_path / "upstream.git")


@pytest.fixture
def hubs(tmp_path: Path, upstream: Path, postgres: Server) -> Iterator[list[Hub]]:
    made: list[Hub] = []
    with postgres.schema() as url:
        database = Database(url)
        for number in range(2):
            made.append(Hub(tmp_path / f"hub{number}", upstream, made[0].key if made else None, database))
            made[-1].share()
        yield made
        for one in made:
            one.close()
        database.close()


def pending(upstream: Path) -> list[str]:
    names = git(upstream, "for-each-ref", "--format=%(refname)", PENDING).split()
    return [name.removeprefix(f"{PENDING}{WS}/") for name in names]


@pytest.mark.requirement("N6")
def test_a_proposal_is_answered_when_the_upstream_has_it_and_every_hub_knows_its_owner(
    hubs: list[Hub], upstream: Path
) -> None:
    made = hubs[0].propose("a")
    assert (pending(upstream), hubs[0].told) == ([made.name], 1)
    assert hubs[1].refreshed() == [made.name]
    there = proposals.named(hubs[1].workspace, made.id)
    assert (there.commit, there.origin.is_of(BOT)) == (made.commit, True)
    assert git(upstream, "for-each-ref", "--format=%(refname)", "refs/heads/").split() == ["refs/heads/main"]


def test_a_proposal_is_found_by_name_before_the_hub_was_woken(hubs: list[Hub]) -> None:
    made = hubs[0].propose("a")
    assert proposals.named(hubs[1].workspace, made.name).commit == made.commit


@pytest.mark.slow
@pytest.mark.parametrize("first", ["accept", "reject"])
@pytest.mark.parametrize("second", ["accept", "reject"])
def test_of_two_hubs_that_decide_the_slower_one_is_overruled(
    hubs: list[Hub], upstream: Path, first: str, second: str
) -> None:
    """The second hub still lists the proposal."""
    made = hubs[0].propose("a")
    hubs[1].proposals.refresh()
    getattr(hubs[0], first)(made)
    decided = git(upstream, "rev-parse", "main")
    with pytest.raises(Overruled):
        getattr(hubs[1], second)(made)
    assert (git(upstream, "rev-parse", "main"), pending(upstream)) == (decided, [])
    for hub in hubs:
        hub.workspace.catch_up()
        assert hub.refreshed() == []
        found = decision(hub.workspace, made.id)
        assert found is not None
        assert (found.how, found.by) == (f"{first}ed", ANN.name)
    assert (hubs[1].summary("a") == "proposed") == (first == "accept")
    assert hubs[1].put("b", summary="x") == git(upstream, "rev-parse", "main"), "the hub still writes"


@pytest.mark.slow
def test_the_rest_is_not_decided_at_a_hub_that_does_not_know_what_was_accepted(hubs: list[Hub], upstream: Path) -> None:
    made = hubs[0].propose("a", "b")
    hubs[1].proposals.refresh()
    hubs[0].accept(made, "a")
    with pytest.raises(Overruled):
        hubs[1].accept(made)
    assert hubs[1].refreshed() == [made.name]
    hubs[1].accept(made, "b")
    assert (pending(upstream), hubs[0].refreshed()) == ([], [])
    assert (hubs[1].summary("a"), hubs[1].summary("b")) == ("proposed", "proposed")


@pytest.mark.slow
def test_a_rejected_proposal_leaves_the_upstream_and_its_name_is_not_used_again(
    hubs: list[Hub], upstream: Path
) -> None:
    made = hubs[0].propose("a")
    hubs[1].proposals.refresh()
    kept = hubs[1].reject(made, "too early")
    assert pending(upstream) == []
    assert made.commit == git(hubs[1].workspace.layout.git_dir, "rev-parse", kept)
    assert hubs[0].refreshed() == []
    found = decision(hubs[0].workspace, made.name)
    assert found is not None
    assert (found.how, found.by, found.reason) == ("rejected", ANN.name, "too early")
    assert [hubs[0].propose("a").name, hubs[1].propose("b").name] == ["bot-2", "bot-3"]


def test_a_number_is_not_used_again_after_an_acceptance(hubs: list[Hub]) -> None:
    """A client that repeats `accept bot-1` at another hub must not accept another proposal."""
    hubs[0].accept(hubs[0].propose("a"))
    assert hubs[1].propose("b").name == "bot-2"


def test_a_request_that_is_sent_to_two_hubs_is_proposed_once(hubs: list[Hub], upstream: Path) -> None:
    made = hubs[0].propose("a", request="r1")
    assert hubs[1].propose("a", request="r1").commit == made.commit
    assert pending(upstream) == ["bot-1"]


@pytest.mark.slow
def test_the_limit_of_a_token_holds_over_all_hubs(hubs: list[Hub]) -> None:
    hubs[0].propose("a", most=2)
    hubs[1].propose("b", most=2)
    for hub in hubs:
        with pytest.raises(Limit):
            hub.propose("c", most=2)


@pytest.mark.parametrize("when", ["before", "after"])
def test_after_a_lost_connection_a_retry_proposes_once(hubs: list[Hub], upstream: Path, when: str) -> None:
    hubs[0].remote.lose = [when]
    if when == "after":
        hubs[0].propose("a", request="r1")
    else:
        with pytest.raises(Undecided):
            hubs[0].propose("a", request="r1")
        assert hubs[0].listed() == []
    assert hubs[1].propose("a", request="r1").name == "bot-1"
    assert hubs[0].propose("a", request="r1").name == "bot-1"
    assert pending(upstream) == ["bot-1"]


@pytest.mark.slow
def test_an_acceptance_whose_answer_was_lost_is_made_once(hubs: list[Hub], upstream: Path) -> None:
    made = hubs[0].propose("a")
    hubs[0].remote.lose = ["after"]
    hubs[0].accept(made)
    assert pending(upstream) == []
    with pytest.raises(NotFound):
        proposals.named(hubs[1].workspace, made.id)


def test_while_the_upstream_is_down_nothing_is_proposed_or_decided(hubs: list[Hub], upstream: Path) -> None:
    made = hubs[0].propose("a")
    hubs[0].remote.down = True
    for act in (lambda: hubs[0].propose("b"), lambda: hubs[0].accept(made), lambda: hubs[0].reject(made)):
        with pytest.raises(Unavailable):
            act()
    hubs[0].remote.down = False
    assert (hubs[0].refreshed(), pending(upstream)) == ([made.name], [made.name])
    assert decided.decision(hubs[0].workspace, made.id) is None


@pytest.mark.slow
def test_proposals_from_before_the_hubs_shared_the_workspace_are_shared_and_keep_their_owner(
    tmp_path: Path, hubs: list[Hub], upstream: Path
) -> None:
    taken = hubs[0].propose("a")
    late = Hub(tmp_path / "late", upstream, hubs[0].key, hubs[0].proposals._known._database)
    own = late.propose("b")
    assert own.name == taken.name
    late.share()
    assert sorted(late.refreshed()) == ["bot-1", "bot-1-1"]
    assert sorted(hubs[1].refreshed()) == ["bot-1", "bot-1-1"]
    there = proposals.named(hubs[1].workspace, "bot-1-1")
    assert (there.commit, there.origin.is_of(BOT)) == (own.commit, True)
    late.close()


@pytest.mark.slow
def test_foreign_refs_among_the_proposals_of_the_upstream_prove_nothing_and_stop_nothing(
    tmp_path: Path, hubs: list[Hub], upstream: Path
) -> None:
    made = hubs[0].propose("a")
    prefix = f"{PENDING}{WS}/"
    record, alien = git(upstream, "rev-parse", prefix + made.name), bare(tmp_path / "alien.git")
    empty = git(alien, "hash-object", "-t", "tree", "-w", "--stdin", input="")
    stranger = git(alien, "commit-tree", "-m", "unrelated", empty)
    git(alien, "push", "-q", str(upstream), f"{stranger}:{prefix}unrelated")
    git(upstream, "update-ref", f"{prefix}copied", record)  # a true record, under another name
    forged = "kgd: pushed by bot (tok00001) [tok00001 tok00001]\n\nKgd-Proposal: forged\n"
    made_up = git(upstream, "commit-tree", f"{record}^{{tree}}", "-p", made.commit, "-F", "-", input=forged)
    git(upstream, "update-ref", f"{prefix}forged", made_up)
    assert sorted(hubs[1].refreshed()) == ["bot-1", "copied", "forged"]
    owners = {one.name: one.origin.owner for one in proposals.listed(hubs[1].workspace)}
    assert owners == {"bot-1": BOT.identity, "copied": "", "forged": ""}


@pytest.mark.slow
def test_an_upstream_restored_from_a_backup_gets_back_only_the_open_proposals(hubs: list[Hub], upstream: Path) -> None:
    waits, partly, no = hubs[0].propose("a"), hubs[0].propose("b", "c"), hubs[0].propose("d")
    hubs[1].proposals.refresh()
    hubs[1].accept(partly, "b")
    hubs[1].accept(partly, "c")
    hubs[1].reject(no)
    for name in pending(upstream):
        git(upstream, "update-ref", "-d", f"{PENDING}{WS}/{name}")
    assert hubs[0].refreshed() == [waits.name]
    assert (pending(upstream), hubs[1].refreshed()) == ([waits.name], [waits.name])


@pytest.mark.slow
def test_a_hub_that_stops_between_the_two_copies_completes_them_later(hubs: list[Hub]) -> None:
    made = hubs[0].propose("a")
    git_dir = hubs[0].workspace.layout.git_dir
    git(git_dir, "update-ref", "-d", PROPOSALS + made.name)
    assert hubs[0].refreshed() == [made.name]
    hubs[1].accept(proposals.named(hubs[1].workspace, made.name))
    git(git_dir, "update-ref", "-d", PROPOSALS + made.name)
    assert hubs[0].refreshed() == []
    assert git(git_dir, "for-each-ref", PENDING) == ""


def test_a_workspace_without_an_upstream_takes_no_proposal(hubs: list[Hub]) -> None:
    def alone() -> None:
        raise Unavailable("this workspace has no upstream")

    hubs[0].proposals._upstream = alone  # type: ignore[assignment]
    with pytest.raises(KgdError, match="no upstream"):
        hubs[0].propose("a")


@pytest.mark.slow
def test_comments_reach_every_hub_and_a_partial_acceptance_keeps_them(hubs: list[Hub], upstream: Path) -> None:
    made = hubs[0].propose("a", "b")
    records.add_comment(hubs[1].workspace, proposals.named(hubs[1].workspace, made.id), "Ann", "Why b?")
    hubs[0].refreshed()
    hubs[0].accept(made, "a")
    records.add_comment(hubs[0].workspace, made, "bot", "It is needed by a.")
    hubs[1].refreshed()
    there = proposals.named(hubs[1].workspace, made.id)
    assert [(one.by, one.text) for one in records.comments_on(hubs[1].workspace, there)] == [
        ("Ann", "Why b?"),
        ("bot", "It is needed by a."),
    ]
    assert there.origin.is_of(BOT), "the proposal keeps its owner"
    hubs[0].reject(made)
    with pytest.raises(Overruled):
        records.add_comment(hubs[1].workspace, there, "Ann", "too late")
    hubs[1].refreshed()
    for hub in hubs[:2]:
        (over,) = decided.listed(hub.workspace)
        assert (over.proposal.name, over.decision.how) == (made.name, "partly accepted")
        assert over.proposal.origin.is_of(BOT)
        assert [one.text for one in records.comments_on(hub.workspace, over.proposal)] == [
            "Why b?",
            "It is needed by a.",
        ]
        hub.refreshed()
        assert proposals.listed(hub.workspace) == (), "it does not come back"


def test_every_hub_lists_an_acceptance_and_a_withdrawal(hubs: list[Hub]) -> None:
    accepted, withdrawn = hubs[0].propose("a"), hubs[0].propose("b")
    hubs[1].refreshed()
    hubs[1].accept(accepted)
    deciding.reject(hubs[1].workspace, proposals.named(hubs[1].workspace, withdrawn.id), "bot", withdrawn=True)
    hubs[0].refreshed()
    for hub in hubs[:2]:
        found = {one.proposal.name: one.decision for one in decided.listed(hub.workspace)}
        assert (found[accepted.name].how, found[accepted.name].commit) == ("accepted", hubs[1].workspace.tip)
        assert (found[withdrawn.name].how, found[withdrawn.name].by) == ("withdrawn", "bot")


def test_comments_from_before_the_hubs_shared_a_workspace_are_kept(hubs: list[Hub]) -> None:
    workspace = hubs[0].workspace
    records.share(workspace, None)  # type: ignore[arg-type]
    made = hubs[0].propose("a")
    records.add_comment(workspace, made, "Ann", "from before")
    hubs[0].share()
    hubs[0].refreshed()
    there = proposals.named(hubs[1].workspace, made.name)
    assert [one.text for one in records.comments_on(hubs[1].workspace, there)] == ["from before"]
    assert there.origin.is_of(BOT)
