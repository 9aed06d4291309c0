"""What conversations read together speaks for relations and weights; what they read by chance speaks for nothing."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.errors import Invalid, NotFound
from kgd.index.usage_file import MOST_PAIRS, UsageFile
from kgd.model.access import Principal, Scope
from kgd.model.uri import Uri
from kgd.model.usage import IDLE_SECONDS, MOST_READ, Conversations, Link, Suggestion, Tally, poisson_tail, suggestions
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, git, upsert

NODES = [Uri(f"concept://shop/n{number}") for number in range(40)]


def counted(*conversations: list[Uri]) -> Tally:
    tally, under_way = Tally(), Conversations()
    for number, read in enumerate(conversations):
        under_way.read(tally, f"c{number}", read, 0.0)
    return tally


def of(tally: Tally, weights: dict[Link, float] | None = None) -> list[Suggestion]:
    known = weights or {}

    def between(a: Uri, b: Uri) -> tuple[Link, float] | None:
        return next(((link, weight) for link, weight in known.items() if {a, b} == {link[0], link[1]}), None)

    return suggestions(tally, between, known.get)


def by_lot(rng: random.Random, conversations: int, *, popular: bool = False, sizes: tuple[int, int] = (1, 8)) -> Tally:
    """A random log: popular nodes are read more often, some conversations read more."""
    weights = [1 / (rank + 1) for rank in range(len(NODES))] if popular else None
    drawn = []
    for _ in range(conversations):
        size = rng.randint(*sizes)
        drawn.append(list(dict.fromkeys(rng.choices(NODES, weights, k=size))))
    return counted(*drawn)


@pytest.mark.requirement("E19")
def test_a_planted_habit_is_suggested_with_its_reason_and_nothing_else_is() -> None:
    rng = random.Random(19)
    a, b = NODES[3], NODES[17]
    log = [[rng.choice(NODES) for _ in range(rng.randint(1, 6))] for _ in range(200)]
    log += [[a, b, rng.choice(NODES)] for _ in range(24)]
    (one,) = of(counted(*(list(dict.fromkeys(read)) for read in log)))
    assert (one.kind, one.source, one.target, one.type, one.now) == ("relate", min(a, b), max(a, b), "related_to", None)
    assert 0 < one.weight < 0.8
    assert f"read together in {one.count} of" in one.reason
    (shorter,) = of(counted(*(list(dict.fromkeys(read)) for read in log)), {(b, a, "uses"): 1.0})
    assert (shorter.kind, shorter.source, shorter.target, shorter.type) == ("shorten", b, a, "uses")
    assert (shorter.now, shorter.weight) == (1.0, one.weight)
    assert of(counted(*(list(dict.fromkeys(read)) for read in log)), {(b, a, "uses"): one.weight}) == []


@pytest.mark.slow
@pytest.mark.requirement("E19")
@pytest.mark.parametrize("popular", [False, True])
def test_random_use_suggests_nothing(popular: bool) -> None:
    wrong = sum(len(of(by_lot(random.Random(seed), 120, popular=popular, sizes=(1, 12)))) for seed in range(100))
    assert wrong == 0


@pytest.mark.slow
@pytest.mark.requirement("E19")
def test_of_a_thousand_random_logs_at_most_a_handful_suggests_something(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = {"even": (False, (1, 8)), "popular": (True, (1, 8)), "in bursts": (True, (1, 40))}
    wrong = dict.fromkeys(kinds, 0)
    for seed in range(1_000):
        name = list(kinds)[seed % 3]
        popular, sizes = kinds[name]
        wrong[name] += bool(of(by_lot(random.Random(seed), 150, popular=popular, sizes=sizes)))
    with capsys.disabled():
        print(f"\nof 1,000 random logs {sum(wrong.values())} had a suggestion: {wrong}")
    assert sum(wrong.values()) <= 5


def walks(rng: random.Random, links: list[Link], conversations: int, follow: Any) -> Tally:
    tally, under_way = Tally(), Conversations()
    for number in range(conversations):
        start = rng.choice(NODES[:5])
        under_way.read(tally, f"c{number}", [start], 0.0)
        shown = [link for link in links if link[0] == start]
        under_way.shown(tally, f"c{number}", shown, 0.0)
        under_way.read(tally, f"c{number}", [link[1] for link in shown if rng.random() < follow(link)], 1.0)
    return tally


@pytest.mark.requirement("E19")
def test_a_never_followed_relation_is_suggested_to_cost_more() -> None:
    links: list[Link] = [(start, NODES[10 + 4 * n + m], "uses") for n, start in enumerate(NODES[:5]) for m in range(4)]
    weights, dull = dict.fromkeys(links, 0.2), links[7]
    tally = walks(random.Random(1), links, 400, lambda link: 0.0 if link == dull else 0.3)
    found = [one for one in of(tally, weights) if one.kind == "lengthen"]
    assert [(one.source, one.target, one.type) for one in found] == [dull]
    assert (found[0].now, found[0].weight) == (0.2, 0.6)
    assert "never followed" in found[0].reason
    assert [one for one in of(tally, {**weights, dull: 1.0}) if one.kind == "lengthen"] == []
    for seed in range(60):
        even = walks(random.Random(seed), links, 200, lambda link: 0.15)
        assert [one for one in of(even, weights) if one.kind == "lengthen"] == []


def test_silence_ends_a_conversation_and_a_flood_of_reads_is_not_one() -> None:
    tally, under_way = Tally(), Conversations()
    under_way.read(tally, "c", NODES[:2], 0.0)
    under_way.read(tally, "c", NODES[1:3], IDLE_SECONDS + 1)
    assert tally.conversations == 2
    assert tally.pairs == {(NODES[0], NODES[1]): 1, (NODES[1], min(NODES[2], NODES[2])): 1}
    many = [Uri(f"concept://shop/m{number}") for number in range(5 * MOST_READ)]
    under_way.read(tally, "d", many, 0.0)
    assert tally.reads == 4 + MOST_READ


@given(st.integers(0, 60), st.floats(0.001, 40))
def test_the_odds_follow_the_poisson_distribution(count: int, expected: float) -> None:
    import math

    below = sum(math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in range(count))
    assert poisson_tail(count, expected) == pytest.approx(1 - below, abs=1e-9)


@pytest.mark.slow
def test_counts_of_two_spans_add_up_stay_bounded_and_may_be_deleted(tmp_path: Path) -> None:
    file = UsageFile(tmp_path / "usage.sqlite")
    first, second = by_lot(random.Random(1), 30), by_lot(random.Random(2), 30)
    file.add(first, 1)
    file.add(second, 2)
    found = file.tally(1)
    assert (found.conversations, found.reads, found.squares) == (
        60,
        first.reads + second.reads,
        first.squares + second.squares,
    )
    assert found.nodes == first.nodes + second.nodes
    assert found.pairs == first.pairs + second.pairs
    assert (file.path.stat().st_mode & 0o777) == 0o600
    crowd = Tally()
    crowd.pairs.update((Uri(f"concept://shop/{a}"), Uri("concept://shop/z")) for a in range(MOST_PAIRS + 1))
    file.add(crowd, 3)
    assert len(file.tally(1).pairs) <= MOST_PAIRS
    assert max(file.tally(1).pairs.values()) == max(found.pairs.values())
    file.path.write_bytes(b"not a database at all, " * 100)
    file.add(first, 4)
    assert file.tally(1).nodes == first.nodes
    file.path.unlink()
    assert not file.tally(1)


def in_conversation(ask: Ask, number: int) -> Ask:
    return Ask(replace(ask.session, context_id=f"conversation-{number}"))


def used(ask: Ask) -> None:
    """Forty conversations that read anything; ten of them also read the tokens and walk from the keys."""
    rng = random.Random(4)
    ask.put(changes=[upsert(f"n{number}", summary="s") for number in range(30)])
    ask.put(changes=[upsert("tokens", summary="s"), upsert("keys", summary="s")])
    for number in range(40):
        asker = in_conversation(ask, number)
        for other in rng.sample(range(30), 3):
            asker.get(uris=f"n{other}")
        if number % 4 == 0:
            asker.get(uris="tokens")
            asker.traverse(start="keys")


@pytest.mark.slow
@pytest.mark.requirement("E19")
def test_a_suggestion_is_listed_accepted_as_one_commit_and_not_made_again(ask: Ask, ws: Workspace) -> None:
    used(ask)
    before = ask.history()["commits"]
    answer = ask.resolve_conflicts(ids=["suggestions"])
    (one,) = answer["suggestions"]
    assert (one["kind"], one["source"], one["target"]) == ("relate", "concept://shop/keys", "concept://shop/tokens")
    assert "accept" in answer["next"]
    assert ask.conflicts(suggestions=True)["suggestions"] == [one]
    assert ask.history()["commits"] == before  # counting writes nothing into the repository
    decided = ask.resolve_conflicts(resolutions=[{"id": one["id"], "take": "accept"}])["decided"]
    commit = ask.history(limit=1)["commits"][0]
    assert decided[0]["commit"] == commit["commit"]
    assert commit["author"].startswith("Ann Person")
    assert one["reason"][:40] in commit["message"]
    (relation,) = ask.get(uris="keys")["nodes"][0]["relations"]
    assert (relation["type"], relation["target"], relation["weight"]) == ("related_to", one["target"], one["weight"])
    assert ask.resolve_conflicts(ids=["suggestions"])["suggestions"] == []
    with pytest.raises(NotFound):
        ask.resolve_conflicts(resolutions=[{"id": one["id"], "take": "accept"}])


@pytest.mark.requirement("E19")
def test_a_suggestion_that_is_dismissed_stays_dismissed_and_changes_nothing(ask: Ask, ws: Workspace) -> None:
    used(ask)
    (one,) = ask.conflicts(suggestions=True)["suggestions"]
    with pytest.raises(Invalid):
        ask.resolve(resolutions=[{"id": one["id"], "take": "a"}])
    tip = ws.tip
    answer = ask.resolve(resolutions=[{"id": one["id"], "take": "reject"}])
    assert answer["commit"] is None
    assert "is dismissed" in answer["warnings"][0]
    assert ws.tip == tip
    assert ask.conflicts(suggestions=True)["suggestions"] == []


def test_usage_is_hidden_from_token_holders(ask: Ask) -> None:
    used(ask)
    (one,) = ask.conflicts(suggestions=True)["suggestions"]
    scope = Scope.of("shop", ["read", "write", "resolve"], ["/**"])
    holder = Ask(Session(ask.session.daemon, principal=Principal("tok1", "agent", "agent", (scope,))))
    assert holder.resolve_conflicts(ids=["suggestions"])["suggestions"] == []
    with pytest.raises(NotFound):
        holder.resolve_conflicts(resolutions=[{"id": one["id"], "take": "accept"}])


@pytest.mark.requirement("E19")
def test_weights_are_set_by_request(ask: Ask) -> None:
    ask.put(changes=[upsert("b"), upsert("a", relations=[{"type": "uses", "target": "b", "weight": 0.7}])])
    ask.put(changes={"op": "relate", "source": "a", "target": "b", "type": "uses", "weight": 0.25})
    assert ask.get(uris="a")["nodes"][0]["relations"][0]["weight"] == 0.25
    ask.put(changes={"op": "relate", "source": "a", "target": "b", "type": "uses", "data": {"why": "x"}})
    assert ask.get(uris="a")["nodes"][0]["relations"][0]["weight"] == 0.25


def test_counts_stay_on_this_machine_and_hold_no_words(ask: Ask, ws: Workspace) -> None:
    ask.put(changes=upsert("secret-plan", content="these words must not be counted\n"))
    in_conversation(ask, 1).get(uris="secret-plan")
    ask.conflicts(suggestions=True)
    file = ws.layout.derived_dir / "usage.sqlite"
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT uri, count FROM nodes").fetchall() == [("concept://shop/secret-plan", 1)]
    connection.close()
    assert b"words" not in file.read_bytes()
    listed = git(ws.layout.work_tree, "ls-tree", "-r", "--name-only", "HEAD")
    assert "usage" not in listed
    one_shot = call(replace(ask.session, context_id=None), "get", {"uris": ["secret-plan"]})
    assert "context_id" not in one_shot
