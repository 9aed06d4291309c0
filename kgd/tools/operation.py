"""Operations: each is declared once, beside the function that runs it, for every surface.

`kgd/tools/operations.json` is made from the declarations, so that a surface knows names without importing them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any

import orjson

from kgd.errors import KgdError
from kgd.model.access import Verb
from kgd.tools import addressing, visibility
from kgd.tools.commands import Command
from kgd.tools.hub_reads import forwarded
from kgd.tools.parameters import Params, read
from kgd.tools.session import Session

Answer = Mapping[str, Any]
"""A structured answer: plain data that goes onto the wire unchanged. Its shape is a TypedDict, `Operation.Result`."""

USUAL = "usual"
"""`Operation.offered` of the operations that every MCP client gets."""


class Reflects(Flag):
    """The inputs of an answer besides the parameters and the caller's rights.

    A surface may answer "unchanged" while none of them changed. NOW is everything else: clocks, other processes, usage.
    """

    TIP = auto()
    CODE = auto()
    VECTORS = auto()
    NOW = auto()
    WORKSPACE = TIP | CODE | VECTORS


@dataclass(frozen=True, slots=True)
class Hints:
    """Facts that a host may show to its user before it allows a call."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as a client sees it: text for the model, and the same as data if the operation answers with data."""

    text: str
    data: Answer | None


def as_json(answer: Answer) -> str:
    return orjson.dumps(answer).decode()


def refused(error: KgdError) -> Refusal:
    """Code, message, place and next step, in both parts: hosts show the model either."""
    answer = {"error": error.as_dict()}
    return Refusal(as_json(answer), answer)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation, without a transport.

    Args:
        Result: A TypedDict. Answers are built as plain data and checked by the type checker, not on each call.
        offered: `USUAL`, or the toolset of MCP that has it; empty for the command line and Python alone.
        place: Its order among the operations offered with it.
        scope: The verb that the holder of a token needs on the nodes concerned; None if no token may call it.
        reflects: The inputs of a reading operation's answer.
        commits: The commits that it makes: their `Kgd-Op` trailer, and the verb by which pages report them.
        commands: Its commands on the command line.
        page: Its name in next steps on pages; its first command if empty.
        from_memory: Whether a call with these parameters waits for nothing, since it needs only memory and one look-up.
            It may run on the event loop; all other calls run on a worker thread.
        forwards: Whether a call is forwarded unchanged if the workspace is on a hub; other operations do that
            themselves.
        text: The answer as text for a model.
        refusal: An error as the client receives it. Operations that replace another server's tools answer like that
            server.
        app: The page with which an agent's host may show the answer; `for_app` are fields of the answer only for this
            page.
    """

    name: str
    title: str
    description: str
    Params: type[Params]
    Result: Any
    hints: Hints
    run: Callable[[Session, Any], Answer]
    offered: str = ""
    place: int = 0
    scope: Verb | None = None
    reflects: Reflects = Reflects.WORKSPACE
    commits: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[Command, ...] = ()
    page: str = ""
    from_memory: Callable[[Session, Any], bool] = lambda session, params: False
    forwards: bool = False
    text: Callable[[Any], str] = as_json
    refusal: Callable[[KgdError], Refusal] = refused
    app: str = ""
    for_app: tuple[str, ...] = ()

    def call(self, session: Session, arguments: Mapping[str, Any] | None) -> Answer:
        """Read the arguments and answer.

        Raises:
            KgdError: Nothing was written.
        """
        params = read(self.Params, arguments)
        try:
            return self.answer(session, params)
        except KgdError as error:
            raise visibility.refusal(session, error, arguments or {}) from error

    def answer(self, session: Session, params: Any) -> Answer:
        """Answer arguments that were read already, without hiding what a token may not see.

        Raises:
            KgdError: Nothing was written.
        """
        if self.forwards:
            far = addressing.far(session, params.workspace, [uri] if (uri := getattr(params, "uri", None)) else [])
            if far:
                given = params.model_dump(exclude_unset=True, exclude={"workspace", "context_id"})
                return forwarded(session, far, self.name, given, self.Result)
        return self.run(session, params)
