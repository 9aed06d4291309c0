"""The answer of `context` as Markdown for models. It has the same facts as the structured answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kgd.tools.markdown import address, fence, line, rest

Answer = Mapping[str, Any]

_ITEM = frozenset({"uri", "kind", "name", "why", "summary", "text", "more"})
_CODE = frozenset({"uri", "name", "why", "summary", "text"})
_LISTS = {
    "lines": "requested lines",
    "changes": "recent changes",
    "tried_before": "related past commits",
    "likely_files": "likely files",
    "changed_together": "files that usually change with them",
    "known_by": "main authors",
    "cut": "left out",
}


def briefing(answer: Answer) -> str:
    """The answer of `context`: items in reading order, then the code, then its history."""
    home = answer["workspace"]
    parts = [f"workspace: {home}"]
    for item in answer["items"]:
        parts += _item(item, home)
    if code := answer.get("code"):
        parts += ["in the code:", *(text for one in code for text in _code(one, home))]
    for name, title in _LISTS.items():
        if found := answer.get(name):
            parts += [f"{title}:", *(f"- {'; '.join(rest(one, ()))}" for one in found)]
    if missing := answer.get("missing"):
        parts += [line(missing["message"]), *rest(missing, ("message",))]
    if nearest := answer.get("nearest"):
        parts.append(f"nearest: {', '.join(address(uri, home) for uri in nearest)}")
    return "\n".join([*parts, *rest(answer, ("workspace", "items", "code", "missing", "nearest", *_LISTS))])


def _item(item: Answer, home: str) -> Iterator[str]:
    yield f"## {address(item['uri'], home)} ({line(item['kind'])}) {line(item['name'])}"
    yield f"why: {line(item['why'])}"
    if summary := item.get("summary"):
        yield line(summary)
    yield from rest(item, _ITEM)
    if text := item.get("text"):
        yield fence(text)
    if "more" in item:
        yield "(more with get)"


def _code(one: Answer, home: str) -> Iterator[str]:
    yield f"- {address(one['uri'], home)} {line(one['name'])} ({line(one['why'])})"
    for text in (one.get("summary"), one.get("text")):
        if text:
            yield f"  {line(text)}"
    yield from (f"  {text}" for text in rest(one, _CODE))
