"""Hosts that start servers outside the project, and name it as a root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import ListRootsResult, Root

from kgd.mcp.server import Surface
from kgd.tools import call
from kgd.tools.session import Session
from tests.mcp import lines
from tests.surfaces.conftest import make_code, upsert

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


def connected(session: Session, cwd: Path, folders: Folders) -> Client:
    return lines.client(Surface(session.daemon), "legacy", cwd, list_roots_callback=folders)


async def workspace_of_a_write(client: Client) -> Any:
    answer = await client.call_tool("put", {"changes": upsert("a", summary="s")})
    return (answer.structured_content or {}).get("workspace")


async def test_a_server_started_elsewhere_works_in_the_first_root_that_has_a_workspace(
    session: Session, other: Path, tmp_path: Path
) -> None:
    folders = Folders(tmp_path / "gone", tmp_path, other / "src", session.cwd or tmp_path)
    async with connected(session, tmp_path, folders) as client:
        assert await workspace_of_a_write(client) == "other"
        assert await workspace_of_a_write(client) == "other"
    assert folders.asked == 1


async def test_roots_that_change_are_asked_for_again(session: Session, other: Path, tmp_path: Path) -> None:
    folders = Folders(other)
    async with connected(session, tmp_path, folders) as client:
        assert await workspace_of_a_write(client) == "other"
        folders.open = (session.cwd or tmp_path,)
        await client.send_roots_list_changed()
        assert await workspace_of_a_write(client) == "shop"
    assert folders.asked == 2


async def test_the_directory_that_a_host_chose_wins_while_it_has_a_workspace(session: Session, other: Path) -> None:
    folders = Folders(other)
    assert session.cwd is not None
    async with connected(session, session.cwd, folders) as client:
        assert await workspace_of_a_write(client) == "shop"
    assert not folders.asked


async def test_a_root_gets_its_workspace_later(session: Session, other: Path, tmp_path: Path) -> None:
    late = make_code(tmp_path / "late")
    async with connected(session, tmp_path, Folders(late)) as client:
        assert await workspace_of_a_write(client) is None
        call(session, "up", {"directory": str(late), "id": "late"})
        assert await workspace_of_a_write(client) == "late"


async def test_a_client_that_names_no_place_is_served_without(session: Session, other: Path, tmp_path: Path) -> None:
    async def nothing(context: Any) -> ListRootsResult:
        raise ValueError

    async with lines.client(Surface(session.daemon), "legacy", tmp_path, list_roots_callback=nothing) as client:
        answer = await client.call_tool("put", {"changes": upsert("a", summary="s")})
        assert (answer.structured_content or {})["error"]["next"].startswith("Name one")
        assert not (await client.call_tool("status", {"workspace": "other"})).is_error
