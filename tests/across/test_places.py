"""Paths in the registry: with another workspace at the path, and still empty."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Forbidden, InvariantViolation, KgdError, NotFound, Unavailable
from kgd.tools import call
from tests.across.sites import Site, node
from tests.across.test_clones import push
from tests.sync.people import bare, git
from tests.waiting import until

MakeSite = Callable[[str], Site]

EXAMPLE = Path(__file__).resolve().parents[2] / "workspaces.example.yaml"


@pytest.fixture
def here(site: MakeSite) -> Site:
    return site("here")


@pytest.fixture
def remote(site: MakeSite, tmp_path: Path) -> Path:
    """A bare repository that holds the workspace `infra`."""
    team = site("team")
    team.up("infra", node("concept://infra/keys", summary="how keys are kept"))
    push(team, there := bare(tmp_path / "infra.git"))
    return there


def run(here: Site, folder: Path | None, tool: str, **arguments: Any) -> Any:
    return call(here.session(folder), tool, arguments)


def summary_at(remote: Path, path: str, branch: str = "main") -> str:
    return git(remote, "show", f"{branch}:nodes/concept/{path}.yaml", check=False)


def write_and_wait(here: Site, remote: Path, branch: str = "main") -> None:
    here.ask("put", workspace="infra", changes=[node("concept://infra/mine", summary="from the clone")])
    until(lambda: "from the clone" in summary_at(remote, "mine", branch))


@pytest.mark.parametrize("tool", ["put", "get", "sync", "status"])
def test_an_entry_at_the_path_of_another_workspace_reaches_nothing(here: Site, tool: str) -> None:
    tip = here.up("shop", node("concept://shop/a")).tip
    here.know("wrongname", path=str(here.root / "shop"))
    arguments: dict[str, dict[str, Any]] = {
        "put": {"changes": [{"op": "upsert", "type": "concept", "name": "b"}]},
        "get": {"uris": ["a"]},
    }
    with pytest.raises(InvariantViolation, match=r"the path of 'wrongname' holds the workspace 'shop'"):
        here.ask(tool, workspace="wrongname", **arguments.get(tool, {}))
    assert here.daemon.workspace("shop").tip == tip


def test_an_entry_of_another_workspace_is_reported_by_doctor_status_and_up(here: Site) -> None:
    here.up("shop")
    assert here.ask("doctor", workspace="shop")["ok"]
    here.know("wrongname", path=str(here.root / "shop"))
    (found,) = [one for one in here.ask("doctor", workspace="shop")["checks"] if "wrongname" in one["detail"]]
    assert (found["state"], "holds the workspace 'shop'" in found["detail"]) == ("warning", True)
    assert "set its id to that" in found["next"]
    assert any("registry entry 'wrongname'" in one for one in here.ask("status")["degraded"])
    assert any("'wrongname'" in one for one in run(here, here.root / "shop", "up")["warnings"])


def test_a_second_workspace_may_take_the_id_of_a_mismatched_entry(here: Site) -> None:
    here.up("shop")
    here.know("infra", path=str(here.root / "shop"))
    assert here.up("infra", node("concept://infra/a")).id == "infra"
    assert here.daemon.registry.current().entries["infra"].path == str(here.root / "infra")


def test_an_entry_of_another_workspace_does_not_keep_the_others_from_being_removed(here: Site) -> None:
    here.up("shop")
    here.know("wrongname", path=str(here.root / "shop"))
    here.know("nowhere", path=str(here.root / "nowhere"))
    assert here.ask("uninstall", all=True)["workspaces"] == ["shop"]


@pytest.mark.slow
def test_after_the_registry_names_another_copy_nothing_is_written_to_the_first(here: Site, remote: Path) -> None:
    first, second = here.root / "first", here.root / "second"
    run(here, None, "clone", source=str(remote), path=str(first))
    subprocess.run(["git", "clone", "-q", str(first), str(second)], check=True)
    run(here, second, "up", replace=True)
    tip = git(first, "rev-parse", "refs/kgd/head")
    here.ask("put", workspace="infra", changes=[node("concept://infra/b")])
    assert (git(first, "rev-parse", "refs/kgd/head"), here.daemon.workspace("infra").layout.work_tree) == (tip, second)
    path = Path(here.home.registry)
    path.write_text(path.read_text().replace(str(second), str(first)))
    tip = git(second, "rev-parse", "refs/kgd/head")
    here.ask("put", workspace="infra", changes=[node("concept://infra/c")])
    assert git(second, "rev-parse", "refs/kgd/head") == tip, "the open copy is no longer the registered one"


@pytest.mark.slow
@pytest.mark.parametrize("by_name", [True, False], ids=["-w", "in it"])
@pytest.mark.parametrize("there", [True, False], ids=["empty folder", "no folder"])
def test_up_clones_a_workspace_whose_entry_has_a_remote(here: Site, remote: Path, by_name: bool, there: bool) -> None:
    place = here.root / "deep" / "knowledge"
    if there:
        place.mkdir(parents=True)
    here.know("infra", path=str(place), remote=str(remote), sync="1")
    arguments = {"workspace": "infra"} if by_name else {"directory": str(place)}
    planned = here.ask("up", **arguments, dry_run=True)
    assert (planned["workspace"], planned["adopted"]) == ("infra", str(remote))
    made = here.ask("up", **arguments)
    assert (made["workspace"], made["path"], made["created"]) == ("infra", str(place), True)
    assert made["counts"]["nodes"] == 1
    assert (place / "nodes/concept/keys.yaml").is_file()
    assert made["published"] == [f"origin ({remote} refs/heads/main)"]
    assert here.daemon.registry.current().entries["infra"].sync == 1
    write_and_wait(here, remote)
    again = here.ask("up", **arguments)
    assert (again["created"], again["workspace"]) == (False, "infra")


def test_until_the_clone_exists_the_error_and_doctor_name_the_command(here: Site, remote: Path) -> None:
    here.know("infra", path=str(here.root / "k"), remote=str(remote))
    with pytest.raises(Unavailable, match=r"not cloned yet.*`kgd clone infra`"):
        here.ask("put", workspace="infra", changes=[node("concept://infra/a")])
    (found,) = [one for one in here.ask("doctor")["checks"] if one["name"] == "infra"]
    assert "`kgd clone infra`" in found["next"]


def test_an_empty_folder_inside_a_code_repository_is_cloned_into_itself(here: Site, remote: Path) -> None:
    code = here.root / "code"
    (place := code / "knowledge").mkdir(parents=True)
    git(code, "init", "-q")
    here.know("infra", path=str(place), remote=str(remote))
    assert run(here, place, "up")["path"] == str(place)
    assert not (code / ".git" / "kgd").exists()


@pytest.mark.slow
def test_a_code_repository_whose_entry_has_a_remote_gets_that_workspace(
    here: Site, site: MakeSite, tmp_path: Path
) -> None:
    there, code = bare(tmp_path / "code.git"), here.root / "code"
    other = site("other")
    other.up("infra", node("concept://infra/keys"))
    git(other.root / "infra", "push", "-q", str(there), "refs/kgd/head:refs/heads/kgd")
    code.mkdir()
    git(code, "init", "-q")
    here.know("infra", path=str(code), remote=str(there))
    made = run(here, code, "up")
    assert (made["workspace"], made["path"], made["counts"]["nodes"]) == ("infra", str(code / ".kgd"), 1)
    write_and_wait(here, there, "kgd")


def test_an_empty_remote_gets_a_new_workspace_with_the_id_of_the_entry(here: Site, tmp_path: Path) -> None:
    there = bare(tmp_path / "empty.git")
    here.know("infra", path=str(here.root / "knowledge"), remote=str(there))
    made = here.ask("up", workspace="infra")
    assert (made["workspace"], made["created"], "adopted" in made) == ("infra", True, False)
    write_and_wait(here, there)


@pytest.mark.parametrize(
    ("id", "address", "said"),
    [("other", "", "infra"), ("infra", "gone.git", "there is no such directory"), ("infra", "", "directory has files")],
    ids=["another workspace", "no such remote", "files in the way"],
)
def test_a_failed_clone_leaves_nothing_behind(here: Site, remote: Path, id: str, address: str, said: str) -> None:
    place = here.root / "place"
    if "files" in said:
        place.mkdir()
        (place / "notes.txt").write_text("mine")
    here.know(id, path=str(place), remote=str(remote.parent / address) if address else str(remote))
    before = Path(here.home.registry).read_text()
    with pytest.raises(KgdError, match=said):
        here.ask("clone", source=id)
    assert [one.name for one in place.iterdir()] == ["notes.txt"] if "files" in said else not place.exists()
    assert Path(here.home.registry).read_text() == before


@pytest.mark.slow
@pytest.mark.requirement("B4")
def test_a_workspace_known_by_its_remote_alone_is_cloned_to_be_written(here: Site, remote: Path) -> None:
    here.know("infra", remote=str(remote))
    until(lambda: not _fails(here, "infra", "keys"))
    with pytest.raises(Forbidden, match="cannot be changed from here"):
        here.ask("put", workspace="infra", changes=[node("concept://infra/a")])
    made = run(here, here.root, "clone", source="infra")
    assert made["path"] == str(here.root / "infra")
    write_and_wait(here, remote)
    with pytest.raises(InvariantViolation, match="already on this machine"):
        run(here, here.root, "clone", source="infra", path="again")


def _fails(here: Site, workspace: str, node: str) -> bool:
    """Whether it is not readable yet."""
    try:
        return not here.ask("get", workspace=workspace, uris=[node])["nodes"]
    except Unavailable:
        return True


@pytest.mark.slow
def test_an_address_is_cloned_into_a_folder_of_its_name_under_the_id_that_it_has(here: Site, remote: Path) -> None:
    named = remote.rename(remote.with_name("team-knowledge.git"))
    made = run(here, here.root, "clone", source=str(named))
    assert (made["workspace"], made["path"]) == ("infra", str(here.root / "team-knowledge"))
    entry = here.daemon.registry.current().entries["infra"]
    assert (entry.remote, entry.path, entry.standalone) == (str(named), made["path"], True)
    write_and_wait(here, named)


def test_an_unknown_workspace_name_is_not_cloned_as_an_address(here: Site) -> None:
    here.up("shop")
    with pytest.raises(NotFound, match=r"no workspace 'infar'.*Known: shop"):
        run(here, here.root, "clone", source="infar")
    with pytest.raises(NotFound, match="no remote for 'shop'"):
        run(here, here.root, "clone", source="shop")


def test_a_workspace_of_its_own_serves_the_code_that_its_entry_names(here: Site) -> None:
    here.up("infra")
    (code := here.root / "code" / "deep").mkdir(parents=True)
    git(code.parent, "init", "-q")
    (code / "main.py").write_text("pass\n")
    path = Path(here.home.registry)
    path.write_text(path.read_text() + f"    code: {code.parent}\n")
    here.restart()
    status = run(here, code, "status")["workspace"]
    assert (status["id"], status["code_tree"]) == ("infra", str(code.parent))
    assert run(here, code, "get", uris=["./main.py"])["nodes"][0]["uri"] == "file://infra/deep/main.py"


@pytest.mark.slow
@pytest.mark.requirement("B4")
def test_the_example_registry_works_unchanged(
    here: Site, site: MakeSite, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = tmp_path / "ann"
    for name in ("checkout", "infra"):
        git(tmp_path, "init", "-q", str(ann / "src" / name))
    (ann / "src/infra/main.py").write_text("pass\n")
    team = site("billing")
    team.up("billing", node("concept://billing/limits"))
    git(team.root / "billing", "push", "-q", str(bare(tmp_path / "billing.git")), "refs/kgd/head:refs/heads/main")
    shared = tmp_path / "shared.yaml"
    shared.write_text("workspaces: {}\n")
    text = EXAMPLE.read_text().replace("/home/ann", str(ann))
    for address, there in (
        ("git@git.example.org:platform/registry.git", shared),
        ("git@git.example.org:platform/knowledge.git", remote),
        ("https://git.example.org/billing/knowledge.git", tmp_path / "billing.git"),
        ("keyring:git.example.org", "env:KNOWLEDGE_TOKEN"),
    ):
        assert address in text
        text = text.replace(address, str(there))
    monkeypatch.setenv("KNOWLEDGE_TOKEN", "secret")
    Path(here.home.registry).write_text(text)
    assert run(here, ann / "src/checkout", "up")["workspace"] == "checkout"
    made = here.ask("up", workspace="infra")
    assert (made["counts"]["nodes"], made["code_tree"]) == (1, str(ann / "src/infra"))
    (file,) = here.ask("get", uris=["file://infra/main.py"])["nodes"]
    assert file["uri"] == "file://infra/main.py"
    assert run(here, ann / "src/infra", "status")["workspace"]["id"] == "infra"
    write_and_wait(here, remote)
    until(lambda: not _fails(here, "billing", "limits"))
    assert here.daemon.elsewhere.on_hub("payments")
