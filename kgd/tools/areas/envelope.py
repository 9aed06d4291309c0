"""The envelope of specs/knowledge-areas.md: `{success, data}` or `{success, error}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from typing_extensions import TypedDict

from kgd.errors import KgdError, Limit, Stale
from kgd.tools.operation import Refusal, as_json

LARGEST = 8 * 1024 * 1024
"""Bytes of an answer. The specification has no partial answers, so a larger one is refused."""


class Envelope(TypedDict):
    success: bool
    data: dict[str, Any]


def answered(data: Mapping[str, Any]) -> Envelope:
    """The data in its envelope.

    Raises:
        Limit: The answer is too large to send.
    """
    size = len(orjson.dumps(data))
    if size > LARGEST:
        raise _too_large(size)
    return {"success": True, "data": dict(data)}


class Room:
    """The size budget of an answer under construction: an answer that is too large fails early."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self, area: Mapping[str, Any]) -> None:
        """Count one area.

        Raises:
            Limit: The areas are larger than the budget.
        """
        self._taken += len(orjson.dumps(area))
        if self._taken > LARGEST:
            raise _too_large(self._taken)


def _too_large(size: int) -> Limit:
    return Limit(
        f"the answer has {size >> 20} MB, and at most {LARGEST >> 20} are sent at once",
        next="Ask for less: a smaller limit, fewer paths, includeChangelog false.",
    )


def enveloped(error: KgdError) -> Refusal:
    """A refusal in its envelope, with the place and the next step if they are known."""
    told = error.as_dict()
    if isinstance(error, Stale):
        told["currentVersion"] = told.pop("current_version")
    answer = {"success": False, "error": told}
    return Refusal(as_json(answer), answer)
