"""Choices that a page offers for a conflict, and the value of each choice.

A text with several changed stretches, or a whole node, can be combined from parts of both versions. These
functions call no tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from kgd.errors import Invalid
from kgd.model.node import Json
from kgd.ui.changes import (
    Mark,
    are_lists,
    clipped,
    lines_of,
    marked,
    marked_items,
    marks,
    newer,
    stretches,
    titled,
    written,
)

MOST_PARTS = 60


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a text: equal in both versions (`is_same`), or different.

    `at` is its place among all parts, `number` its place among those that differ, from 1.
    """

    a: str
    b: str
    title: str = ""
    at: int = 0
    number: int = 0

    @property
    def is_same(self) -> bool:
        return self.a == self.b


@dataclass(frozen=True, slots=True)
class Side:
    """One version: its label, author, and text marked against the merge base.

    `reading` is the whole text with the inserted words marked; `marks` has the deleted words as well, and is shortened
    between changes.
    """

    letter: str
    label: str
    text: str
    marks: tuple[Mark, ...]
    reading: tuple[Mark, ...]
    is_shown: bool
    by: Mapping[str, Any]

    @property
    def drops(self) -> bool:
        """Whether the version lacks words of the merge base."""
        return bool(self.text) and any(mark.kind == "del" for mark in self.marks)


@dataclass(frozen=True, slots=True)
class Dispute:
    """One field of one conflict, as a page shows it.

    `own` is the initial text for another version; None if only existing versions can be chosen. `now` is the current
    value if it differs from all versions.
    """

    id: str
    uri: str
    name: str
    title: str
    kind: str
    sides: tuple[Side, ...]
    base: str
    base_label: str
    values: Mapping[str, Json]
    parts: tuple[Part, ...]
    own: str | None
    now: str | None


@dataclass(frozen=True, slots=True)
class Choice:
    """A form's choice for one field. `take` is a letter, ``base``, ``now``, ``own``, ``parts``, or empty."""

    take: str = ""
    own: str = ""
    parts: Mapping[int, str] | None = None


def disputes(conflict: Mapping[str, Any], names: Mapping[str, str] | None = None) -> list[Dispute]:
    """Return the fields of a conflict of the tool `conflicts`; `names` maps the targets of relations to names."""
    return [_dispute(conflict, name, field, titled(name, names)) for name, field in conflict["fields"].items()]


def kind_of(uri: str, name: str) -> str:
    """Return the kind of a conflict: field, node, uri, twin, memory or setting."""
    if uri.startswith("kgd://"):
        return "setting"
    if name in ("node", "uri", "twin"):
        return name
    return "memory" if name.startswith("memories/") else "field"


def parts_of(a: str, b: str) -> tuple[Part, ...]:
    """Split two texts by lines into equal and different parts."""
    pairs = stretches(lines_of(a), lines_of(b))
    return tuple(Part("".join(one), "".join(two)) for one, two in pairs if one or two)


def assembled(parts: Sequence[Part], chosen: Mapping[int, str]) -> str:
    """Join the chosen parts. The choice for a part's number is ``a``, ``b``, ``both`` (A, then B) or ``none``.

    Raises:
        Invalid: No version is chosen for a part.
    """
    return "".join(_chosen(number, part, chosen) for number, part in enumerate(parts))


def _chosen(number: int, part: Part, chosen: Mapping[int, str]) -> str:
    if part.is_same:
        return part.a
    match chosen.get(number):
        case "a":
            return part.a
        case "b":
            return part.b
        case "both":
            return (part.a if part.a.endswith("\n") or not part.a else part.a + "\n") + part.b
        case "none":
            return ""
    raise Invalid("no version is chosen for this part", at=f"part {number + 1}", next="Choose a version for each part.")


def value_of(dispute: Dispute, choice: Choice) -> Json:
    """Return the value of a choice.

    Raises:
        Invalid: Nothing was chosen, or the text cannot be parsed.
    """
    if choice.take in dispute.values:
        return dispute.values[choice.take]
    if choice.take == "own" and dispute.own is not None:
        return _own(dispute, choice.own)
    if choice.take == "parts" and dispute.parts:
        if dispute.kind != "node":
            return assembled(dispute.parts, choice.parts or {})
        return _node_of_parts(dispute, choice.parts or {})
    raise Invalid(f"nothing was chosen for the {dispute.title}", at=dispute.name[:60], next="Choose a version.")


def text_of(dispute: Dispute, take: str) -> str:
    """Return the value of a choice as the form for another version takes it; without such a form, as text."""
    value = dispute.values[take]
    if dispute.own is not None:
        return _own_text([side for name, side in dispute.values.items() if name not in ("base", "now")], value)
    if dispute.kind == "twin":
        return str(value or dispute.base_label)
    return _text(dispute.kind, value) or "deleted"


def resolution(found: Sequence[Dispute], chosen: Sequence[Choice]) -> dict[str, Any]:
    """Return the resolution of one conflict for the tool `resolve`, from a choice for each field.

    Raises:
        Invalid: As `value_of`.
    """
    takes = {choice.take for choice in chosen}
    if len(takes) == 1 and (take := next(iter(takes))) in ("a", "b", "base") and take in found[0].values:
        return {"id": found[0].id, "take": take}
    return {
        "id": found[0].id,
        "fields": {one.name: value_of(one, choice) for one, choice in zip(found, chosen, strict=True)},
    }


def _dispute(conflict: Mapping[str, Any], name: str, field: Mapping[str, Any], title: str) -> Dispute:
    kind, base, shown_now = kind_of(conflict["uri"], name), field["base"], field["shown"]
    letters = {side["side"]: side["value"] for side in field["sides"]}
    sides = list(letters.values())
    texts = [_text(kind, side) for side in sides]
    before = _text(kind, base) if base is not None else None
    lists = kind == "field" and are_lists(base, *sides)
    shown = []
    others: list[str | None] = [before] * len(texts) if before is not None or len(texts) != 2 else [*texts[::-1]]
    readings = newer(*(_compared(text, other, lists) for text, other in zip(texts, others, strict=True)))
    for number, told in enumerate(field["sides"]):
        letter, side, against = told["side"], told["value"], others[number]
        shown.append(
            Side(
                letter,
                _label(kind, letter, side),
                texts[number],
                _marks(texts[number], against, before is None),
                tuple(map(clipped, readings[number])),
                letter == shown_now,
                told,
            )
        )
    values: dict[str, Json] = {**letters}
    if base is not None or kind not in ("node", "uri", "memory"):
        values["base"] = base
    now, written_since = field.get("now"), None
    if "now" in field and kind not in ("twin", "uri") and not any(_same(now, side) for side in sides):
        values["now"], written_since = now, _text(kind, now)
    return Dispute(
        conflict["id"],
        conflict["uri"],
        name,
        title,
        kind,
        tuple(shown),
        before or "",
        _base_label(kind, base),
        values,
        _parts(kind, sides),
        _own_begin(kind, sides, letters[shown_now] if shown_now else now),
        written_since,
    )


def _text(kind: str, value: Json) -> str:
    if isinstance(value, Mapping) and set(value) == {"kept"}:
        return f"This version is too large to show. It is in the file {value['kept']} of the workspace."
    if isinstance(value, Mapping) and set(value) == {"unreadable"}:
        return str(value["unreadable"])
    if value is None:
        return ""
    if kind == "node" and isinstance(value, dict):
        return written({key: inner for key, inner in value.items() if key != "uri"})
    return written(value)


def _marks(text: str, against: str | None, is_other: bool) -> tuple[Mark, ...]:
    """Mark a text against the merge base, or against the other version if there is no base."""
    if against is None:
        return (clipped(Mark("same", text)),)
    found = marks(against, text)
    return tuple(newer(found)[0]) if is_other else found


def _compared(text: str, against: str | None, lists: bool) -> list[Mark]:
    if against is None:
        return [Mark("same", text)]
    return marked_items(against, text) if lists else marked(against, text, around=len(text))


def _label(kind: str, letter: str, side: Json) -> str:
    match kind:
        case "uri":
            return f"Name it {side}"
        case "twin":
            return f"Merge both as {side}"
        case "node" | "memory" if side is None:
            return f"Delete the {'node' if kind == 'node' else 'file'}"
    return f"Choose {letter.upper()}" if side is not None else f"Choose {letter.upper()}: nothing"


def _base_label(kind: str, base: Json) -> str:
    if kind == "twin":
        return "Keep both facts"
    if kind == "uri":
        return f"Name it {base} again"
    return "Restore the version before both changes" if base is not None else "Leave it empty, as before"


def _parts(kind: str, sides: Sequence[Json]) -> tuple[Part, ...]:
    """Return the parts of the first two versions; empty for a single part or more than `MOST_PARTS`."""
    if len(sides) < 2:
        return ()
    a, b = sides[0], sides[1]
    if isinstance(a, str) and isinstance(b, str) and kind in ("field", "memory", "setting"):
        found = parts_of(a, b)
    elif kind == "node" and _is_node(a) and _is_node(b):
        found = tuple(Part(written(a.get(key)), written(b.get(key)), titled(key)) for key in _differing_keys(a, b))
    else:
        return ()
    count = sum(not part.is_same for part in found)
    return tuple(_numbered(found)) if 2 <= count <= MOST_PARTS else ()


def _numbered(parts: Sequence[Part]) -> Iterator[Part]:
    number = 0
    for at, part in enumerate(parts):
        number += not part.is_same
        yield replace(part, at=at, number=0 if part.is_same else number)


def _node_of_parts(dispute: Dispute, chosen: Mapping[int, str]) -> Json:
    a, b = dispute.values["a"], dispute.values["b"]
    assert _is_node(a)
    assert _is_node(b)
    node = dict(a)
    for number, key in enumerate(_differing_keys(a, b)):
        side = {"a": a, "b": b}.get(chosen.get(number, ""))
        if side is None:
            raise Invalid("no version is chosen for this part", at=key, next="Choose a version for each part.")
        node.pop(key, None)
        if key in side:
            node[key] = side[key]
    return node


def _differing_keys(a: Mapping[str, Json], b: Mapping[str, Json]) -> list[str]:
    return [key for key in {**a, **b} if key != "uri" and not _same(a.get(key), b.get(key))]


def _is_node(value: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(value, dict) and "uri" in value


def _own_begin(kind: str, sides: Sequence[Json], shown: Json) -> str | None:
    if kind in ("twin", "node") or any(isinstance(side, dict) and set(side) == {"kept"} for side in sides):
        return None
    return _own_text(sides, shown)


def _own_text(sides: Sequence[Json], value: Json) -> str:
    if all(side is None or isinstance(side, str) for side in sides):
        return str(value or "")
    return json.dumps(value, ensure_ascii=False, indent=1)


def is_text(dispute: Dispute) -> bool:
    """Whether another version is entered as plain text; otherwise it is JSON."""
    return all(value is None or isinstance(value, str) for value in dispute.values.values())


def _own(dispute: Dispute, text: str) -> Json:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if is_text(dispute):
        return text or None
    try:
        value: Json = json.loads(text)
    except ValueError:
        raise Invalid(
            f"the text for the {dispute.title} is not JSON",
            at=dispute.name[:60],
            next='Write a number, true, false, a text in "quotes", a list or an object.',
        ) from None
    return value


def _same(one: Json, other: Json) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
