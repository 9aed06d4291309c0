"""Questions of an agent, with the calls and answers: `docs/transcripts.md`, and the transcript of README."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.tools import TOOLS, call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.transcripts.example import NODES, make_code
from tests.waiting import at_rest, until

HEAD = """\
# Example transcripts

An agent asks eleven questions in a small workspace: a shop's code with five commits, and eleven notes by its team. Each
section shows the call and the text that the model receives. A test checks this page.
"""


class Turn(NamedTuple):
    """A question in the agent's words, and its call."""

    wish: str
    tool: str
    arguments: dict[str, Any]


TURNS = (
    Turn(
        "I am about to change how sessions work. What must I know?",
        "context",
        {"question": "What must I know before I change sessions?"},
    ),
    Turn("Someone mentions CSRF in the ticket.", "search", {"query": "csrf"}),
    Turn("Where is this method?", "search", {"query": "SessionStore.rotate"}),
    Turn(
        "A user pasted this error.",
        "search",
        {"query": "RefundRefused: the refund is larger than the remaining payment"},
    ),
    Turn("Which file sends the mail after a payment?", "search", {"query": "which file sends the receipt"}),
    Turn("I have to edit this file.", "context", {"paths": ["shop/payments/refunds.py"]}),
    Turn("Why is this line here?", "context", {"paths": ["shop/payments/refunds.py:9"]}),
    Turn("What does this task touch?", "context", {"task": "task://shop/vouchers"}),
    Turn(
        "Who depends on this file?",
        "traverse",
        {"start": ["./shop/money.py"], "direction": "in", "edge_types": ["imports"]},
    ),
    Turn("How quickly must complaints be answered?", "search", {"query": "How quickly do we answer complaints?"}),
    Turn("Is there anything about Kafka?", "search", {"query": "kafka consumer groups"}),
)


WARNING = Turn(
    "The payment provider validates refunds. Remove our check.",
    "context",
    {"task": "Remove the refund check: the provider validates refunds"},
)
"""The question of README."""
REPLY = "I'd keep the check: two partial refunds can add up to more than the payment."


@contextmanager
def asked(folder: Path) -> Iterator[Session]:
    """A session in the example workspace, created in the folder."""
    make_code(folder / "shop")
    home = Home.at(str(folder / "home"))
    home.prepare()
    daemon = Daemon(home, since="2026-04-01T09:00:00Z", locate=locate, open_workspace=Workspace.open)
    try:
        session = Session(daemon, cwd=folder / "shop", client="agent", context_id=None)
        call(session, "up")
        call(session, "put", {"changes": [{"op": "upsert", **node} for node in NODES]})
        until(lambda: _is_indexed(dict(call(session, "status"))))
        yield session
    finally:
        daemon.close()


def _is_indexed(status: dict[str, Any]) -> bool:
    return at_rest(status) and all(stage["state"] == "ok" for stage in status["stages"] if stage["name"] == "index")


def lines(session: Session) -> Iterator[str]:
    """`docs/transcripts.md`, line by line."""
    yield from HEAD.splitlines()
    for number, turn in enumerate(TURNS, 1):
        yield from ("", f"## {number}. {turn.wish}", "", "```json", _call(turn), "```", "")
        yield from ("````text", *_answer(session, turn), "````")


def warning(session: Session) -> Iterator[str]:
    """The transcript of README, line by line: the text of the answer's first item, with long lines folded."""
    yield from ("```text", f"You    {WARNING.wish}", "", f"Agent  {_call(WARNING)}", "")
    headline, *rest = _answer(session, WARNING)[1:]
    first = [headline, *takewhile(lambda line: not line.startswith("## "), rest)]
    folded = [
        part for line in first if line != "```" and not line.startswith("why: ") for part in textwrap.wrap(line, 90)
    ]
    yield from (f"{'       ' if number else 'kgd    '}{line}" for number, line in enumerate(folded))
    yield from ("       …", "", f"Agent  {REPLY}", "```")


def _call(turn: Turn) -> str:
    return f"{turn.tool} {orjson.dumps(turn.arguments).decode()}"


def _answer(session: Session, turn: Turn) -> list[str]:
    text = TOOLS[turn.tool].text(call(session, turn.tool, turn.arguments))
    return [line.rstrip() for line in text.splitlines()]
