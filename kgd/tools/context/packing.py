"""The selection of findings for a budget: summaries first, then text in reading order.

The rules of the requested areas come before any more distant node. An answer is never larger than its budget, and
omissions are counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, NotRequired

from typing_extensions import TypedDict

from kgd.model.uri import Uri, scheme_of
from kgd.tools.context.gathering import ANSWER, AREAS, FAR, Found
from kgd.tools.nodes import Standing, UnverifiedAnswer, overlay_of
from kgd.tools.paging import HARD_LIMIT, fitting, present, size_of
from kgd.tools.visibility import Sees
from kgd.workspace.workspace import Workspace

BYTES_PER_TOKEN = 4
BRIEF = 240
"""Bytes of text that replace a missing summary."""
BRIEFER = 100
"""Bytes of text that replace a missing summary if close nodes would otherwise not fit."""
RULES = 700
"""Bytes of text for each requested area before any far node."""
RULES_SHARE = 6
"""If not all close nodes fit, the rules of the areas still get the room divided by this number."""
FIRST_HELPING = 1_200
"""Bytes of text for each item before any item gets more."""
LEAST_TEXT = 80
SIDE_SHARE = 8
"""Each side list may take the room divided by this number before the items get any."""
PATHS = ("unmatched_paths", "described")
"""Side lists that are filled before items get more than summaries. Each may take half of the remaining room."""
CUT_RESERVE = 500
HINT_RESERVE = 1_300
MOST_ITEMS = 80
MANY = 15
"""Largest number of memories of one kind before other kinds. Without a limit, the gotchas of a file would hide its
decisions."""


class More(TypedDict):
    """Arguments of `get` for the full text."""

    uris: list[str]


class ItemAnswer(Standing):
    """Has `summary`, the beginning of the `text`, or both. Without `more`, the item is complete. `conflicts` are the
    fields with an open conflict, and `on_line` marks nodes about a symbol that contains a requested line."""

    uri: str
    kind: str
    name: str
    why: str
    summary: NotRequired[str]
    text: NotRequired[str]
    paths: NotRequired[list[str]]
    on_line: NotRequired[bool]
    conflicts: NotRequired[list[str]]
    more: NotRequired[More]


class CutAnswer(TypedDict):
    """How many of a kind did not fit the budget."""

    what: str
    count: int


def room_of(budget: int, fixed: int) -> int:
    """Bytes available for the lists of an answer."""
    whole = min(budget * BYTES_PER_TOKEN, HARD_LIMIT)
    return max(0, whole - fixed - min(CUT_RESERVE + HINT_RESERVE, whole // 4))


def fill(
    room: int,
    workspace: Workspace,
    found: Sequence[Found],
    sides: Mapping[str, Sequence[Any]],
    marks: Mapping[Uri, UnverifiedAnswer],
    sees: Sees | None,
) -> tuple[dict[str, list[Any]], Counter[str]]:
    """The lists of an answer by name, together at most `room` bytes, and the number of omissions by kind.

    The start of each list in `sides` is filled before the items, which get the remaining room. Then the lists are
    filled in the order of `sides`. Conflicts that `sees` does not cover are not shown.
    """
    cut: Counter[str] = Counter()
    lists: dict[str, list[Any]] = {name: [] for name in sides}

    def serve(names: Iterable[str], share: int) -> None:
        nonlocal room
        for name in names:
            rest, used = _taken(sides[name][len(lists[name]) :], min(share, room))
            lists[name] += rest
            room -= used

    serve(sides, room // SIDE_SHARE)
    considered = found[:MOST_ITEMS]
    close = [one for one in considered if one.closeness < FAR]
    read = cache(partial(_content, workspace, sees))
    for brief in (BRIEF, BRIEFER):
        items = _Items(read, marks)
        left = items.take(close, room, brief)
        if len(items.answers) == len(close):
            break
    else:
        reserve = room // RULES_SHARE
        items = _Items(read, marks)
        left = items.extend(items.take(close, room - reserve, BRIEFER) + reserve, RULES, AREAS)
    room = left
    serve((name for name in sides if name in PATHS), room // 2)
    if len(items.answers) == len(close):
        room = items.extend(room, RULES, AREAS)
        room = items.take([one for one in considered if one.closeness >= FAR], room, brief=0)
    cut.update(one.kind for one in found if one.uri not in items.uris)
    for helping in (FIRST_HELPING, HARD_LIMIT):
        room = items.extend(room, helping)
    serve(sides, room)
    cut.update({name: left for name, values in sides.items() if (left := len(values) - len(lists[name]))})
    order = {one.uri: number for number, one in enumerate(found)}
    return {"items": sorted(items.answers, key=lambda item: order[Uri(item["uri"])]), **lists}, cut


def _needed_first(found: Sequence[Found]) -> list[Found]:
    """The findings, closest first. At the same distance, the best finding of each kind comes before the others, and
    memories beyond the first `MANY` of a kind come last."""
    seen: Counter[tuple[str, bool]] = Counter()
    keys: dict[Uri, tuple[bool, int, int]] = {}
    for one in sorted(found, key=lambda one: one.closeness):
        kind = one.kind, one.closeness == FAR
        seen[kind] += one.kind not in AREAS and one.closeness != ANSWER
        helping = 0 if seen[kind] <= 1 else 1 if seen[kind] <= MANY else 2
        keys[one.uri] = (one.closeness == FAR, helping, one.closeness)
    return sorted(found, key=lambda one: keys[one.uri])


def told(cut: Counter[str]) -> list[CutAnswer]:
    return [{"what": what, "count": count} for what, count in sorted(cut.items(), key=lambda one: (-one[1], one[0]))]


def shrink(answer: dict[str, Any], budget: int, names: Iterable[str]) -> None:
    """Remove entries from the ends of these lists, in this order, until the answer is within its budget."""
    most = min(budget * BYTES_PER_TOKEN, HARD_LIMIT)
    for name in names:
        while size_of(answer) > most and answer.get(name):
            if isinstance(answer[name], list):
                answer[name].pop()
            else:
                del answer[name]


def _taken(values: Sequence[Any], room: int) -> tuple[list[Any], int]:
    kept, used = [], 0
    for value in values:
        size = size_of(value)
        if used + size > room:
            break
        kept.append(value)
        used += size
    return kept, used


class _Items:
    """The items of an answer, each with the text that can still be added."""

    def __init__(self, read: Callable[[Uri], _Content], marks: Mapping[Uri, UnverifiedAnswer]) -> None:
        self._read, self._marks = read, marks
        self.answers: list[ItemAnswer] = []
        self._contents: list[_Content] = []
        self.uris: set[Uri] = set()

    def take(self, found: Sequence[Found], room: int, brief: int) -> int:
        """Add items with a summary or the beginning of their text, as many as fit; return the remaining room.

        If the room is short, nodes about the subject have priority over nodes related to its areas; the order of the
        items is still the reading order.
        """
        taken: dict[Uri, tuple[ItemAnswer, _Content]] = {}
        for one in _needed_first(found):
            content = self._read(one.uri)
            answer = _brief(one, content.text, brief)
            answer |= present(unverified=self._marks.get(one.uri), conflicts=content.disputed)
            answer = content.with_more(answer)
            size = size_of(answer)
            if size > room:
                break
            room -= size
            taken[one.uri] = answer, content
        for one in found:
            if one.uri in taken:
                answer, content = taken[one.uri]
                self.answers.append(answer)
                self._contents.append(content)
        self.uris |= taken.keys()
        return room

    def extend(self, room: int, helping: int, kinds: Collection[str] = ()) -> int:
        """Extend the text of each item of these kinds (all if empty), in order, to `helping` bytes; return the
        remaining room.
        """
        for number, (answer, content) in enumerate(zip(self.answers, self._contents, strict=True)):
            shown = answer.get("text", "")
            if shown == content.text or room < LEAST_TEXT or (kinds and answer["kind"] not in kinds):
                continue
            text = _cut(content.text, min(room + size_of(shown) - len(',"text":'), helping))
            if len(text) <= len(shown):
                continue
            longer = content.with_more({**answer, "text": text})
            more = size_of(longer) - size_of(answer)
            if more <= room:
                room -= more
                self.answers[number] = longer
        return room


class _Content(NamedTuple):
    """The text of a node, whether `get` returns more, such as a detail or sections, and its disputed fields."""

    uri: Uri
    text: str
    has_detail: bool
    disputed: list[str]

    def with_more(self, answer: ItemAnswer) -> ItemAnswer:
        """The item, with the arguments of `get` if it is incomplete."""
        answer.pop("more", None)
        if self.has_detail or answer.get("text", "") != self.text:
            answer["more"] = {"uris": [self.uri]}
        return answer


def _content(workspace: Workspace, sees: Sees | None, uri: Uri) -> _Content:
    node = workspace.readable(uri)
    if node is None and scheme_of(uri) == "chunk" and (overlay := overlay_of(workspace)) is not None:
        node = overlay.node(uri)  # part of a document in the code tree
    found = workspace.conflicts.find(uri, about=sees) if workspace.conflict_count else ()
    disputed = sorted({name for one in found for name in one.conflict.fields})
    if node is None:
        return _Content(uri, "", False, disputed)
    return _Content(
        uri,
        _after(node.summary, node.content.strip()),
        bool(node.data.get("file") or node.data.get("sections")),
        disputed,
    )


def _after(summary: str, content: str) -> str:
    """The content without a first sentence that repeats the summary."""
    said = summary.rstrip(". ")
    repeated = re.match(re.escape(said) + r"\.?(?:\s+|$)", content) if said else None
    return content[repeated.end() :] if repeated else content


def _brief(one: Found, text: str, size: int) -> ItemAnswer:
    name = one.card.name or one.uri.rpartition("/")[2]
    answer: ItemAnswer = {"uri": one.uri, "kind": one.kind, "name": name, "why": one.why}
    if text and size and not one.card.summary:
        answer["text"] = _cut(text, size)
    answer |= present(
        on_line=one.on_line,
        summary=one.card.summary if one.card.summary != name else "",
        superseded_by=one.superseded_by,
        paths=one.paths[:5] if len(one.paths) > 1 else (),
    )
    return answer


def _cut(text: str, size: int) -> str:
    """The longest beginning of the text within `size` bytes, cut after a paragraph, a sentence or a word."""
    if size_of(text) <= size:
        return text
    if size < LEAST_TEXT:
        return ""
    head = text[: fitting(text, size - 4)]
    for mark in ("\n\n", "\n", ". ", " "):
        at = head.rfind(mark)
        if at > len(head) * 2 // 3:
            return head[: at + (1 if mark == ". " else 0)].rstrip() + " …"
    return head + "…"
