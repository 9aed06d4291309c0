"""This file is where the fields of a node's form are: what they hold, what of it a person changed, and what that means.

What is compared is what a browser can send back: it writes every end of a line anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgd.errors import KgdError
from kgd.ui.values import mapping_of, mapping_text

FIELDS = ("type", "name", "summary", "content", "detail", "tags", "data")
LINES = ("type", "name", "summary")
"""Fields of one line."""
LABELS = {
    "type": "Type", "name": "Name", "summary": "Summary", "content": "Content", "detail": "In detail", "tags": "Tags",
    "data": "Data",
}  # fmt: skip
_CLIPPED = re.compile(r"… \(\d+ characters\)\Z").search
"""How an answer ends a text that had no room in it."""

Texts = Mapping[str, str]
"""Fields of a form, each as its text."""


@dataclass(frozen=True, slots=True)
class Met:
    """A form that was written while somebody else wrote too.

    `texts` is what it goes on with: what only they changed is theirs, all else is as it was typed. `theirs` names the
    fields that they changed, and `both` those of them that were changed otherwise here.
    """

    texts: dict[str, str]
    theirs: tuple[str, ...]
    both: tuple[str, ...]


def texts_of(node: Mapping[str, Any] | None) -> dict[str, str]:
    """A node as the texts of its form. A field is left out that could not be shown whole."""
    if node is None:
        return dict.fromkeys(FIELDS, "")
    texts = {name: plain(node.get(name, "")) for name in ("type", "name", "summary", "content")}
    texts["detail"] = plain(node["detail"]["text"]) if "detail" in node else ""
    texts["tags"] = "\n".join(node.get("tags", ()))
    data = node.get("data", {})
    if not _is_clipped(data):
        texts["data"] = mapping_text(data)
    return texts


def typed_of(form: Mapping[str, str]) -> dict[str, str]:
    """What was sent of a form."""
    sent = {name: plain(form[name]) for name in FIELDS if name in form}
    return {name: " ".join(text.split()) if name in LINES else text for name, text in sent.items()}


def plain(text: str) -> str:
    """The text with line ends as they are stored."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def same(field: str, one: str, two: str) -> bool:
    """Whether two texts of a field say the same."""
    if one == two:
        return True
    if field == "tags":
        return set(tags_of(one)) == set(tags_of(two))
    if field == "data":
        try:
            first, second = mapping_of(one), mapping_of(two)
            return all(_line(first, key) == _line(second, key) for key in {**first, **second})
        except KgdError:
            return False
    return False


def tags_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def changes(base: Texts, typed: Texts, put: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The changes of `put` that make of the node with the texts `base` what was typed; none where that is the same.

    Args:
        put: What the first change says beside: which node, and which version of it was read.

    Raises:
        Invalid: The data cannot be read.
    """
    altered = [name for name in FIELDS if name in typed and not same(name, base.get(name, ""), typed[name])]
    upsert: dict[str, Any] = {"op": "upsert", **put}
    unset: list[str] = []
    gone: list[str] = []
    for name in altered:
        text = typed[name]
        if name == "tags":
            before, after = tags_of(base.get(name, "")), tags_of(text)
            upsert["tags"] = [tag for tag in after if tag not in before]
            gone = [tag for tag in before if tag not in after]
        elif name == "data":
            old, new = mapping_of(base.get(name, "")), mapping_of(text)
            differ = [key for key in {**old, **new} if _line(old, key) != _line(new, key)]
            # A map is merged into the one that is there, so what was taken out of it has to go first.
            unset += [f"data.{key}" for key in differ if key in old]
            upsert["data"] = {key: new[key] for key in differ if new.get(key) is not None}
        elif not text.strip():
            unset.append(name)
        else:
            upsert[name] = text
    if unset:
        upsert["unset"] = unset
    if not altered:
        return []
    untag = [{"op": "untag", "uri": put["uri"], "tags": gone}] if gone else []
    return [upsert, *untag]


def meet(base: Texts, typed: Texts, theirs: Texts) -> Met:
    """What a form goes on with whose node was written meanwhile: nothing of what was typed is lost."""
    changed = [name for name in FIELDS if name in theirs and not same(name, base.get(name, ""), theirs[name])]
    mine = [name for name in FIELDS if name in typed and not same(name, base.get(name, ""), typed[name])]
    both = [name for name in changed if name in mine and not same(name, typed[name], theirs[name])]
    texts = {name: typed[name] if name in mine else theirs.get(name, typed[name]) for name in typed}
    return Met(texts, tuple(changed), tuple(both))


def _line(data: Mapping[str, Any], key: str) -> str:
    """As it is written: 1 and true are equal to Python, and not the same."""
    return mapping_text({key: data[key]}) if data.get(key) is not None else ""


def _is_clipped(value: Any) -> bool:
    if isinstance(value, str):
        return _CLIPPED(value) is not None
    if isinstance(value, Mapping):
        return any(map(_is_clipped, value.values()))
    return isinstance(value, list) and any(map(_is_clipped, value))
