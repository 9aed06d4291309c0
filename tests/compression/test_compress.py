"""Compression proposes changes with their reasons; nothing changes before a user accepts it."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kgd.cli.output import command
from kgd.errors import Invalid
from kgd.index.usage_file import UsageFile
from kgd.model.uri import Uri
from kgd.model.usage import Tally
from kgd.workspace.workspace import Workspace
from tests.compression.conftest import Clock
from tests.surfaces.conftest import Ask, upsert


def relate(source: str, target: str, type: str, weight: float = 1.0) -> dict[str, Any]:
    return {"op": "relate", "source": source, "target": target, "type": type, "weight": weight}


def tree(ws: Workspace) -> str:
    """All files of the tip, as git names them with their contents."""
    words = ["git", "--git-dir", str(ws.layout.git_dir), "ls-tree", "-r", ws.tip]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def short(uri: str) -> str:
    return uri.split("/", 3)[3]


def named(answer: dict[str, Any]) -> set[tuple[str, ...]]:
    return {(one["kind"], *map(short, one["nodes"])) for one in answer["changes"]}


PAYING = """Customers enter their card, the bank confirms within seconds, refunds take three working days, invoices
are printed monthly, currencies convert daily."""
SENDING = """Newsletters leave overnight, bounces retry thrice before addresses become inactive, templates live beside
translations, unsubscribing happens instantly, attachments shrink."""
PLANTED = {
    ("merge", "auth", "old/auth", "old/auth-2"),
    ("merge", "mail/sender", "mail/senders"),
    ("mark", "facts/port-2019"),
    ("mark", "facts/limit-old"),
    ("mark", "facts/quota-old"),
    ("prune", "shop"),
    ("prune", "note"),
}


def plant(ask: Ask, clock: Clock) -> None:
    ask.put(
        changes=[
            upsert(
                "facts/limit-old", name="Upload limit", content="An upload has at most 10 MB.", tags=["contradicted"]
            ),
            upsert("facts/quota-old", name="Mail quota", content="It is 1 GB."),
            upsert("keys", name="Key vault", content="Keeps keys."),
            upsert("ledger", name="Ledger", content="Books all payments."),
            upsert("facts/port-2019", name="Port in 2019", content="The service listens on 8080."),
        ]
    )
    clock.days(100)
    ask.put(
        changes=[
            upsert("auth", name="Auth service", content="Signs tokens.", tags=["a"], data={"observations": ["x", "y"]}),
            upsert(
                "old/auth",
                name="Auth Service",
                content="Never cache a key.",
                tags=["b"],
                data={"observations": ["y", "z"], "port": 80},
            ),
            upsert("old/auth-2", name="auth service", content="Signs tokens."),
            upsert("mail/sender", name="Notification sender", content="Sends mail."),
            upsert("mail/senders", name="Notification senders", content="Retries thrice."),
            upsert("facts/quota", name="Mail quota", content="It is 5 GB.", tags=["correction"]),
            upsert("facts/limit", name="Upload limit", content="An upload has at most 50 MB."),
            upsert("facts/port", name="Port since 2024", content="The service listens on 443."),
            upsert("shop", name="Till", content="Where people pay."),
            upsert("note", name="Note", content="The Key vault is slow on Mondays."),
            upsert("services/pay/overview", name="Overview", content=PAYING),
            upsert("services/mail/overview", name="Overview", content=SENDING),
            upsert("release-1", name="Release notes 1", content="First."),
            upsert("release-2", name="Release notes 2", content="Second."),
            relate("old/auth", "keys", "depends_on"),
            relate("shop", "old/auth", "calls", 0.4),
            relate("facts/port", "facts/port-2019", "SUPERSEDES"),
            relate("shop", "ledger", "uses", 0.3),
            relate("shop", "ledger", "related_to", 0.9),
            relate("ledger", "keys", "uses", 0.3),
            relate("shop", "keys", "related_to", 0.6),
            relate("ledger", "shop", "related_to", 0.5),
            relate("note", "keys", "mentions"),
        ]
    )


TWIN = "Whoever opens the shop in the morning switches on the lights, the till and the coffee machine, in that order.\n"


@pytest.fixture
def planted(ask: Ask, clock: Clock) -> Ask:
    plant(ask, clock)
    return ask


@pytest.mark.requirement("U13")
def test_planted_doubles_and_stale_facts_are_proposed_and_nothing_else(planted: Ask, ws: Workspace) -> None:
    before = tree(ws)
    trial = planted.compress(dry_run=True)
    assert "proposal" not in trial
    found = planted.compress()
    right = named(found) & PLANTED
    print(f"precision {len(right) / len(named(found)):.2f}, recall {len(right) / len(PLANTED):.2f}")
    assert named(found) == named(trial) == PLANTED
    assert all(one["reason"] for one in found["changes"])
    assert tree(ws) == before, "a proposal changes nothing"


def test_next_steps_are_commands_for_users_and_tools_for_agents(planted: Ask) -> None:
    told = planted.compress()
    assert f"`kgd accept {told['proposal']}`" in told["next"].said(command)
    assert "resolve_conflicts" not in told["next"]
    planted.reject(name=told["proposal"])
    planted.put(changes=upsert("twin-a", content=TWIN) | {"relations": [], "name": "Twin"})
    planted.put(changes=upsert("twin-b", content=TWIN) | {"relations": [], "name": "Twin"})
    told = planted.ingest(kind="compression")
    assert f"resolve_conflicts with resolutions=[{{id: '{told['proposal']}', take: accept}}]" in told["next"]


@pytest.mark.slow
@pytest.mark.requirement("U13")
def test_half_is_accepted_and_taken_back_byte_for_byte_and_the_rest_too(planted: Ask, ws: Workspace) -> None:
    before = tree(ws)
    id = planted.compress()["proposal"]
    told = planted.proposals(name=id)["proposals"][0]["reasons"]
    assert {(one["kind"], *map(short, one["nodes"])) for one in told} == PLANTED
    for part in (["auth"], ["old/auth"], ["auth", "old/auth"]):
        with pytest.raises(Invalid, match="alone"):
            planted.accept(name=id, only=part)
    half = planted.accept(name=id, only=["auth", "old/auth", "old/auth-2", "facts/limit-old"])
    assert half["left"] == 6
    [node] = planted.get(uris="old/auth-2")["nodes"]
    assert node["uri"] == "concept://shop/auth"
    assert node["content"] == "Signs tokens.\n\nNever cache a key.\n"
    assert (node["tags"], node["data"]["observations"], node["data"]["port"]) == (["a", "b"], ["x", "y", "z"], 80)
    assert [(one["type"], short(one["target"])) for one in node["relations"]] == [("depends_on", "keys")]
    walked = planted.traverse(start="shop")["nodes"]
    assert "concept://shop/auth" in {one["uri"] for one in walked}, "what led to the double leads to what it became"
    [old] = planted.get(uris="facts/limit-old")["nodes"]
    assert (old["content"], old["tags"]) == ("An upload has at most 10 MB.", ["contradicted", "superseded"])
    assert [(one["type"], short(one["target"])) for one in old["relations"]] == [("superseded_by", "facts/limit")]
    assert planted.get(uris="mail/senders")["nodes"][0]["uri"] == "concept://shop/mail/senders"
    log = ws.history.entries(limit=1)[0]
    assert log.subject == "compress: 3 marks, 2 merges, 2 prunings, a part of it"
    assert [line.split()[1] for line in log.body.splitlines() if line.startswith("[")] == ["mark", "merge"], (
        "each change that was taken, with its reason"
    )
    rest = planted.compress()
    assert (rest["changes"], len(rest["waiting"])) == ([], 1), "waiting changes are not proposed again"
    planted.undo()
    assert tree(ws) == before
    whole = planted.accept(name=id)
    assert whole["left"] == 0
    assert planted.proposals()["proposals"] == []
    again = planted.compress()
    assert (again["changes"], "proposal" in again) == ([], False), "once accepted there is nothing more to say"
    planted.revert(commit=whole["commit"])
    assert tree(ws) == before


def test_the_newer_fact_ranks_first_once_the_old_one_is_marked(planted: Ask) -> None:
    ranks = []
    for accepted in (False, True):
        if accepted:
            planted.accept(name=planted.compress(kinds=["marks"])["proposal"])
        hits = planted.search(query="service listens")["hits"]
        scores = {short(hit["uri"]): hit["score"] for hit in hits}
        ranks.append(scores["facts/port-2019"] / scores["facts/port"])
    assert ranks[1] < ranks[0]
    assert ranks[1] < 1


@pytest.mark.requirement("U13")
def test_a_rejected_change_returns_only_after_its_nodes_change(planted: Ask) -> None:
    planted.reject(name=planted.compress()["proposal"], reason="not now")
    assert planted.compress()["changes"] == []
    planted.put(changes=[{"op": "append", "uri": "mail/senders", "text": "Or five times."}])
    assert named(planted.compress()) == {("merge", "mail/sender", "mail/senders")}


def test_two_runs_at_once_make_one_proposal(planted: Ask) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: planted.compress(), range(4)))
    ids = {one["proposal"] for one in found if "proposal" in one}
    assert len(ids) == 1
    assert [one["id"] for one in planted.proposals()["proposals"]] == list(ids)


def test_kinds_and_a_namespace_restrict_the_proposal(planted: Ask) -> None:
    assert {kind for kind, *_ in named(planted.compress(kinds=["merges"], dry_run=True))} == {"merge"}
    below = planted.compress(below="concept://shop/facts", dry_run=True)
    assert named(below) == {one for one in PLANTED if one[1].startswith("facts/")}
    assert named(planted.compress(below="facts/", dry_run=True)) == named(below)


def test_an_old_proposal_keeps_later_writes(planted: Ask) -> None:
    id = planted.compress(kinds=["merges"])["proposal"]
    planted.put(
        changes=[upsert("auth", summary="Signs and checks tokens."), {"op": "append", "uri": "keys", "text": "Other."}]
    )
    done = planted.accept(name=id)
    [node] = planted.get(uris="old/auth")["nodes"]
    assert (short(node["uri"]), node["summary"]) == ("auth", "Signs and checks tokens.")
    assert "Never cache a key." in node["content"]
    assert done["left"] == 0


def test_a_double_that_was_edited_since_is_not_lost(planted: Ask) -> None:
    id = planted.compress(kinds=["merges"])["proposal"]
    planted.put(changes=[{"op": "append", "uri": "old/auth", "text": "Keys live for a day."}])
    planted.accept(name=id)
    [node] = planted.get(uris="old/auth")["nodes"]
    assert (short(node["uri"]), "Keys live for a day." in node["content"]) == ("auth", True)
    assert planted.proposals()["proposals"] == []


def test_old_broken_links_and_unfollowed_relations_are_pruned(ask: Ask, ws: Workspace, clock: Clock) -> None:
    ask.put(
        changes=[
            upsert("a", name="Alpha"),
            upsert("gone", name="Goes"),
            relate("a", "gone", "uses"),
            relate("a", "never", "uses"),
        ]
    )
    clock.days(200)
    ask.put(changes=[{"op": "delete", "uri": "gone"}, upsert("b", name="Beta"), relate("b", "later", "uses")])
    shown = {
        (f"concept://shop/{one}", "concept://shop/x", "related_to"): count
        for one, count in (("idle", 40), ("lively", 60))
    }
    ask.put(
        changes=[
            *map(upsert, ("x", "idle", "lively")),
            relate("idle", "x", "related_to"),
            relate("lively", "x", "related_to"),
        ]
    )
    tally = Tally(60, 60, 60)
    tally.offered.update({(Uri(a), Uri(b), type): count for (a, b, type), count in shown.items()})
    tally.followed.update({(Uri("concept://shop/lively"), Uri("concept://shop/x"), "related_to"): 30})
    UsageFile(ws.layout.derived_dir / "usage.sqlite").add(tally, ws.now())
    found = ask.compress()
    assert named(found) == {("prune", "a"), ("prune", "idle")}
    reasons = {short(one["nodes"][0]): one["reason"] for one in found["changes"]}
    assert "never" in reasons["a"]
    assert "gone" not in reasons["a"], "that one leads nowhere since today"
    assert "never followed" in reasons["idle"]
    ask.accept(name=found["proposal"])
    [a] = ask.get(uris="a")["nodes"]
    assert [short(one["target"]) for one in a["relations"]] == ["gone"]


def test_a_change_that_is_impossible_costs_itself_alone(ask: Ask) -> None:
    for number in (1, 2):
        tags = [f"tag {number}.{n}" for n in range(200)]
        ask.put(changes=[upsert(f"{'old/' * number}mail", name="Mail server", tags=tags)])
    ask.put(changes=[upsert("auth", name="Auth service"), upsert("old/auth", name="Auth Service")])
    found = ask.compress()
    assert named(found) == {("merge", "auth", "old/auth")}
    assert "256 tags" in found["trouble"][0]
    assert ask.accept(name=found["proposal"])["left"] == 0


def test_a_decision_that_was_superseded_is_marked_in_its_file_too(ask: Ask) -> None:
    for name, text in (("db-2019", "We use MySQL."), ("db", "We use Postgres.")):
        ask.put(changes=[upsert(f"decision://shop/{name}", name=text, summary=text)])
    ask.put(changes=[relate("decision://shop/db", "decision://shop/db-2019", "supersedes")])
    found = ask.compress()
    assert named(found) == {("mark", "db-2019")}
    ask.accept(name=found["proposal"])
    [old] = ask.get(uris="decision://shop/db-2019")["nodes"]
    assert old["tags"] == ["superseded"]
    assert ask.compress()["changes"] == []


@pytest.mark.slow
def test_a_big_find_is_proposed_in_pieces_that_a_person_can_read(ask: Ask) -> None:
    names = [
        f"{one} {two}"
        for one in ("Mail", "Shop", "Card", "Bank", "Hotel", "Ticket", "Garden", "River")
        for two in ("writer", "reader", "server", "planner", "keeper", "finder", "maker")
    ]
    ask.put(
        changes=[
            upsert(f"{place}/{name.lower().replace(' ', '-')}", name=name)
            for place in ("a", "some/other")
            for name in names
        ]
    )
    seen = set()
    for turn in range(4):
        found = ask.compress()
        if not found["changes"]:
            break
        assert len(found["changes"]) <= 40
        seen |= named(found)
        ask.accept(name=found["proposal"]) if turn else ask.reject(name=found["proposal"])
    assert len(seen) == len(names)
    assert found["more"] == 0


def test_a_foreign_proposal_named_compress_neither_hides_nor_joins_a_change(planted: Ask, ws: Workspace) -> None:
    trial = planted.compress(kinds=["merges"])
    theirs = ws.store.commit(bytes.fromhex(planted.proposals()["proposals"][0]["commit"]))
    planted.reject(name=trial["proposal"])
    git_dir = str(ws.layout.git_dir)
    for ref in subprocess.run(
        ["git", "--git-dir", git_dir, "for-each-ref", "--format=%(refname)", "refs/kgd/rejected"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split():
        subprocess.run(["git", "--git-dir", git_dir, "update-ref", "-d", ref], check=True)
    made = subprocess.run(
        ["git", "--git-dir", git_dir, "commit-tree", theirs.tree.hex(), "-p", ws.tip, "-F", "-"],
        input=theirs.message,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    subprocess.run(["git", "--git-dir", git_dir, "update-ref", "refs/heads/proposals/compress-7", made], check=True)
    assert named(planted.compress(kinds=["merges"], dry_run=True)) == named(trial)


def test_a_relation_to_both_duplicates_becomes_one_to_the_kept_node(ask: Ask, ws: Workspace) -> None:
    ask.put(
        changes=[
            upsert("auth", name="Auth service"),
            upsert("old/auth", name="Auth Service"),
            upsert("shop"),
            relate("shop", "auth", "uses", 0.5),
            relate("shop", "old/auth", "uses", 0.2),
            relate("old/auth", "auth", "related_to"),
            relate("auth", "old/auth", "same_as"),
        ]
    )
    ask.accept(name=ask.compress()["proposal"])
    out = ws.graph.out(Uri("concept://shop/shop"))
    assert [(edge.type, edge.target, edge.weight) for edge in out] == [("uses", "concept://shop/auth", 0.2)]
    assert list(ws.graph.out(Uri("concept://shop/auth"))) == []
    assert ask.compress()["changes"] == []
