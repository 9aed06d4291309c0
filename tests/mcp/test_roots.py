"""Hosts that start servers outside the project, and name it as a root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.types import ListRootsResult, Root

from kgd.mcp.server import Surface
from kgd.tools import call
from kgd.tools.session import Session
from tests.mcp import lines
from tests.mcp.conftest import Model
from tests.surfaces.conftest import Ask, make_code, upsert
from tests.surfaces.test_conflicts import disagree

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:The roots capability is deprecated")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Folders:
    """The folders that are open in a host."""

    def __init__(self, *open: Path) -> None:
        self.open, self.asked = open, 0

    async def __call__(self, context: Any) -> ListRootsResult:
        self.asked += 1
        return ListRootsResult(roots=[Root(uri=folder.as_uri()) for folder in self.open])  # type: ignore[arg-type]


@pytest.fixture
def other(session: Session, tmp_path: Path) -> Path:
    """A second project with a workspace, so that no call can mean the only one."""
    code = make_code(tmp_path / "other project")
    call(session, "up", {"directory": str(code), "id": "other"})
    return code


Era = Literal["auto", "legacy"]
eras = pytest.mark.parametrize("era", ["auto", "legacy"])


def connected(session: Session, cwd: Path, folders: Folders, era: Era = "legacy") -> Client:
    return lines.client(Surface(session.daemon), era, cwd, list_roots_callback=folders)


async def workspace_of_a_write(client: Client) -> Any:
    answer = await client.call_tool("put", {"changes": upsert("a", summary="s")})
    return (answer.structured_content or {}).get("workspace")


@pytest.mark.slow
@eras
async def test_a_server_started_elsewhere_works_in_the_first_root_that_has_a_workspace(
    session: Session, other: Path, tmp_path: Path, era: Era
) -> None:
    folders = Folders(tmp_path / "gone", tmp_path, other / "src", session.cwd or tmp_path)
    async with connected(session, tmp_path, folders, era) as client:
        assert await workspace_of_a_write(client) == "other"
        assert await workspace_of_a_write(client) == "other"
    assert folders.asked == 1


@pytest.mark.slow
async def test_roots_that_change_are_asked_for_again(session: Session, other: Path, tmp_path: Path) -> None:
    folders = Folders(other)
    async with connected(session, tmp_path, folders) as client:
        assert await workspace_of_a_write(client) == "other"
        folders.open = (session.cwd or tmp_path,)
        await client.send_roots_list_changed()
        assert await workspace_of_a_write(client) == "shop"
    assert folders.asked == 2


@eras
async def test_the_directory_that_a_host_chose_wins_while_it_has_a_workspace(
    session: Session, other: Path, era: Era
) -> None:
    folders = Folders(other)
    assert session.cwd is not None
    async with connected(session, session.cwd, folders, era) as client:
        assert await workspace_of_a_write(client) == "shop"
    assert not folders.asked


@pytest.mark.slow
@eras
async def test_a_root_gets_its_workspace_later(session: Session, other: Path, tmp_path: Path, era: Era) -> None:
    late = make_code(tmp_path / "late")
    async with connected(session, tmp_path, Folders(late), era) as client:
        assert await workspace_of_a_write(client) is None
        call(session, "up", {"directory": str(late), "id": "late"})
        assert await workspace_of_a_write(client) == "late"


@pytest.mark.slow
async def test_a_call_that_names_its_workspace_is_not_asked_for_roots(
    session: Session, other: Path, tmp_path: Path
) -> None:
    folders = Folders(other)
    async with connected(session, tmp_path, folders, "auto") as client:
        answer = await client.call_tool("put", {"changes": upsert("a", summary="s"), "workspace": "shop"})
        assert (answer.structured_content or {})["workspace"] == "shop"
        assert folders.asked == 0
        assert await workspace_of_a_write(client) == "other"
    assert folders.asked == 1


@pytest.mark.slow
async def test_a_call_may_be_asked_for_roots_and_then_for_the_word_of_a_model(
    session: Session, other: Path, tmp_path: Path
) -> None:
    disagree(Ask(session), "a", "summary")
    folders, model = Folders(session.cwd or tmp_path), Model(json.dumps({"summary": {"value": "one and three"}}))
    surface = Surface(session.daemon)
    async with lines.client(surface, "auto", tmp_path, list_roots_callback=folders, sampling_callback=model) as client:
        answer = await client.call_tool("resolve_conflicts", {})
    assert [one["uri"] for one in (answer.structured_content or {})["resolved"]] == ["concept://shop/a"]
    assert (folders.asked, len(model.asked)) == (1, 1)


async def test_a_client_that_names_no_place_is_served_without(session: Session, other: Path, tmp_path: Path) -> None:
    async def nothing(context: Any) -> ListRootsResult:
        raise ValueError

    async with lines.client(Surface(session.daemon), "legacy", tmp_path, list_roots_callback=nothing) as client:
        answer = await client.call_tool("put", {"changes": upsert("a", summary="s")})
        assert (answer.structured_content or {})["error"]["next"].startswith("Name one with `workspace`")
        assert not (await client.call_tool("status", {"workspace": "other"})).is_error
