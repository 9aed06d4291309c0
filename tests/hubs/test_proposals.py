"""Proposals over several hubs: made at one, seen, continued and decided at another; and pushes over git."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from kgd.git.refs import PENDING
from tests.hub.conftest import Answer, Hub
from tests.hub.test_git import Clone
from tests.hubs.conftest import Team
from tests.sync.people import git
from tests.waiting import until

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.slow]
X, Y = "nodes/concept/services/x.yaml", "nodes/concept/services/y.yaml"


def submit(hub: Hub, token: str, path: str, request: str = "") -> Answer:
    change = {"op": "upsert", "uri": f"concept://infra/{path}", "summary": "proposed"}
    return hub.post(
        token, "infra/submit_subgraph", {"changes": [change], **({"request_id": request} if request else {})}
    )


def proposed(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    return str(answer.json["proposal"]).partition("@")[0]


def listed(hub: Hub, token: str) -> list[str]:
    return [one["id"].partition("@")[0] for one in hub.post(token, "infra/proposals").json["proposals"]]


def shown(hub: Hub, token: str, name: str) -> tuple[str, str]:
    (found,) = hub.post(token, "infra/proposals", {"name": name}).json["proposals"]
    return found["commit"], found["pushed_by"]


def pending(upstream: Path) -> list[str]:
    names = git(upstream, "for-each-ref", "--format=%(refname)", PENDING).split()
    return [name.removeprefix(f"{PENDING}infra/") for name in names]


def cloned(team: Team, hub: Hub, token: str, name: str) -> Clone:
    at = team.folder / name
    subprocess.run(["git", "clone", "-q", hub.git_url(token), at], check=True)
    return Clone(at)


@pytest.mark.requirement("N6")
def test_a_proposal_is_seen_continued_withdrawn_and_decided_at_any_hub(team: Team) -> None:
    first, second = team.start(2)
    first.put("concept://infra/services/x", summary="one")
    bot = first.mint("propose", "/services/**", name="bot", also=["read:/**"])
    other, ann = first.mint("propose", name="bot", also=["read:/**"]), first.mint("read,write", name="ann")

    name = proposed(submit(first, bot, "services/new"))
    assert pending(team.upstream) == [name]
    until(lambda: listed(second, ann) == [name])
    commit = second.post(ann, "infra/accept", {"name": name}).json["commit"]
    assert (git(team.upstream, "rev-parse", "main"), pending(team.upstream)) == (commit, [])
    late = first.post(ann, "infra/accept", {"name": name})
    assert (late.status, "ann accepted it" in late.json["detail"]) == (404, True), late.body

    mine = cloned(team, first, bot, "mine")
    mine.edit(X, "By hand")
    assert "waits for review: refs/heads/proposals/bot-2" in mine.git("push", first.git_url(bot), "HEAD:main")
    assert pending(team.upstream) == ["bot-2"]
    last = mine.edit(Y, "More")
    said = mine.git("push", second.git_url(other), "HEAD:refs/heads/proposals/bot-2", ok=False)
    assert "another token's proposal has that name" in said
    mine.git("push", second.git_url(bot), "HEAD:refs/heads/proposals/bot-2")
    pusher = f"bot ({bot.split('_')[2]})"
    until(lambda: shown(first, ann, "bot-2") == (last, pusher))

    assert second.post(ann, "infra/reject", {"name": "bot-2", "reason": "too early"}).status == 200
    assert pending(team.upstream) == []
    until(lambda: listed(first, ann) == [])
    told = first.post(ann, "infra/proposals", {"name": "bot-2"})
    assert "ann rejected it" in told.json["detail"]
    assert "too early" in told.json["detail"]

    second_name = proposed(submit(second, bot, "services/x"))
    assert second_name == "bot-3", "the name of a decided proposal is not used again"
    assert first.post(other, "infra/reject", {"name": second_name}).status == 403
    assert first.post(bot, "infra/reject", {"name": second_name}).status == 200, "the owner may withdraw it anywhere"
    until(lambda: listed(second, ann) == [])


@pytest.mark.requirement("N6")
def test_a_push_over_git_is_answered_when_the_upstream_has_it(team: Team) -> None:
    first, second = team.start(2)
    first.put("concept://infra/services/x", summary="one")
    token = first.mint("read,write")
    mine = cloned(team, first, token, "mine")
    commit = mine.edit(X, "Two")
    mine.git("push", second.git_url(token), "HEAD:main")
    assert git(team.upstream, "rev-parse", "main") == commit
    first.put("concept://infra/services/z", summary="of another hub")
    late = mine.edit(Y, "Three")
    assert "fetch first" in mine.git("push", second.git_url(token), "HEAD:main", ok=False)
    mine.git("push", second.git_url(token), "HEAD:refs/for/main")
    assert late in git(team.upstream, "rev-list", "main").split()
    files = git(team.upstream, "ls-tree", "-r", "--name-only", "main", "nodes").split()
    assert {X, Y, "nodes/concept/services/z.yaml"} <= set(files)
    narrow = first.mint("write", "/services/**", name="narrow", also=["read:/**"])
    first.put("concept://infra/app", summary="not for this token")
    mine.git("pull", "-q", "--no-rebase", first.git_url(token), "main")
    last = mine.edit(X, "Four")
    mine.git("push", second.git_url(narrow), "HEAD:main")
    assert git(team.upstream, "rev-parse", "main") == last


def kill_after_push(team: Team, hub: Hub) -> None:
    """Kill the hub after the upstream accepts its next push, before the hub learns of this."""
    assert hub.process is not None
    hook = team.upstream / "hooks" / "post-receive"
    hook.write_text(f'#!/bin/sh\nrm "$0"\nkill -9 {hub.process.pid}\n')
    os.chmod(hook, 0o755)


@pytest.mark.requirement("N6")
def test_a_hub_that_is_killed_before_it_answers_has_proposed_or_decided_once(team: Team) -> None:
    first, second = team.start(2)
    first.put("concept://infra/services/x", summary="one")
    bot, ann = first.mint("propose", name="bot"), first.mint("read,write", name="ann")

    kill_after_push(team, first)
    with pytest.raises((OSError, http.client.HTTPException)):
        submit(first, bot, "services/a", "r1")
    (name,) = pending(team.upstream)
    until(lambda: submit(second, bot, "services/a", "r1").status == 200)
    answer = submit(second, bot, "services/a", "r1")
    assert (proposed(answer), answer.json["repeated"], pending(team.upstream)) == (name, True, [name])

    first.stop(signal.SIGKILL)
    first.start()
    until(lambda: listed(first, ann) == [name])
    kill_after_push(team, first)
    with pytest.raises((OSError, http.client.HTTPException)):
        first.post(ann, "infra/accept", {"name": name})
    assert pending(team.upstream) == []
    late = second.post(ann, "infra/accept", {"name": name})
    assert (late.status, "ann accepted it" in late.json["detail"]) == (404, True), late.body
    assert git(team.upstream, "log", "--format=%s", "--grep=Kgd-Origin: proposals/", "main").count("\n") == 0

    name = proposed(submit(second, bot, "services/b"))
    mine = cloned(team, second, ann, "mine")
    commit = mine.edit(X, "By hand")
    kill_after_push(team, second)
    mine.git("push", "origin", "HEAD:main", ok=False)
    (new,) = team.start(1, cloned=True)  # as after the loss of its disk
    mine.git("push", new.git_url(ann), "HEAD:main")
    assert git(team.upstream, "rev-parse", "main") == commit
    until(lambda: listed(new, ann) == [name])
    assert new.post(bot, "infra/reject", {"name": name}).status == 200, "it knows the owner"
    assert pending(team.upstream) == []


@pytest.mark.requirement("N6")
def test_of_simultaneous_decisions_one_takes_effect_and_a_quota_covers_both_hubs(team: Team) -> None:
    first, second = team.start(2)
    first.put("concept://infra/services/x", summary="one")
    bot, ann = first.mint("propose", name="bot", pending_proposals=2), first.mint("read,write", name="ann")

    asked = [(hub, number) for number in range(3) for hub in (first, second)]
    together(
        {f"{hub.folder.name}-{n}": partial(submit, hub, bot, f"services/{hub.folder.name}-{n}") for hub, n in asked}
    )
    assert len(pending(team.upstream)) <= 2
    for hub in (first, second):
        until(lambda hub=hub: submit(hub, bot, "services/last").status == 413)  # type: ignore[misc]
    assert len(pending(team.upstream)) == 2

    for name in pending(team.upstream):
        for hub in (first, second):
            until(lambda hub=hub, name=name: name in listed(hub, ann))  # type: ignore[misc]
        before = git(team.upstream, "rev-parse", "main")
        decided = together(
            {
                "accept": partial(first.post, ann, "infra/accept", {"name": name}),
                "reject": partial(second.post, ann, "infra/reject", {"name": name}),
            }
        )
        won = [how for how, answer in decided.items() if answer.status == 200]
        assert len(won) == 1, {how: answer.body for how, answer in decided.items()}
        assert (git(team.upstream, "rev-parse", "main") != before) == (won == ["accept"])
        told = second.post(ann, "infra/proposals", {"name": name}).json["detail"]
        assert f"ann {won[0]}ed it" in told
    assert pending(team.upstream) == []


def together(acts: dict[str, partial[Answer]]) -> dict[str, Answer]:
    """The answers of calls at the same moment."""
    with ThreadPoolExecutor(len(acts)) as pool:
        running = {name: pool.submit(act) for name, act in acts.items()}
        return {name: one.result() for name, one in running.items()}
