"""Nodes of workspaces on a hub, read in full, and forwarded answers of a hub.

A hub's answer is checked against the tool's answer type, and fenced. The origin is always set to remote, regardless of
the hub's claims.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from kgd.errors import Forbidden, KgdError, NotFound, Unauthorized, Unavailable
from kgd.graph.cross_workspace import Reason
from kgd.model.escaping import fenced, fenced_value
from kgd.model.uri import Uri
from kgd.sync.hubs import DEADLINE, stamp_of
from kgd.tools import origins
from kgd.tools.nodes import DetailAnswer, NodeAnswer
from kgd.tools.paging import HARD_LIMIT, size_of

if TYPE_CHECKING:
    from kgd.tools.session import Session

TOGETHER = 50
"""Nodes per call to a hub."""
PAGE_TOKENS = 10_000
ENOUGH = 2 * HARD_LIMIT
"""Bytes after which more pages are read only to complete a single node."""
LARGEST = 1 << 20
"""Bytes after which reading stops, even within a node. A node file is at most a quarter of this."""
_PARTS = tuple(
    """
    content content_cut detail detail_cut relations relations_cut incoming incoming_cut continued
    """.split()
)


@dataclass(slots=True)
class FarNode:
    """One node of a hub, joined from all pages of the answer."""

    uri: Uri
    head: dict[str, Any]
    content: str = ""
    file: str = ""
    text: str = ""
    lists: dict[str, list[Any]] = field(default_factory=dict)
    is_whole: bool = True

    def relations(self) -> list[Any]:
        return self.lists.get("relations", [])

    def incoming(self) -> list[Any]:
        return self.lists.get("incoming", [])

    def detail(self) -> DetailAnswer | None:
        return {"file": self.file, "text": self.text} if self.file else None


@dataclass(frozen=True, slots=True)
class FarMissing:
    """The reason why an answer lacks a node of a hub."""

    reason: Reason
    similar: tuple[str, ...] = ()
    detail: str = ""
    last_seen: float | None = None


class HubReads:
    """The nodes that one `get` reads from hubs. All calls to a workspace together get `DEADLINE` seconds."""

    def __init__(self, session: Session, include: Sequence[str], as_of: str | None) -> None:
        self._elsewhere = session.daemon.elsewhere
        self._include, self._as_of = list(include), as_of
        self._known: dict[tuple[str, Uri], FarNode | FarMissing] = {}
        self._spent: dict[str, float] = {}

    def look(self, workspace: str, uri: Uri, following: Iterable[Uri]) -> FarNode | FarMissing:
        """One node, or the reason why it is missing. Each node is read only once.

        Args:
            following: Nodes that will be looked up next. They are read in the same call, up to `TOGETHER` nodes.
        """
        if (workspace, uri) not in self._known:
            wanted = [one for one in dict.fromkeys((uri, *following)) if (workspace, one) not in self._known]
            self._read(workspace, wanted[:TOGETHER])
        return self._known.get((workspace, uri), FarMissing("unreachable", detail="the hub gave no reason"))

    def _read(self, workspace: str, uris: Sequence[Uri]) -> None:
        begun = time.monotonic()
        try:
            self._pages(workspace, uris, begun + DEADLINE - self._spent.get(workspace, 0.0))
        except (Forbidden, Unauthorized) as error:
            # One unreadable node makes the call fail for all, so each is then read in a separate call.
            if len(uris) > 1 and isinstance(error, Forbidden):
                for uri in uris:
                    self._read(workspace, [uri])
                return
            self._note(workspace, uris, FarMissing("forbidden", detail=error.message))
        except NotFound as error:
            self._note(workspace, uris, FarMissing("unknown_workspace", detail=error.message))
        except KgdError as error:
            seen = self._elsewhere.last_seen(workspace)
            self._note(workspace, uris, FarMissing("unreachable", detail=error.message, last_seen=seen))
        finally:
            self._spent[workspace] = self._spent.get(workspace, 0.0) + time.monotonic() - begun

    def _pages(self, workspace: str, uris: Sequence[Uri], end: float) -> None:
        args: dict[str, Any] = {"uris": list(uris), "include": self._include, "budget": PAGE_TOKENS}
        if self._as_of:
            args["as_of"] = self._as_of
        read, found = 0, list[FarNode]()
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise Unavailable("it took too long")
            page = self._elsewhere.call(workspace, "get", args, deadline=left)
            read += size_of(page)
            for one in checked(list[NodeAnswer], page.get("nodes") or []):
                if one.get("continued") and found and found[-1].uri == one["uri"]:
                    _append(found[-1], one)
                else:
                    found.append(_far_node(workspace, one))
                    self._known[workspace, Uri(one.get("asked", one["uri"]))] = found[-1]
            self._gone(workspace, uris, page)
            cursor = page.get("cursor")
            if not isinstance(cursor, str) or read > LARGEST:
                return
            if read > ENOUGH and len(found) > 1:
                # The last node may be incomplete. It is dropped, so that its own `look` reads it again.
                self._known = {key: value for key, value in self._known.items() if value is not found[-1]}
                return
            args["cursor"] = cursor

    def _gone(self, workspace: str, uris: Sequence[Uri], page: dict[str, Any]) -> None:
        missing = page.get("missing")
        for one in missing if isinstance(missing, list) else []:
            if isinstance(one, dict) and one.get("uri") in uris:
                like = one.get("similar")
                similar = [str(uri)[:300] for uri in like[:3]] if isinstance(like, list) else []
                self._known[workspace, Uri(one["uri"])] = FarMissing("gone", tuple(fenced_value(similar)))

    def _note(self, workspace: str, uris: Sequence[Uri], missing: FarMissing) -> None:
        self._known.update({(workspace, uri): missing for uri in uris})


def forwarded(session: Session, workspace: str, tool: str, args: dict[str, Any], result: Any) -> dict[str, Any]:
    """A hub's whole answer to a reading tool, fenced and validated against the tool's answer type.

    Args:
        result: The shape of the answer, the tool's `Operation.Result`.

    Raises:
        KgdError: The hub's refusal, or the reason why it cannot be reached.
        Unavailable: The answer has another shape, or is larger than twice `HARD_LIMIT`.
    """
    said = session.daemon.elsewhere.call(workspace, tool, args)
    answer: dict[str, Any] = origins.fence(checked(result, said))
    if size_of(answer) > HARD_LIMIT * 2:
        raise Unavailable(f"the answer of workspace '{workspace}' is too large", next="Ask for less.")
    return {**answer, "workspace": workspace, "origin": origins.of_remote(workspace)}


def carried_out(session: Session, workspace: str, tool: str, args: dict[str, Any], result: Any) -> dict[str, Any]:
    """A hub's answer to a writing tool, fenced and validated against the tool's answer type.

    Raises:
        KgdError: The hub refused; nothing changed there.
        Unavailable: The hub cannot be reached, or the connection ended; the change may have been carried out.
    """
    return origins.fence(checked(result, session.daemon.elsewhere.client(workspace).call(workspace, tool, args)))


def checked(shape: Any, value: Any) -> Any:
    """The value, validated against a shape. Fields that the shape does not name are dropped.

    Raises:
        Unavailable: The value has another shape.
    """
    try:
        return _adapter(shape).validate_python(value)
    except ValidationError:
        raise Unavailable("the hub's answer does not match its tool", next="The hub may run an older kgd.") from None


@lru_cache(maxsize=32)
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def _far_node(workspace: str, said: Any) -> FarNode:
    head = origins.fence({name: value for name, value in said.items() if name not in _PARTS and name != "asked"})
    head["origin"] = origins.of_remote(workspace, stamp_of(said["origin"]))
    node = FarNode(Uri(said["uri"]), head)
    _append(node, said)
    return node


def _append(node: FarNode, said: Any) -> None:
    node.content += fenced(said.get("content", ""))
    if detail := said.get("detail"):
        node.file = fenced(detail["file"])
        node.text += fenced(detail["text"])
    for name in ("relations", "incoming"):
        node.lists.setdefault(name, []).extend(fenced_value(said.get(name, [])))
