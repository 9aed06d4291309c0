"""Proposals of a hub are listed and decided in a home that joined it, and in a clone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.cli.output import advised
from kgd.errors import Forbidden, NotFound
from kgd.git.refs import move_ref
from kgd.workspace.proposals import decided as module
from tests.hub.conftest import Hub
from tests.sync.people import Person, bare, git

pytestmark = pytest.mark.slow

X, Y = "concept://infra/services/x", "concept://infra/services/y"


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Callable[..., Person]]:
    made: list[Person] = []

    def make(name: str, **more: Any) -> Person:
        made.append(Person(tmp_path / name, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def propose(hub: Hub, token: str, *uris: str, summary: str = "proposed") -> str:
    changes = [{"op": "upsert", "uri": uri, "summary": summary} for uri in uris]
    answer = hub.post(token, "infra/submit_subgraph", {"changes": changes})
    assert answer.json["outcome"] == "proposed", answer.body
    return str(answer.json["proposal"]).partition("@")[0]


def listed(hub: Hub) -> list[str]:
    return [one["id"].partition("@")[0] for one in hub.call("proposals", workspace="infra")["proposals"]]


def ids(answer: dict[str, Any]) -> list[str]:
    return [one["id"].partition("@")[0] for one in answer["proposals"]]


def test_from_a_joined_home_the_author_finds_the_comments_to_answer(
    own_hub: Callable[..., Hub], person: Callable[..., Person]
) -> None:
    hub = own_hub().start()
    bot = hub.mint("propose", "/services/**", name="bot")
    first, _ = propose(hub, bot, X), propose(hub, bot, Y)
    ann, ben = person("ann", id="desk"), person("ben", id="desk")
    ann.call("join", url=hub.url, token=hub.mint("read,write", name="ann"))
    ben.call("join", url=hub.url, token=bot)
    ann.call("comment", workspace="infra", name=first, text="Why?")
    answer = ben.call("proposals", workspace="infra", unanswered=True)
    assert (ids(answer), [said["text"] for said in answer["proposals"][0]["discussion"]]) == ([first], ["Why?"])
    assert advised(answer)["next"] == "`kgd comment ID TEXT` answers."
    assert ids(ann.call("proposals", workspace="infra", unanswered=True)) == []
    sent = ben.call("submit_subgraph", remote="infra", changes=[{"op": "upsert", "uri": X, "summary": "other"}])
    assert sent["warnings"] == [
        "your proposals have comments to answer: `kgd proposals --unanswered -w infra` shows them"
    ]


@pytest.mark.requirement("B5")
def test_from_a_joined_home_they_are_listed_and_decided_within_the_token(
    own_hub: Callable[..., Hub], person: Callable[..., Person]
) -> None:
    hub = own_hub().start()
    bot = hub.mint("propose", "/services/**", name="bot")
    first, second, third = (propose(hub, bot, *uris) for uris in ((X, Y), (Y,), (X,)))
    ann, ben = person("ann", id="desk"), person("ben", id="desk")
    ann.call("join", url=hub.url, token=hub.mint("read,write", name="ann"))
    ben.call("join", url=hub.url, token=bot)
    all_of_them = ann.call("proposals", workspace="infra")
    assert ids(all_of_them) == [first, second, third]
    assert advised(all_of_them)["next"].startswith("`kgd accept ID` or `kgd reject ID` decides")
    (shown,) = ann.call("proposals", workspace="infra", name=first)["proposals"]
    assert [change["uri"] for change in shown["diff"]] == [X, Y]
    would = ann.call("accept", workspace="infra", name=first, only=[X], dry_run=True)
    assert (would["commit"], listed(hub)) == (None, [first, second, third])
    done = ann.call("accept", workspace="infra", name=first, only=[X])
    assert (done["left"], done["nodes"][0]["uri"]) == (1, X)
    ann.call("reject", workspace="infra", name=first, reason="not y")
    assert listed(hub) == [second, third]
    with pytest.raises(Forbidden):
        ben.call("accept", workspace="infra", name=second)
    assert ids(ben.call("proposals", workspace="infra")) == [second, third]
    hint = advised(ben.call("proposals", workspace="infra"))["next"]
    assert "1 of your proposals was decided lately: see `kgd proposals --decided -w infra`." in hint
    nothing = ben.call("proposals", workspace="infra", since="2999-01-01", unanswered=True)
    assert advised(nothing)["next"].startswith("'2999-01-01' is in the future")
    (over,) = ben.call("proposals", workspace="infra", decided=True)["decided"]
    assert (over["id"].partition("@")[0], over["decision"], over["reason"]) == (first, "partly accepted", "not y")
    ben.call("reject", workspace="infra", name=second)
    assert listed(hub) == [third], "who put it up may take it back"
    with pytest.raises(NotFound):
        ann.call("reject", workspace="infra", name=second)


def clone(hub: Hub, token: str, at: Path) -> Path:
    subprocess.run(["git", "clone", "-q", hub.git_url(token), at], check=True)
    return at


def test_in_a_clone_a_rejection_is_the_hubs_where_the_token_may(
    own_hub: Callable[..., Hub], person: Callable[..., Person], tmp_path: Path
) -> None:
    hub = own_hub().start()
    bot = hub.mint("propose", "/services/**", name="bot")
    first, second, third = (propose(hub, bot, uri, summary=text) for uri, text in ((X, "x"), (Y, "y"), (X, "other x")))
    ann = person("ann", tree=clone(hub, hub.mint("read,write", name="ann"), tmp_path / "ann" / "k"))
    eve = person("eve", tree=clone(hub, hub.mint("read", name="eve"), tmp_path / "eve" / "k"))
    for one in (ann, eve):
        one.call("share", sync=0)
        assert set(ids(one.call("proposals"))) == {f"origin/{name}" for name in (first, second, third)}
    said = eve.call("reject", name=f"origin/{first}")
    assert "may" in said["still_there"], said
    assert (len(ids(eve.call("proposals"))), listed(hub)) == (2, [first, second, third])
    assert "still_there" not in ann.call("reject", name=f"origin/{first}", reason="no")
    assert listed(hub) == [second, third]
    ann.call("accept", name=f"origin/{second}")
    assert ann.sync()["state"] == "ok"
    assert listed(hub) == [third], "a proposal accepted elsewhere is no longer open"


def test_an_acceptance_in_a_clone_is_archived_there_and_on_the_hub(
    own_hub: Callable[..., Hub], person: Callable[..., Person], tmp_path: Path
) -> None:
    hub = own_hub().start()
    bot = hub.mint("propose", "/services/**", name="bot")
    whole, parts = propose(hub, bot, X), propose(hub, bot, Y, f"{Y}2")
    ann = person("ann", tree=clone(hub, hub.mint("read,write", name="ann"), tmp_path / "ann" / "k"))
    eve = person("eve", tree=clone(hub, hub.mint("read", name="eve"), tmp_path / "eve" / "k"))
    for one in (ann, eve):
        one.call("share", sync=0)
    ann.call("accept", name=f"origin/{whole}")
    ann.call("accept", name=f"origin/{parts}", only=[Y])
    assert decided(ann.call("proposals", decided=True)) == [(f"origin/{whole}", "accepted", [X])]
    ann.call("accept", name=f"origin/{parts}", only=[f"{Y}2"])
    here = decided(ann.call("proposals", decided=True))
    assert here == [(f"origin/{whole}", "accepted", [X]), (f"origin/{parts}", "accepted", [Y, f"{Y}2"])]
    assert ann.sync()["state"] == "ok"
    assert listed(hub) == [], "a proposal of which all parts are accepted is no longer open"
    there = hub.call("proposals", workspace="infra", decided=True)
    assert decided(there) == [(whole, "accepted", [X]), (parts, "accepted", [Y, f"{Y}2"])]
    assert {one["decided_by"] for one in there["decided"]} == {"ann"}, "the holder, not the name that a commit claims"
    ann.sync()
    assert ids(ann.call("proposals")) == []
    eve.sync()
    assert decided(eve.call("proposals", decided=True)) == here, "other clones see the decisions too"


def decided(answer: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    return sorted((one["id"].partition("@")[0], one["decision"], one["nodes"]) for one in answer["decided"])


def shared_on_plain_git(person: Callable[..., Person], tmp_path: Path) -> tuple[Path, Person, Person, tuple[str, str]]:
    """A plain git server, Ann, Bob, and the names of two proposals by Bob that Ann has received."""
    server, ann, bob = bare(tmp_path / "server.git"), person("ann"), person("bob")
    for one in (ann, bob):
        one.share(server, sync=0)

    def proposed(uri: str) -> str:
        change = {"op": "upsert", "uri": uri, "summary": "by Bob"}
        answer = bob.call("submit_subgraph", remote="origin", changes=[change])
        return str(answer["proposal"]).removeprefix("proposals/")

    names = proposed(X), proposed(Y)
    ann.sync()
    return server, ann, bob, names


def test_on_a_plain_git_server_the_proposer_sees_the_acceptance_in_another_clone(
    person: Callable[..., Person], tmp_path: Path
) -> None:
    _, ann, bob, names = shared_on_plain_git(person, tmp_path)
    bob.sync()
    ann.call("accept", name=f"origin/{names[0]}")
    ann.call("reject", name=f"origin/{names[1]}", reason="no")
    ann.sync()
    bob.sync()
    assert decided(bob.call("proposals", decided=True)) == [(f"origin/{names[0]}", "accepted", [X])]


def test_on_a_plain_git_server_an_old_acceptance_is_not_archived_again_by_each_pull(
    person: Callable[..., Person], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DAYS", -1)
    archived = list[str]()

    def archives(git_dir: Path, scratch: Path, ref: str, *commits: bytes, **more: Any) -> None:
        archived.append(ref)
        move_ref(git_dir, scratch, ref, *commits, **more)

    monkeypatch.setattr(module, "move_ref", archives)
    server, ann, bob, names = shared_on_plain_git(person, tmp_path)
    bob.sync()
    ann.call("accept", name=f"origin/{names[0]}")
    ann.sync()
    bob.sync()
    assert f"proposals/{names[0]}" in git(server, "for-each-ref"), "nobody deletes it there"
    assert ids(bob.call("proposals")) == [f"origin/{names[1]}"]
    assert archived == []


def test_on_a_plain_git_server_a_rejected_proposal_is_deleted_where_that_is_allowed(
    person: Callable[..., Person], tmp_path: Path
) -> None:
    server, ann, _, names = shared_on_plain_git(person, tmp_path)
    first, second = names
    assert "still_there" not in ann.call("reject", name=f"origin/{first}")
    assert git(server, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/proposals") == f"proposals/{second}"
    git(server, "config", "receive.denyDeletes", "true")
    assert "deletion" in ann.call("reject", name=f"origin/{second}")["still_there"]
    ann.sync()
    assert ids(ann.call("proposals")) == []
