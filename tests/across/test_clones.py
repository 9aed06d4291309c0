"""Workspaces with only a git remote in the registry."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.errors import Forbidden
from kgd.tools import call
from tests.across.sites import Site, names, node
from tests.waiting import until

MakeSite = Callable[[str], Site]


@pytest.fixture
def there(site: MakeSite, tmp_path: Path) -> Path:
    """A bare repository that holds another team's workspace."""
    team = site("team")
    team.up(
        "infra",
        node("concept://infra/keys", ("concept://infra/vault", 0.5), summary="how keys\u200b are kept"),
        node("concept://infra/vault"),
    )
    bare = tmp_path / "infra.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
    push(team, bare)
    return bare


def push(team: Site, bare: Path) -> None:
    """Push with plain git, from the head that kgd keeps."""
    folder = team.root / "infra"
    subprocess.run(["git", "-C", str(folder), "push", "-q", str(bare), "refs/kgd/head:refs/heads/main"], check=True)


def walk(here: Site) -> list[str]:
    return names(here.ask("traverse", start=["concept://shop/a"]))


@pytest.mark.requirement("E11")
def test_until_a_clone_exists_its_link_says_that_it_is_being_fetched(site: MakeSite, there: Path) -> None:
    here = site("here")
    here.up("shop", node("concept://shop/a", ("concept://infra/keys", 0.5)))
    here.know("infra", remote=str(there))
    first = here.ask("traverse", start=["concept://shop/a"])
    assert names(first) == ["shop/a"]
    assert [(one["reason"], one["workspace"]) for one in first["broken_links"]] == [("fetching", "infra")]
    until(lambda: len(walk(here)) > 1)
    found = here.ask("traverse", start=["concept://shop/a"])
    assert names(found) == ["shop/a", "infra/keys", "infra/vault"]
    assert found["nodes"][1]["origin"]["trust"] == "remote"
    assert found["nodes"][1]["summary"] == "how keys\\u200b are kept"
    assert found["broken_links"] == []
    (read,) = here.ask("get", uris=["concept://infra/keys"])["nodes"]
    assert (read["origin"]["trust"], read["summary"]) == ("remote", "how keys\\u200b are kept")


def test_a_clone_is_read_and_never_written(site: MakeSite, there: Path) -> None:
    here = site("here")
    here.up("shop", node("concept://shop/a", ("concept://infra/keys", 0.5)))
    here.know("infra", remote=str(there))
    until(lambda: len(walk(here)) == 3)
    found = here.ask("search", query="keys", workspace="infra")
    assert (found["hits"][0]["summary"], found["origin"]["trust"]) == ("how keys\\u200b are kept", "remote")
    with pytest.raises(Forbidden, match="submit_subgraph"):
        here.ask("put", workspace="infra", changes=[node("concept://infra/mine")])


@pytest.mark.slow
@pytest.mark.requirement("B9")
def test_a_submission_to_a_clone_waits_upstream_and_comes_back_once_accepted(site: MakeSite, there: Path) -> None:
    here = site("here")
    here.up("shop", node("concept://shop/a", ("concept://infra/keys", 0.5), summary="mine"))
    here.know("infra", remote=str(there))
    until(lambda: len(walk(here)) > 1)
    change = {"op": "append", "uri": "concept://infra/keys", "text": "The shop needs one a day."}
    done = here.ask("submit_subgraph", remote="infra", changes=[change], request_id="r1")
    assert done["outcome"] == "proposed"
    roots = here.ask("submit_subgraph", remote="infra", workspace="shop", roots=["concept://shop/a"])
    assert [one["uri"] for one in roots["changes"]] == ["concept://infra/a"]
    with pytest.raises(Forbidden):
        here.ask("put", changes=[change])
    keeper = site("keeper")
    folder = keeper.root / "infra"
    subprocess.run(["git", "clone", "-q", str(there), str(folder)], check=True)
    call(keeper.session(folder), "up", {})
    call(keeper.session(folder), "share", {"sync": 0})
    waiting = {one["id"]: one for one in keeper.ask("proposals", workspace="infra")["proposals"]}
    assert len(waiting) == 2
    for id in waiting:
        keeper.ask("accept", workspace="infra", name=id)
    keeper.ask("sync", workspace="infra")
    until(lambda: here.ask("get", uris=["concept://infra/a"])["nodes"])
    (read,) = here.ask("get", uris=["concept://infra/keys"])["nodes"]
    assert "one a day" in read["content"]


def test_a_remote_that_holds_something_else_is_an_unreachable_workspace(site: MakeSite, tmp_path: Path) -> None:
    bare = tmp_path / "other.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    here = site("here")
    here.up("shop", node("concept://shop/a", ("concept://infra/keys", 0.5)))
    here.know("infra", remote=str(bare))

    def reason() -> dict[str, str]:
        (link,) = here.ask("traverse", start=["concept://shop/a"])["broken_links"]
        return dict(link)

    until(lambda: reason()["reason"] == "unreachable")
    assert "no workspace under" in reason()["detail"]


@pytest.mark.slow
def test_a_clone_follows_its_remote(site: MakeSite, there: Path) -> None:
    here = site("here")
    here.up("shop", node("concept://shop/a", ("concept://infra/keys", 0.5)))
    here.know("infra", remote=str(there), sync="1")
    until(lambda: len(walk(here)) == 3)
    team = site("other-team")
    subprocess.run(["git", "clone", "-q", str(there), str(team.root / "infra")], check=True)
    folder = team.root / "infra"
    (folder / "nodes/concept/new.yaml").write_text("uri: concept://infra/new\nname: New\n")
    vault = folder / "nodes/concept/vault.yaml"
    vault.write_text(vault.read_text() + 'relations:\n- type: uses\n  target: "concept://infra/new"\n  weight: 0\n')
    for words in (["add", "-A"], ["commit", "-q", "-m", "by hand"], ["push", "-q"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    until(lambda: "infra/new" in walk(here))


def test_after_a_restart_a_clone_is_there_although_its_remote_is_not(site: MakeSite, there: Path) -> None:
    here = site("here")
    here.up("shop", node("concept://shop/a", ("concept://infra/keys", 0.5)))
    here.know("infra", remote=str(there))
    until(lambda: len(walk(here)) == 3)
    there.rename(there.with_name("away.git"))
    here.restart()
    assert walk(here) == ["shop/a", "infra/keys", "infra/vault"]
