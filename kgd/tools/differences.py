"""Differences by node and field, of a commit or of the commit that a dry run would make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from kgd.tools import visibility
from kgd.tools.nodes import UNSEEN_MESSAGE
from kgd.tools.paging import clip, present, size_of
from kgd.workspace.answers import NodeChange, Would
from kgd.workspace.history.commits import changed_fields

LONGEST_VALUE = 2_000
FORETOLD_LIMIT = 600_000
"""Largest size of a dry run's diff in bytes. Beyond it, long values are cut, and further nodes are only counted."""


class FieldDiff(TypedDict):
    before: Any
    after: Any


class NodeDiff(TypedDict):
    """The changed fields of a node; none if its file became invalid. `reason` then says where and why; kgd serves the
    last good version."""

    uri: str
    change: Literal["created", "changed", "deleted", "invalid"]
    fields: dict[str, FieldDiff]
    reason: NotRequired[str]


class FileDiff(TypedDict):
    """A file that is not a node, before and after; null means absent."""

    path: str
    before: str | None
    after: str | None


class Foretold(TypedDict):
    """The commit that a dry run would make: its message and its changes."""

    message: str
    author: str
    diff: list[NodeDiff]
    files: NotRequired[list[FileDiff]]
    more_diff: NotRequired[int]


def node_diff(change: NodeChange, *, whole: bool = False) -> NodeDiff:
    """The changed fields of one node. Texts longer than `LONGEST_VALUE` are cut unless `whole`."""
    fields: Sequence[Any] = changed_fields(change)
    limit = 10**9 if whole else LONGEST_VALUE
    kind: Literal["created", "changed", "deleted", "invalid"] = "changed"
    if change.unreadable:
        kind = "invalid"
    elif change.before is None or change.after is None:
        kind = "deleted" if change.after is None else "created"
    answer: NodeDiff = {
        "uri": change.uri,
        "change": kind,
        "fields": {f.field: {"before": clip(f.before, limit), "after": clip(f.after, limit)} for f in fields},
    }
    answer |= present(reason=change.unreadable)
    return answer


def foretold(would: Would, sees: visibility.Sees | None = None) -> Foretold:
    """The answer of a dry run, limited to the nodes that the caller may read.

    A restricted caller gets no files, and the message only if it may read everything that the commit would change.
    """
    nodes = [one for one in would.nodes if sees is None or sees(one.uri)]
    is_whole = sees is None or (len(nodes) == len(would.nodes) and not would.files and not would.more)
    room, diff = FORETOLD_LIMIT, list[NodeDiff]()
    for change in nodes:
        one = node_diff(change, whole=True)
        if size_of(one) > room:
            one = node_diff(change)
        room -= size_of(one)
        if room < 0:
            break
        diff.append(one)
    message = would.message if is_whole else UNSEEN_MESSAGE
    answer: Foretold = {"message": message, "author": would.author, "diff": diff}
    limit = max(LONGEST_VALUE, room // len(would.files)) if would.files else 0
    files = ((one.path, clip(one.before, limit), clip(one.after, limit)) for one in would.files if sees is None)
    answer |= present(
        files=[{"path": path, "before": before, "after": after} for path, before, after in files],
        more_diff=len(nodes) - len(diff) + (would.more if sees is None else 0),
    )
    return answer
