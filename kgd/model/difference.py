"""The edits that make a node, or turn one version of it into another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from kgd.model.change import Edit, Unrelate, Untag, Upsert
from kgd.model.conflict import canonical_json
from kgd.model.node import SCALARS, SETS, Json, Node


def upsert_of(node: Node) -> Upsert:
    """The edit that creates this node, or adds its fields to the stored node."""
    given: dict[str, Any] = {name: getattr(node, name) or None for name in SCALARS}
    given |= {name: getattr(node, name) for name in SETS}
    return Upsert(node.uri, **given, data=node.data, source=node.source, relations=node.relations, others=node.others)


def difference(before: Node, after: Node) -> tuple[Edit, ...]:
    """The edits that turn `before`, which has the same URI, into `after`; none if they are equal."""
    given: dict[str, Any] = {}
    unset: list[str] = []
    for name in (*SCALARS, *SETS):
        old, new = getattr(before, name), getattr(after, name)
        if name == "tags" or (name in SETS and set(old) <= set(new)):
            given[name] = tuple(one for one in new if one not in old)  # an upsert adds; `Untag` removes
        elif old != new:
            given[name] = new or None
            unset += [name] if name in SETS or not new else []
    if after.source is None and before.source is not None:
        unset.append("source")
    elif after.source is not None and after.source != before.source:
        is_same = before.source is not None and before.source.key == after.source.key
        former = before.source.others if before.source and is_same else {}
        given["source"] = replace(after.source, others=_changed(former, after.source.others))
    data = _changed(before.data, after.data)
    # An upsert merges mappings, so a changed mapping is cleared first.
    unset += [f"data.{key}" for key, value in data.items() if isinstance(value, Mapping) and key in before.data]
    known = {one.key: one for one in before.relations}
    relations = tuple(
        replace(one, others=_changed(known[one.key].others if one.key in known else {}, one.others))
        for one in after.relations
        if known.get(one.key) != one or _changed(known[one.key].data, one.data)
    )
    others = _changed(before.others, after.others)
    given |= {"data": data, "relations": relations, "others": others, "unset": tuple(unset)}
    edits: list[Edit] = [Upsert(after.uri, **given)] if any(given.values()) else []
    kept = {one.key for one in after.relations}
    edits += [Unrelate(after.uri, one.target, one.type) for one in before.relations if one.key not in kept]
    if tags := tuple(tag for tag in before.tags if tag not in after.tags):
        edits.append(Untag(after.uri, tags))
    return tuple(edits)


def as_change(edit: Edit) -> dict[str, Json]:
    """The edit as a change of `put`."""
    return {"op": type(edit).__name__.lower(), **asdict(edit, dict_factory=_filled)}


def _filled(values: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    return {name: value for name, value in values if value not in (None, "", (), {})}


def _changed(before: Mapping[str, Json], after: Mapping[str, Json]) -> dict[str, Json]:
    """The keys to set, with None for keys to remove."""
    keys = sorted({*before, *after})
    return {key: after.get(key) for key in keys if canonical_json(before.get(key)) != canonical_json(after.get(key))}
