"""`review`: changes by author since a time, to accept or to revert in part."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from kgd.daemon.daemon import Daemon
from kgd.errors import Invalid, NotFound
from kgd.git import program
from kgd.git.layout import locate
from kgd.git.refs import move_ref
from kgd.model.change import Author
from kgd.model.uri import Uri
from kgd.tools.parameters import moment_of
from kgd.tools.recent_commits import REVIEWED, SHARED_NOTE, Approvals, last_review, note_review, reviewer, unreviewed
from kgd.ui.sessions import Visitor
from kgd.ui.visit import Visit
from kgd.workspace.proposals import proposals
from kgd.workspace.workspace import Workspace
from tests import builders
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until
from tests.workspace.people import Desk

THURSDAY = datetime(2026, 11, 19, 15, 30, tzinfo=timezone(timedelta(hours=2)))


@pytest.fixture
def person(ask: Ask) -> Ask:
    return Ask(replace(ask.session, client="kgd-cli"))


@pytest.fixture
def learned(ask: Ask, person: Ask) -> Ask:
    """Changes of an agent and a person; the agent changes one node twice."""
    person.put(changes=[upsert("services/auth", name="Auth", summary="old"), upsert("notes/x", name="X")])
    ask.put(changes=upsert("services/auth", summary="newer"))
    ask.put(changes=[upsert("services/auth", summary="newest", tags=["jwt"]), upsert("services/keys", name="Keys")])
    person.put(changes=upsert("notes/x", summary="mine"))
    return ask


@pytest.mark.requirement("E14")
def test_each_node_shows_the_net_change_of_an_author(learned: Ask) -> None:
    answer = learned.review(since="yesterday", by="agent")
    (author,) = answer["authors"]
    assert (author["author"], author["client"], author["commits"]) == ("Ann Person", "test-client 1.0", 2)
    auth, keys = author["nodes"]
    assert (auth["uri"], auth["change"], len(auth["commits"])) == ("concept://shop/services/auth", "changed", 2)
    assert auth["fields"]["summary"] == {"before": "old", "after": "newest"}
    assert (keys["uri"], keys["change"]) == ("concept://shop/services/keys", "added")


def test_the_commits_of_agents_and_people_are_counted_under_any_filter(learned: Ask) -> None:
    for by, shown in ((None, 4), ("agent", 2), ("nobody", 0)):
        answer = learned.review(since="yesterday", by=by)
        assert (answer["commits"], answer["agents"], answer["people"]) == (shown, 2, 2)


@pytest.mark.slow
def test_a_review_is_filtered_by_author_path_and_time(learned: Ask) -> None:
    def uris(**narrowed: object) -> list[str]:
        found = learned.review(**{"since": "2 days ago", **narrowed})
        return [node["uri"].removeprefix("concept://shop/") for by in found["authors"] for node in by["nodes"]]

    assert uris(by="person") == ["notes/x", "services/auth"]
    assert uris(by="TEST-client") == ["services/auth", "services/keys"]
    assert uris(by="nobody") == []
    assert uris(path=["/notes/**"]) == uris(path=["notes"]) == ["notes/x"]
    assert uris(path=["services/auth", "/*/keys"]) == ["services/auth", "services/auth", "services/keys"]
    assert uris(since="2099-01-01") == uris(since="2100-01-01") == uris(since="9999-12-31") == []
    with pytest.raises(Invalid, match="not a date"):
        uris(since="soon")
    with pytest.raises(Invalid, match="this is a URI, not a path"):
        uris(path=["concept://shop/notes"])


def test_an_empty_date_reviews_everything(person: Ask) -> None:
    person.put(changes=upsert("notes/x", name="X"))
    assert (person.review(since="")["commits"], person.review(since="", by="agent")["commits"]) == (1, 0)


@pytest.mark.parametrize("since", ["2099-01-01", "2100-01-01"])
def test_a_list_since_a_date_in_the_future_is_empty_and_says_so(learned: Ask, since: str) -> None:
    told = f"'{since}' is in the future, so nothing has happened since then."
    for answer in (learned.review(since=since), learned.history(since=since), learned.proposals(since=since)):
        assert answer["next"] == told
    assert learned.search(query="auth", since=since)["hint"] == told
    for asked in ({"question": "auth tokens"}, {"paths": "src/auth"}):
        assert learned.context(**asked, since=since)["missing"] == {"message": told}


@pytest.mark.slow
def test_commits_of_others_since_the_last_review_are_counted_with_new_ones(
    learned: Ask, person: Ask, ws: Workspace
) -> None:
    assert unreviewed(ws, "Ann Person") == (2, False)
    assert unreviewed(ws, "Bob Builder") == (4, False)
    person.put(changes=upsert("notes/x", summary="mine again"))
    learned.put(changes=upsert("notes/y", summary="the agent's"))
    assert unreviewed(ws, "Ann Person") == (3, False)
    person.put(changes=upsert("notes/x", summary="mine once more"))
    learned.put(changes=upsert("notes/y", summary="the agent's again"))
    answer = learned.review()
    assert unreviewed(ws, "Ann Person") == (answer["agents"] + answer["people"] - answer["own"], False) == (4, False)
    learned.review(accept=True)
    assert unreviewed(ws, "Ann Person") == (0, False)
    learned.put(changes=upsert("notes/x", summary="the agent's"))
    assert unreviewed(ws, "Ann Person") == (1, False)


def test_unreviewed_commits_are_counted_within_the_limit_of_a_review(
    learned: Ask, ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgd.tools.recent_commits.MOST_COMMITS", 3)
    assert unreviewed(ws, "Bob Builder") == (3, True)
    learned.put(changes=upsert("notes/x", summary="the agent's"))
    assert unreviewed(ws, "Bob Builder") == (3, True)


@pytest.mark.slow
def test_a_review_covers_the_ancestors_of_its_commit_also_if_clocks_run_backwards(
    learned: Ask, ws: Workspace, daemon: Daemon
) -> None:
    git_dir, tip = ws.layout.git_dir, ws.tip
    tree = git(git_dir, "rev-parse", f"{tip}^{{tree}}").strip()

    def commit(message: str, at: int, *parents: str) -> str:
        who = f"Bob <bob@example.org> {at} +0000"
        lines = [
            f"tree {tree}",
            *(f"parent {one}" for one in parents),
            f"author {who}",
            f"committer {who}",
            "",
            message,
        ]
        arguments = ["hash-object", "-t", "commit", "-w", "--stdin"]
        return program.run(git_dir, arguments, input="\n".join(lines).encode()).decode().strip()

    late = commit("a parent in 2090", 3_786_912_000, tip)
    early = commit("its child in 2001", 978_307_200, late)
    merge = commit("merge", 3_786_912_001, commit("a sibling", 1_800_000_000, late), early)
    learned.review(accept=True)
    daemon.close()
    git(git_dir, "update-ref", "refs/kgd/head", merge)
    git(git_dir, "update-ref", "refs/kgd/reviewed/Ann-Person", early)
    again = Daemon(daemon.home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)
    assert unreviewed(again.workspace("shop"), "Ann Person") == (1, False)
    again.close()


def test_each_person_has_a_review_of_their_own(learned: Ask, ws: Workspace) -> None:
    people = ["Ann Person", "Ann.Person", "Ann-Person", "Ann  Person", "ann Person", "王伟", "", "a" * 70]
    people += [f"{'a' * 58}, B", f"{'a' * 58}; B", "\u212aen", "Ken"]  # a Kelvin sign is equal to K
    assert len({reviewer(name) for name in people}) == len(people)
    note_review(ws, "Ann Person", bytes.fromhex(ws.tip))
    assert last_review(ws, "Ann Person") == bytes.fromhex(ws.tip)
    assert [last_review(ws, name) for name in people[1:]] == [None] * (len(people) - 1)


def test_a_review_of_an_earlier_version_counts_until_its_person_reviews_again(learned: Ask, ws: Workspace) -> None:
    tip, layout = bytes.fromhex(ws.tip), ws.layout
    move_ref(layout.git_dir, layout.derived_dir, f"{REVIEWED}Ann-Person", None, tip, note=SHARED_NOTE)
    assert last_review(ws, "Ann-Person") == last_review(ws, "Ann Person") == tip
    learned.put(changes=upsert("notes/x", summary="new"))
    note_review(ws, "Ann Person", bytes.fromhex(ws.tip))
    assert last_review(ws, "Ann Person") == bytes.fromhex(ws.tip)
    assert last_review(ws, "Ann-Person") is None


def test_accepted_changes_are_not_shown_again(learned: Ask) -> None:
    assert learned.review(dry_run=True, accept=True)["accepted"]
    assert learned.review()["commits"] == 4
    learned.review(accept=True)
    assert learned.review()["authors"] == []
    learned.put(changes=upsert("notes/y", name="Y"))
    assert [node["uri"] for by in learned.review()["authors"] for node in by["nodes"]] == ["concept://shop/notes/y"]
    with pytest.raises(Invalid, match="as a whole"):
        learned.review(accept=True, by="agent")
    with pytest.raises(Invalid, match="only one of accept, approve and revert"):
        learned.review(accept=True, revert=["notes/x"])
    with pytest.raises(Invalid, match=r"revert \(approve\)"):
        learned.review(approve=["notes/x"], revert=["notes/x"])


def test_an_author_whose_changes_are_reviewed_is_known(person: Ask, ws: Workspace) -> None:
    bob = Author("Bob", "bob@example.org", "kgd-cli")
    ws.submit(builders.change(builders.upsert("concept://shop/p"), author=bob))
    person.review(accept=True)
    person.put(changes=upsert("notes/later", name="Later"))
    assert (person.review(by="Bob")["authors"], "next" in person.review(by="Bob")) == ([], False)
    assert person.review(by="Zed")["next"] == "No author's name contains 'Zed'. The authors are 'Ann Person', 'Bob'."


@pytest.mark.slow
def test_an_approved_change_is_marked_until_its_node_changes_again(learned: Ask) -> None:
    def approved(**narrowed: object) -> list[tuple[str, str]]:
        found = learned.review(**narrowed)["authors"]
        return [(by["group"], node["uri"][15:]) for by in found for node in by["nodes"] if node.get("approved")]

    mine, agent = "Ann Person (kgd-cli)", "Ann Person (test-client 1.0)"
    foretold = learned.review(approve=["services/auth"], group=[agent], dry_run=True)
    assert (foretold["approved"], foretold["dry_run"]) == (["concept://shop/services/auth"], True)
    assert approved() == []
    with pytest.raises(NotFound):
        learned.review(approve=["nosuch"], dry_run=True)
    done = learned.review(approve=["services/auth", "notes/x"], group=[agent, mine])
    assert sorted(done["approved"]) == ["concept://shop/notes/x", "concept://shop/services/auth"]
    assert approved() == approved(since="yesterday") == [(mine, "notes/x"), (agent, "services/auth")]
    learned.put(changes=upsert("services/auth", summary="again"))
    assert approved() == [(mine, "notes/x")]
    learned.review(accept=True)
    assert approved(since="yesterday") == []


def test_the_changes_of_one_commit_are_approved_and_the_nearest_waiting_commits_are_named(
    person: Ask, ws: Workspace
) -> None:
    bob = Author("Bob", "bob@example.org", "kgd-cli")
    made = [ws.submit(builders.change(builders.upsert("concept://shop/p", summary=one), author=bob)) for one in "abc"]
    first, second, third = (str(one.commit) for one in made)
    answer = person.review(commit=second)
    assert [(node["uri"], node["commits"]) for by in answer["authors"] for node in by["nodes"]] == [
        ("concept://shop/p", [second[:12]])
    ]
    assert (answer["older"], answer["newer"]) == (first, third)
    person.review(commit=second, approve=["concept://shop/p"])
    assert "newer" not in person.review(commit=third)
    assert person.review(commit=third)["older"] == first
    assert person.review(commit=first)["newer"] == third
    (author,) = person.review(by="Bob")["authors"]
    assert "approved" not in author["nodes"][0], "the other commits are not approved"
    person.review(accept=True)
    assert person.review(commit=second)["authors"] == []
    with pytest.raises(Invalid, match="as a whole"):
        person.review(accept=True, commit=second)


def test_people_whose_names_have_no_ascii_letters_do_not_share_approvals(ws: Workspace) -> None:
    Approvals(ws, "王伟").add({ws.tip: [Uri("concept://shop/a")]})
    assert Approvals(ws, "王伟").covers(Uri("concept://shop/a"), [ws.tip])
    assert not Approvals(ws, "李娜").covers(Uri("concept://shop/a"), [ws.tip])


@pytest.mark.slow
def test_concurrent_approvals_are_all_kept(ask: Ask) -> None:
    names = [f"notes/n{number}" for number in range(16)]
    ask.put(changes=[upsert(name, name=name) for name in names])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: ask.review(approve=[name]), names))
    (author,) = ask.review()["authors"]
    assert len([node for node in author["nodes"] if node.get("approved")]) == len(names)


def test_approvals_of_changes_after_the_accepted_commit_stay(learned: Ask) -> None:
    seen = learned.review()["until"]
    learned.put(changes=upsert("notes/later", name="Later"))
    learned.review(approve=["notes/later"])
    learned.review(until=seen, accept=True)
    assert [node.get("approved") for by in learned.review()["authors"] for node in by["nodes"]] == [True]


def test_a_part_is_reverted_by_one_commit_and_the_rest_stays(learned: Ask, person: Ask) -> None:
    person.put(changes=upsert("services/auth", data={"owner": "ann"}))
    done = learned.review(since="yesterday", by="agent", revert=["services/auth"])["reverted"]
    (auth,) = learned.get(uris="services/auth")["nodes"]
    assert (auth["summary"], auth["data"]) == ("old", {"owner": "ann"})
    assert "tags" not in auth
    assert learned.get(uris="services/keys")["nodes"]
    (commit,) = learned.history(commit=done["commit"])["commits"]
    assert commit["operation"] == "revert"
    assert commit["message"].count("Reverts a part of") == 2
    assert commit["nodes"] == ["concept://shop/services/auth"]


def test_later_changes_of_others_are_kept_as_a_conflict(learned: Ask, person: Ask) -> None:
    person.put(changes=upsert("services/auth", summary="by hand"))
    learned.review(since="yesterday", by="agent", revert=["services/auth"])
    assert learned.conflicts(uri="services/auth")["total"] == learned.review()["conflicts"] == 1


def test_a_revert_is_limited_to_one_group(learned: Ask, person: Ask) -> None:
    person.put(changes=upsert("services/auth", data={"owner": "ann"}))
    other = Ask(replace(learned.session, client="other-client"))
    other.put(changes=upsert("services/auth", data={"team": "payments"}))
    groups = {by["group"]: by["agent"] for by in learned.review(since="yesterday")["authors"]}
    assert groups == {
        "Ann Person (kgd-cli)": False,
        "Ann Person (other-client)": True,
        "Ann Person (test-client 1.0)": True,
    }
    learned.review(since="yesterday", revert=["services/auth"], group="Ann Person (test-client 1.0)")
    (auth,) = learned.get(uris="services/auth")["nodes"]
    assert (auth["summary"], auth["data"]) == ("old", {"owner": "ann", "team": "payments"})


def test_one_revert_uses_a_group_of_its_own_for_each_node(learned: Ask, person: Ask) -> None:
    person.put(changes=upsert("services/keys", summary="by a person"))
    Ask(replace(learned.session, client="kgd ui")).review(
        since="yesterday",
        revert=["services/keys", "services/auth"],
        group=["Ann Person (kgd-cli)", "Ann Person (test-client 1.0)"],
    )
    auth, keys = learned.get(uris=["services/auth", "services/keys"])["nodes"]
    assert (auth["summary"], keys["name"], "summary" in keys) == ("old", "Keys", False)
    revert = learned.history(limit=1)["commits"][0]["commit"]
    assert reverted(learned) == {"auth": revert[:12], "keys": None}, "the agent's keys are not reverted"


def reverted(ask: Ask) -> dict[str, str | None]:
    """The nodes that the agent changed, each with the commit that reverted the change."""
    (agent,) = ask.review(since="yesterday", by="agent")["authors"]
    return {node["uri"].rpartition("/")[2]: node.get("reverted") for node in agent["nodes"]}


def test_a_group_that_does_not_fit_a_revert_is_refused(learned: Ask) -> None:
    group = "Ann Person (kgd-cli)"
    with pytest.raises(Invalid, match="requires `revert`"):
        learned.review(group=group)
    with pytest.raises(Invalid, match="number of groups"):
        learned.review(revert=["services/auth"], group=[group, group])
    with pytest.raises(NotFound, match="by Ann") as refused:
        learned.review(revert=["services/auth"], group="Ann")
    assert group in refused.value.next
    with pytest.raises(NotFound, match="none of the listed changes by Ann Person"):
        learned.review(revert=["services/keys"], group=group)


def test_a_change_with_a_revert_and_something_else_marks_the_reverted_change(learned: Ask, person: Ask) -> None:
    commit = learned.history(uri="services/auth")["commits"][0]["commit"]
    made = person.put(changes=[{"op": "revert", "commit": commit}, upsert("notes/why", summary="it was wrong")])
    assert reverted(learned)["keys"] == made["commit"][:12]


@pytest.mark.slow
def test_a_reverted_change_names_its_revert_until_that_is_undone(learned: Ask) -> None:
    assert reverted(learned) == {"auth": None, "keys": None}
    Ask(replace(learned.session, client="kgd ui")).review(since="yesterday", by="agent", revert=["services/auth"])
    revert = learned.history(limit=1)["commits"][0]["commit"]
    assert reverted(learned) == {"auth": revert[:12], "keys": None}
    Ask(replace(learned.session, client="kgd ui")).undo()
    assert reverted(learned) == {"auth": None, "keys": None}


def test_the_text_of_a_message_does_not_mark_a_change_as_reverted(learned: Ask, person: Ask) -> None:
    commits = [one["commit"] for one in learned.history(uri="services/auth")["commits"]]
    text = "tidy\n\n" + "\n".join(f"Reverts {commit}\nThis reverts commit {commit}." for commit in commits)
    person.put(changes=upsert("services/auth", data={"owner": "ann"}), message=text)
    person.review(
        since="yesterday", revert=["services/auth"], group="Ann Person (kgd-cli)", message=f"{text}\nand more"
    )
    assert reverted(learned) == {"auth": None, "keys": None}


@pytest.mark.slow
def test_a_revert_by_git_is_named_as_well(learned: Ask, ws: Workspace) -> None:
    """Of the two commits that changed `auth`, git reverts one."""
    Desk(ws).published()
    git(ws.layout.work_tree, "revert", "--no-edit", "HEAD~1")
    until(lambda: learned.history(limit=1)["commits"][0]["operation"] == "commit")
    revert = learned.history(limit=1)["commits"][0]["commit"]
    assert reverted(learned) == {"auth": None, "keys": revert[:12]}


def test_a_dry_run_reverts_nothing_and_an_unchanged_node_is_named(learned: Ask) -> None:
    tip = learned.status()["workspace"]["tip"]
    assert learned.review(since="yesterday", revert=["services/auth"], dry_run=True)["reverted"]["dry_run"] is True
    with pytest.raises(NotFound, match="none of the listed changes affects this node"):
        learned.review(since="yesterday", by="agent", revert=["notes/x"])
    with pytest.raises(NotFound, match="no such node among the listed changes") as refused:
        learned.review(revert=["services/auht"])
    assert refused.value.next == "Did you mean concept://shop/services/auth?"
    with pytest.raises(NotFound, match="no such node") as refused:
        learned.review(revert=["nope"])
    assert refused.value.next == "review lists the changed nodes."
    assert learned.status()["workspace"]["tip"] == tip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("monday", datetime(2026, 11, 16, tzinfo=THURSDAY.tzinfo)),
        ("Mon", datetime(2026, 11, 16, tzinfo=THURSDAY.tzinfo)),
        ("thursday", datetime(2026, 11, 19, tzinfo=THURSDAY.tzinfo)),
        ("last friday", datetime(2026, 11, 13, tzinfo=THURSDAY.tzinfo)),
        ("today", datetime(2026, 11, 19, tzinfo=THURSDAY.tzinfo)),
        ("yesterday", datetime(2026, 11, 18, tzinfo=THURSDAY.tzinfo)),
        ("2 days ago", THURSDAY - timedelta(days=2)),
        ("an hour ago", THURSDAY - timedelta(hours=1)),
        ("2d", THURSDAY - timedelta(days=2)),
        ("90min", THURSDAY - timedelta(minutes=90)),
        ("3 weeks", THURSDAY - timedelta(weeks=3)),
        ("now", THURSDAY),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T10:00:00+02:00", datetime(2026, 11, 1, 8, tzinfo=UTC)),
    ],
)
def test_times_may_be_given_in_words(text: str, expected: datetime) -> None:
    assert moment_of(text, THURSDAY) == int(expected.timestamp())


@pytest.mark.parametrize(
    "text", ["", "mo", "someday", "-2 days ago", "999999999 days ago", "2026-13-01", "0001-01-01T99"]
)
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a date or time"):
        moment_of(text, THURSDAY)


@pytest.mark.slow
def test_a_long_review_has_pages(learned: Ask, person: Ask) -> None:
    person.put(changes=[upsert(f"many/n{number:02}", name=f"N{number}") for number in range(40)])
    person.put(changes=upsert("many/gone", name="G"))
    person.put(changes={"op": "delete", "uri": "many/gone"})
    Ask(replace(person.session, client="passing")).put(changes=upsert("many/aa", name="A"))
    Ask(replace(person.session, client="passing")).put(changes={"op": "delete", "uri": "many/aa"})
    Ask(replace(person.session, client="passing")).put(changes=upsert("many/zz", name="Z"))
    whole = [node["uri"] for by in learned.review(since="yesterday")["authors"] for node in by["nodes"]]
    assert len(whole) == len(set(whole)) + 1  # one node has two authors
    paged, cursor, pages, group, limit = [], None, 0, "", 7
    while pages == 0 or cursor:
        answer = learned.review(since="yesterday", limit=limit, cursor=cursor)
        first, last = answer["authors"][0], answer["authors"][-1]
        assert ("continued" in first) == (first["group"] == group)
        group = last["group"] if "continues" in last else ""
        limit = 1
        paged += [node["uri"] for by in answer["authors"] for node in by["nodes"]]
        cursor, pages = answer.get("cursor"), pages + 1
    assert paged == whole
    assert not any("gone" in uri for uri in paged)
    with pytest.raises(Invalid, match="cursor"):
        learned.review(since="yesterday", by="agent", cursor=learned.review(since="yesterday", limit=1)["cursor"])


@pytest.mark.slow
def test_a_node_of_a_thousand_relations_is_shortened(person: Ask) -> None:
    relations = [{"type": "knows", "target": f"concept://shop/other/n{number}"} for number in range(1_000)]
    person.put(changes=upsert("hub", name="Hub", content="x" * 10_000, relations=relations))
    (node,) = person.review(since="yesterday")["authors"][0]["nodes"]
    assert node["more_fields"] > 900
    assert len(node["fields"]) == 40
    (approved,) = person.review(since="yesterday", approve=["hub"])["authors"][0]["nodes"]
    assert approved == {**node, "approved": True}


def test_a_review_ends_at_a_date(learned: Ask) -> None:
    everything = learned.review()
    assert learned.review(until="today")["until"] == everything["until"]
    with pytest.raises(NotFound, match=r"there is no commit that old"):
        learned.review(until="2001-05-01")
    for wrong in ("2026-13-01", "tomorow", "0" * 40):
        with pytest.raises(NotFound, match=r"there is no such commit or date .*\. Write a date, such as"):
            learned.review(until=wrong)
    with pytest.raises(Invalid, match="until is before since"):
        learned.review(since="today", until="2001-05-01")


def test_changes_after_the_shown_commit_are_not_accepted(learned: Ask) -> None:
    seen = learned.review()["until"]
    learned.put(changes=upsert("notes/later", name="Later"))
    assert learned.review(until=seen)["commits"] == 4
    learned.review(until=seen, accept=True)
    answer = learned.review()
    assert [node["uri"] for by in answer["authors"] for node in by["nodes"]] == ["concept://shop/notes/later"]
    assert answer["reviewed"]["commit"] == seen
    learned.review(accept=True)
    learned.review(until=seen, accept=True)
    assert learned.review()["authors"] == [], "a reviewed commit stays reviewed"


def test_pages_of_a_workspace_with_a_damaged_history_have_no_count(
    learned: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = learned.session.daemon
    visit = Visit(daemon, Visitor(), "shop", {}, {}, lambda _: [], {}, "/ui/w/shop/overview")
    assert visit.counts()["review"] == 2
    learned.put(changes=upsert("notes/later", name="Later"))

    def fail(*_: object) -> bytes:
        raise program.GitFailed(["rev-list"], 128, "fatal: bad object")

    monkeypatch.setattr("kgd.tools.recent_commits.program.run", fail)
    assert visit.counts() == {"stale": 0, "conflicts": 0, "proposals": 0}


def test_a_change_through_the_pages_is_by_a_person(ask: Ask) -> None:
    Ask(replace(ask.session, client="kgd ui")).put(changes=upsert("notes/p", name="P"))
    assert [by["agent"] for by in ask.review(by="person")["authors"]] == [False]
    assert ask.review(by="agent")["authors"] == []


def test_the_accepted_part_of_a_proposal_is_reviewed_under_its_author(person: Ask) -> None:
    ws = person.session.daemon.workspace("shop")
    edits = [builders.upsert(f"concept://shop/{name}", name=name) for name in ("p", "q")]
    bob = Author("Bob", "bob@example.org", "tests")
    made, *_ = proposals.propose(ws, builders.change(*edits, author=bob), bytes.fromhex(ws.tip), holder="bob")
    person.accept(name=made.id, only=["p"])
    (author,) = person.review(by="Bob")["authors"]
    assert [node["uri"] for node in author["nodes"]] == ["concept://shop/p"]
    person.review(accept=True)
    person.accept(name=made.id)
    (author,) = person.review()["authors"]
    assert (author["author"], author["commits"]) == ("Bob", 1)
