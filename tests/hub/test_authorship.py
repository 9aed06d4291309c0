"""Who pushed a commit is recorded beside it, shown in blame, history and review, and carried by clones."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hub.conftest import Hub
from tests.hub.test_git import Clone, clone  # noqa: F401
from tests.sync.people import Person

URI = "concept://infra/services/forged"
FILE = "nodes/concept/services/forged.yaml"


def push_as(mine: Clone, name: str, text: str, to: str = "HEAD:main") -> str:
    """Push a commit that names this author; the commit."""
    mine.git("config", "user.name", name)
    mine.git("config", "user.email", f"{name.lower()}@example.org")
    mine.git("pull", "-q", "--no-rebase", "--no-edit")
    file = mine.at / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"uri: {URI}\ncontent: |\n  {text}\n")
    commit = mine.commit(f"{text} of {name}")
    mine.git("push", "-q", "origin", to)
    return commit


@pytest.mark.slow
def test_history_blame_and_review_name_the_token_that_pushed(hub: Hub, clone: Callable[..., Clone]) -> None:  # noqa: F811
    token = hub.mint("read,write", name="Mallory")
    pushed_by = f"Mallory ({token.split('_')[2]})"
    commit = push_as(clone(token), "Boss", "signed")
    [entry] = hub.call("history", workspace="infra", commit=commit)["commits"]
    assert (entry["author"], entry["pushed_by"]) == ("Boss", pushed_by)
    [line] = hub.call("blame", workspace="infra", uri=URI)["ranges"]
    assert (line["commit"], line["author"], line["pushed_by"]) == (commit, "Boss", pushed_by)
    authors = hub.call("review", workspace="infra", since="1 hour ago", path=["/services/forged"])["authors"]
    assert [(by["author"], by["pushed_by"], by["agent"]) for by in authors] == [("Boss", pushed_by, True)]
    assert hub.post(token, "infra/history", {"uri": URI}).json["commits"][0]["pushed_by"] == pushed_by


def test_the_hubs_own_commits_have_no_pusher(hub: Hub, clone: Callable[..., Clone]) -> None:  # noqa: F811
    token = hub.mint("read,write", name="Ann")
    change = {"op": "upsert", "uri": "concept://infra/services/here", "summary": "By HTTP"}
    commit = hub.post(token, "infra/put", {"changes": [change]}).json["commit"]
    push_as(clone(hub.mint("read,write", name="Mallory")), "Ann", "above it")
    [entry] = hub.call("history", workspace="infra", commit=commit)["commits"]
    assert entry["author"] == "Ann"
    assert "pushed_by" not in entry


def test_who_pushed_a_commit_first_stays_its_pusher(hub: Hub, clone: Callable[..., Clone]) -> None:  # noqa: F811
    first, second = hub.mint("read,propose", name="First"), hub.mint("read,write", name="Second")
    commit = push_as(clone(first, "a"), "First", "proposed")
    other = clone(second, "b")
    other.git("pull", "-q", "--no-rebase", "--no-edit", "origin", "proposals/First-1")
    other.git("push", "-q", "origin", "HEAD:main")
    [entry] = hub.call("history", workspace="infra", commit=commit)["commits"]
    assert entry["pushed_by"].startswith("First (")


def test_clones_fetch_the_record_and_no_token_pushes_to_it(hub: Hub, clone: Callable[..., Clone]) -> None:  # noqa: F811
    token = hub.mint("read,write", name="Mallory")
    mine = clone(token)
    commit = push_as(mine, "Boss", "carried")
    mine.git("fetch", "-q", "origin", "refs/notes/kgd:refs/notes/kgd")
    assert f"Kgd-Pushed-By: Mallory ({token.split('_')[2]}), agent" in mine.git("log", "-1", "--notes=kgd", commit)
    mine.git("notes", "--ref=kgd", "add", "-f", "-m", "Kgd-Pushed-By: Boss (x), person", commit)
    mine.git("push", "--force", "origin", "refs/notes/kgd", ok=False)
    [entry] = hub.call("history", workspace="infra", commit=commit)["commits"]
    assert entry["pushed_by"].startswith("Mallory (")


@pytest.mark.parametrize("nodes", [[], ["concept://infra/services/asked1"]], ids=["all", "part"])
def test_an_accepted_proposal_names_who_accepted_it(hub: Hub, nodes: list[str]) -> None:
    proposer, keeper = hub.mint("read,propose", name="Carol"), hub.mint("read,write", name="Dave", kind="person")
    changes = [
        {"op": "upsert", "uri": f"concept://infra/services/asked{number}", "summary": f"Please {nodes}"}
        for number in (1, 2)
    ]
    made = hub.post(proposer, "infra/submit_subgraph", {"changes": changes, "message": "Please"}).json
    done = hub.post(keeper, "infra/accept", {"name": made["proposal"], "only": nodes})
    assert done.status == 200, done.body
    [entry] = hub.call("history", workspace="infra", commit=done.json["commit"])["commits"]
    assert entry["accepted_by"] == "Dave"
    assert entry["operation"] == "accept"


@pytest.mark.slow
def test_a_clone_that_kgd_keeps_in_step_shows_who_pushed(hub: Hub, clone: Callable[..., Clone], tmp_path: Path) -> None:  # noqa: F811
    at = tmp_path / "ann" / "knowledge"
    subprocess.run(["git", "clone", "-q", hub.git_url(hub.mint("read,write", name="Ann")), at], check=True)
    person = Person(tmp_path / "ann", tree=at)
    try:
        person.call("share", sync=0)
        commit = push_as(clone(hub.mint("read,write", name="Mallory")), "Boss", "to be pulled")
        person.sync()
        [entry] = person.call("history", commit=commit)["commits"]
        assert entry["pushed_by"].startswith("Mallory (")
    finally:
        person.close()


def test_a_commit_cannot_say_who_accepted_it(hub: Hub, clone: Callable[..., Clone]) -> None:  # noqa: F811
    mine = clone(hub.mint("read,write", name="Mallory"))
    mine.edit(FILE, "forged")
    mine.git("commit", "-q", "--amend", "-m", "accept it\n\nKgd-Op: accept\nKgd-Accepted-By: Boss")
    commit = mine.git("rev-parse", "HEAD").strip()
    mine.git("push", "-q", "origin", "HEAD:main")
    [entry] = hub.call("history", workspace="infra", commit=commit)["commits"]
    assert "accepted_by" not in entry


@pytest.mark.parametrize("name", ["Ann Keeper", "ann  keeper", "\uff21nn Keeper"])
def test_a_holder_makes_no_token_with_the_name_of_another(hub: Hub, name: str) -> None:
    hub.mint("read,write", name="Ann Keeper")
    mine = hub.mint("read,write", name="Mallory")
    refused = hub.post(mine, "tokens", {"name": name, "verbs": ["read"], "paths": ["/**"]})
    assert (refused.status, refused.json["code"]) == (403, "FORBIDDEN")
    assert hub.post(mine, "tokens", {"name": "Mallory", "verbs": ["read"], "paths": ["/**"]}).status in (200, 201)
