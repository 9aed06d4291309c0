"""Progress and log messages beside an answer, in both protocol eras, through the official SDK's client."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp.types import LoggingMessageNotificationParams

from kgd.mcp.server import Surface
from kgd.tools import TOOLS
from kgd.tools.operation import Hints, Operation
from kgd.tools.parameters import Params
from kgd.tools.session import Session
from tests.mcp.lines import client as connected

pytestmark = pytest.mark.anyio
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
WARNINGS: Any = {LOG_LEVEL: "warning"}
"""Untyped: mypy refuses the extra keys that `RequestParamsMeta` admits."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> Literal["auto", "legacy"]:
    found: Literal["auto", "legacy"] = request.param
    return found


class Heard:
    """What a client heard of progress."""

    def __init__(self) -> None:
        self.told: list[tuple[float, float | None, str | None]] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.told.append((progress, total, message))


def tool(run: Callable[[Session], None]) -> dict[str, Operation]:
    """The usual tools and a tool that does this."""

    def answer(session: Session, params: Params) -> dict[str, Any]:
        run(session)
        return {"done": True}

    made = Operation("work", "Work", "Works.", Hints(), answer)
    return {**TOOLS, "work": made}


@pytest.mark.slow
async def test_a_folder_that_is_ingested_says_how_far_it_is(
    session: Session, mode: Literal["auto", "legacy"], tmp_path: Path
) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.md").write_text(f"# Paper {number}\n\nText {number}.\n")
    heard = Heard()
    async with connected(Surface(session.daemon), mode) as client:
        arguments = {"source": str(folder), "workspace": "shop"}
        answer = await client.call_tool("ingest", arguments, progress_callback=heard)
    assert not answer.is_error
    assert heard.told
    assert all(message for _, _, message in heard.told)


@pytest.mark.slow
async def test_progress_only_grows_over_all_phases_and_is_not_sent_for_every_step(
    session: Session, mode: Literal["auto", "legacy"]
) -> None:
    gate = threading.Event()
    heard = Heard()

    def work(session: Session) -> None:
        for phase in ("reading", "writing"):
            for done in range(1, 10_001):
                session.progress(done, 10_000, phase)
            gate.wait(0.3)

    async with connected(Surface(session.daemon, tool(work)), mode) as client:
        await client.call_tool("work", {}, progress_callback=heard)
    steps = [progress for progress, _, _ in heard.told]
    assert steps == sorted(set(steps))
    assert {message for _, _, message in heard.told} == {"reading", "writing"}
    assert all(total is not None and progress <= total for progress, total, _ in heard.told)
    assert len(steps) < 20


async def test_a_call_without_a_progress_token_gets_no_notifications(
    session: Session, mode: Literal["auto", "legacy"]
) -> None:
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    surface = Surface(session.daemon, tool(lambda session: session.progress(1, 2, "working")))
    async with connected(surface, mode, message_handler=hear) as client:
        assert not (await client.call_tool("work", {})).is_error
        await client.call_tool("status", {})
    assert not heard


class Messages:
    def __init__(self) -> None:
        self.heard: list[LoggingMessageNotificationParams] = []
        self.came = anyio.Event()

    async def __call__(self, params: LoggingMessageNotificationParams) -> None:
        self.heard.append(params)
        self.came.set()


def complain(session: Session) -> None:
    logging.getLogger("kgd.test").info("reading", extra={"path": "a"})
    logging.getLogger("kgd.test").warning("broken", extra={"path": "b"})


async def test_a_call_of_the_new_era_gets_the_records_of_the_level_it_names(session: Session) -> None:
    messages = Messages()
    surface = Surface(session.daemon, tool(complain))
    async with connected(surface, "auto", logging_callback=messages) as client:
        await client.call_tool("work", {})
        assert not messages.heard
        await client.call_tool("work", {}, meta=WARNINGS)
        logging.getLogger("kgd.test").error("of nobody's call")
        await client.call_tool("status", {}, meta=WARNINGS)
    (message,) = messages.heard
    assert (message.level, message.logger, message.data) == ("warning", "kgd.test", {"message": "broken", "path": "b"})


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_a_connection_of_the_handshake_era_gets_every_record_from_its_level(session: Session) -> None:
    messages = Messages()
    surface = Surface(session.daemon, tool(complain))
    async with connected(surface, "legacy", logging_callback=messages) as client:
        assert client.server_capabilities.logging is not None
        await client.call_tool("work", {})
        assert not messages.heard
        await client.set_logging_level("warning")
        logging.getLogger("kgd.test").error("in the background")
        await messages.came.wait()
        await client.call_tool("work", {})
        await client.set_logging_level("emergency")
        await client.call_tool("work", {})
    assert [message.data["message"] for message in messages.heard] == ["in the background", "broken"]
    assert not [one for one in logging.getLogger("kgd").handlers if type(one).__module__.startswith("kgd.mcp")]
