"""Fields of a node's form: their texts, and the changes that a submitted form makes.

Texts are compared with normalised line ends, because browsers rewrite them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgd.errors import KgdError
from kgd.ui.changes import is_cut
from kgd.ui.values import mapping_of, mapping_text

FIELDS = ("type", "name", "summary", "content", "detail", "tags", "data")
LINES = ("type", "name", "summary")
"""Single-line fields."""
LABELS = {
    "type": "Type",
    "name": "Name",
    "summary": "Summary",
    "content": "Content",
    "detail": "In detail",
    "tags": "Tags",
    "data": "Data",
}
Texts = Mapping[str, str]
"""The text of each field of a form."""


@dataclass(frozen=True, slots=True)
class Met:
    """A form merged with a concurrent change of its node.

    `texts` takes the fields that only the other user changed, and keeps the typed text of all others. `theirs` names
    the fields that the other user changed, `both` those changed differently here.
    """

    texts: dict[str, str]
    theirs: tuple[str, ...]
    both: tuple[str, ...]


def texts_of(node: Mapping[str, Any] | None) -> dict[str, str]:
    """Return a node as the texts of its form, without fields that the answer shortened."""
    if node is None:
        return dict.fromkeys(FIELDS, "")
    texts = {name: plain(node.get(name, "")) for name in ("type", "name", "summary", "content")}
    texts["detail"] = plain(node["detail"]["text"]) if "detail" in node else ""
    texts["tags"] = "\n".join(node.get("tags", ()))
    data = node.get("data", {})
    if not is_cut(data):
        texts["data"] = mapping_text(data)
    return texts


def typed_of(form: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a submitted form."""
    sent = {name: plain(form[name]) for name in FIELDS if name in form}
    return {name: " ".join(text.split()) if name in LINES else text for name, text in sent.items()}


def plain(text: str) -> str:
    """Normalise line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def same(field: str, one: str, two: str) -> bool:
    """Whether two texts of a field have the same value."""
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
    """Return the changes of `put` that turn the texts `base` into the typed ones; empty if they are the same.

    Args:
        put: Further keys of the first change: the node's URI and the version that was read.

    Raises:
        Invalid: The data is not valid YAML.
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
            # `put` merges maps, so removed keys must be unset first.
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
    """Merge a form with a concurrent change of its node, keeping all typed text."""
    changed = [name for name in FIELDS if name in theirs and not same(name, base.get(name, ""), theirs[name])]
    mine = [name for name in FIELDS if name in typed and not same(name, base.get(name, ""), typed[name])]
    both = [name for name in changed if name in mine and not same(name, typed[name], theirs[name])]
    texts = {name: typed[name] if name in mine else theirs.get(name, typed[name]) for name in typed}
    return Met(texts, tuple(changed), tuple(both))


def _line(data: Mapping[str, Any], key: str) -> str:
    """Return an entry as YAML: 1 and true are equal in Python but not the same data."""
    return mapping_text({key: data[key]}) if data.get(key) is not None else ""
