"""This file is where a tool is defined: one operation that every surface offers under the same name and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from kgd.errors import KgdError
from kgd.tools import addressing, sight
from kgd.tools.hub_reads import forwarded
from kgd.tools.parameters import Params, read
from kgd.tools.session import Session

Answer = Mapping[str, Any]
"""A structured answer: plain data that goes onto the wire as it is. Its shape is a TypedDict, the tool's `Result`."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What a host may show before it lets an agent call a tool."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a client is shown of a refusal: text for the model, and the same as data, where the tool has any."""

    text: str
    data: Answer | None


def as_json(answer: Answer) -> str:
    return orjson.dumps(answer).decode()


def refused(error: KgdError) -> Refusal:
    """Code, message, place and next step, whichever part a host shows to its model."""
    answer = {"error": error.as_dict()}
    return Refusal(as_json(answer), answer)


@dataclass(frozen=True, slots=True)
class Tool:
    """One operation, without a transport.

    `Result` is a TypedDict: answers are built as plain data, checked by the type checker and not again on each call.
    `from_memory` tells whether a call with these parameters is answered from memory and one look-up, so that it may
    run on the event loop; everything else belongs on a worker thread. A tool that `forwards` is asked of the hub as it
    is, where the workspace that a call means is on one; others see to that themselves. `text` is what the answer is for
    a model to read, `refusal` what becomes of an error: tools that stand in for others' answer as those do. `app` is
    the page that hosts of agents may show the answer with, `for_app` what in it is for that page alone.
    """

    name: str
    title: str
    description: str
    Params: type[Params]
    Result: Any
    hints: Hints
    run: Callable[[Session, Any], Answer]
    from_memory: Callable[[Session, Any], bool] = lambda session, params: False
    forwards: bool = False
    text: Callable[[Any], str] = as_json
    refusal: Callable[[KgdError], Refusal] = refused
    app: str = ""
    for_app: tuple[str, ...] = ()

    def call(self, session: Session, arguments: Mapping[str, Any] | None) -> Answer:
        """Reads the arguments and answers.

        Raises:
            KgdError: Any refusal; nothing was written.
        """
        params = read(self.Params, arguments)
        try:
            return self.answer(session, params)
        except KgdError as error:
            raise sight.refusal(session, error, arguments or {}) from error

    def answer(self, session: Session, params: Any) -> Answer:
        """The same for arguments that were read already, as a caller of this machine is answered.

        Raises:
            KgdError: Any refusal; nothing was written.
        """
        if self.forwards:
            far = addressing.far(session, params.workspace, [uri] if (uri := getattr(params, "uri", None)) else [])
            if far:
                given = params.model_dump(exclude_unset=True, exclude={"workspace", "context_id"})
                return forwarded(session, far, self.name, given, self.Result)
        return self.run(session, params)
