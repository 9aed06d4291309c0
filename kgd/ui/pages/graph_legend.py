"""The legend of the page *Graph*: each figure with its meaning; a click on a type hides or shows its nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from kgd.drawing.looks import TONES
from kgd.drawing.scene import MEANINGS, UNKNOWN, Mark, Scene, in_words, shown_type
from kgd.drawing.svg import sample
from kgd.ui.pages.graph_address import Wanted
from kgd.ui.visit import Visit


def legend_of(visit: Visit, wanted: Wanted, scene: Scene) -> list[dict[str, Any]]:
    """Return the figures of the picture with their meanings. Each type has a link that hides or shows it, except in a
    path and in groups that show classes."""
    tone = UNKNOWN if scene.has_tones else ""
    signs: Mapping[str, Mark] = {"conflict": "conflict", "stale": "unverified"}
    of_tones = [(one, (signs[one],) if one in signs else (), count) for one, count in scene.tones.items()]
    legend = [_entry(sample("", marks, one), f"{TONES[one][1]} {count:,}") for one, marks, count in of_tones]
    is_filter = scene.arrangement != "path" and not (scene.has_tones and scene.arrangement == "groups")
    types = {**scene.types, **dict.fromkeys(wanted.hidden, 0)} if is_filter else scene.types
    legend += [
        _entry(
            sample(type, tone=tone),
            f"{in_words(type)}{f' {count:,}' if type not in wanted.hidden else ''}",
            wanted.toggling(visit, type) if is_filter else "",
            type in wanted.hidden,
        )
        for type, count in types.items()
    ]
    kind: Mapping[str, str] = {"missing": "missing", "unreachable": "unreachable"}
    named = {mark for _, marks, _ in of_tones for mark in marks}
    return legend + [
        _entry(sample(kind.get(mark, "concept"), (mark,), tone), MEANINGS[mark] + f" {count:,}" * (mark != "start"))
        for mark, count in scene.marks.items()
        if mark not in named
    ]


def _entry(figure: str, words: str, link: str = "", is_hidden: bool = False) -> dict[str, Any]:
    return {"figure": Markup(figure), "words": words, "link": link, "is_hidden": is_hidden}


def without(answer: Mapping[str, Any], hidden: Sequence[str]) -> Mapping[str, Any]:
    """Return the answer without nodes of hidden types in the groups; lines still count all relations."""
    groups, left = [], Counter[str]()
    for group in answer["groups"]:
        types = {type: count for type, count in group.get("types", {}).items() if type not in hidden}
        gone = sum(group.get("types", {}).values()) - sum(types.values())
        left.update({group["id"]: gone, group.get("inside", ""): gone})
        groups.append({**group, "types": types} if "types" in group else dict(group))
        if "members" in group:
            groups[-1]["members"] = [one for one in group["members"] if shown_type(one) not in hidden]
    # The counts of a sample are rounded, so a difference may be negative.
    return {**answer, "groups": [{**one, "count": max(0, one["count"] - left[one["id"]])} for one in groups]}
