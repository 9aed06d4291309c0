"""Answers as Markdown for models, with the same facts as the structured answers: short addresses, one line per fact,
stored text in fences."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import orjson

from kgd.model.uri import OWNED

COMMIT = 12
"""Number of characters shown of a commit's id; parameters accept this short form."""

Answer = Mapping[str, Any]

_NODE = frozenset(
    """
    uri type name version continued summary tags created updated origin content content_cut detail detail_cut relations
    relations_cut incoming incoming_cut history mentions citations messages superseded_by
    """.split()
)

_SIGNS = frozenset(",;")
"""Signs that divide a text, so that a list of such texts would be ambiguous without quotes."""
_CONTEXT_ITEM = frozenset({"uri", "kind", "name", "why", "summary", "text", "more", "superseded_by"})
_CONTEXT_CODE = frozenset({"uri", "name", "why", "line", "summary", "text"})
_CONTEXT_LISTS = {
    "lines": "requested lines",
    "changes": "recent changes",
    "tried_before": "related past commits",
    "likely_files": "likely files",
    "changed_together": "files that usually change with them",
    "known_by": "main authors",
    "cut": "left out",
}


def address(uri: str, home: str) -> str:
    """The shortest address that parameters accept for this URI in the workspace `home`, in backticks.

    ``atom://shop/Check%20out`` becomes ``atom:Check out``; URIs of other workspaces and of the web are left as they
    are.
    """
    scheme, _, place = uri.partition("://")
    owner, slash, path = place.partition("/")
    if scheme not in OWNED or owner != home or not slash:
        return f"`{uri}`"
    if "%20" in path:
        plain = path.replace("%20", " ")
        path = plain if plain == plain.strip() else path
    return f"`{scheme}:{path}`"


def line(text: object) -> str:
    """A text in one line."""
    shown = str(text)
    return shown if shown.isprintable() else " ".join(shown.split())


def fence(text: str) -> str:
    """A block that the text cannot close: its fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    marks = "`" * (longest + 1)
    return f"{marks}\n{text.removesuffix(chr(10))}\n{marks}"


_USUAL_TYPES = {scheme: scheme for scheme in OWNED} | {"file": "resource", "dir": "concept"}


def titled(node: Mapping[str, Any], home: str) -> str:
    """The address of a node, with type and name unless they are part of the address: ``decision:One signer``."""
    uri, type, name = node["uri"], node.get("type", ""), line(node["name"])
    shown = address(uri, home)
    kind = f" ({line(type)})" if type not in ("", _USUAL_TYPES.get(uri.partition(":")[0], "resource")) else ""
    is_in_address = not name or (name in shown and shown.endswith((f":{name}`", f"/{name}`")))
    return f"{shown}{kind}" if is_in_address else f"{shown}{kind} {name}"


def superseded(node: Mapping[str, Any], home: str) -> Iterator[str]:
    """A line with the successor of a superseded node."""
    if found := node.get("superseded_by"):
        yield f"superseded by {titled(found, home)}"


def rest(answer: Mapping[str, Any], known: Collection[str]) -> Iterator[str]:
    """One line for each remaining field, so that no field is missing."""
    for name, value in answer.items():
        if name not in known and value not in ([], {}, None):
            yield f"{name}: {_shown(value)}"


def _shown(value: object) -> str:
    """A text, or a list of texts without commas and semicolons, in plain words; other values as JSON."""
    if isinstance(value, str):
        return line(value)
    if isinstance(value, list) and all(
        isinstance(one, str) and one and one.isprintable() and _SIGNS.isdisjoint(one) for one in value
    ):
        return ", ".join(value)
    return orjson.dumps(value).decode()


def nodes(answer: Answer) -> str:
    """The answer of `get`."""
    home = answer["workspace"]
    parts = ["\n".join(_node(node, home)) for node in answer["nodes"]]
    ends = [*_missing(answer, home), *rest(answer, ("workspace", "nodes", "missing"))]
    return "\n\n".join([f"workspace: {home}", *parts, *(["\n".join(ends)] if ends else [])])


def _node(node: Answer, home: str) -> Iterator[str]:
    yield f"## {titled(node, home)}"
    if (summary := node.get("summary")) and summary != node["name"]:
        yield line(summary)
    yield "; ".join(_state(node, home))
    yield from superseded(node, home)
    if tags := node.get("tags"):
        yield f"tags: {', '.join(map(line, tags))}"
    yield from rest(node, _NODE)
    yield from _text(node.get("content"), node.get("content_cut"), "content")
    detail = node.get("detail")
    yield from _text(detail and detail["text"], node.get("detail_cut"), f"detail {detail['file']}" if detail else "")
    yield from _cut("relations", node)
    for one in node.get("relations", ()):
        yield f"- {line(one['type'])} -> {address(one['target'], home)}{_of_relation(one)}"
    yield from _cut("incoming", node)
    for one in node.get("incoming", ()):
        yield f"- {address(one['source'], home)} {line(one['type'])} -> this{_of_relation(one)}"
    for one in node.get("history", ()):
        yield f"- {_commit(one)} {line(one['message'])}"
    yield from _mentions(node.get("mentions"), home)
    for one in node.get("citations", ()):
        yield from _citation(one)
    for one in node.get("messages", ()):
        yield from _message(one, home)


def _state(node: Answer, home: str) -> Iterator[str]:
    """Version, last change and origin in one line."""
    if node.get("continued"):
        yield "continued"
    yield f"version {node['version']}" if node["version"] else "not stored"
    origin = node["origin"]
    commit = [f"commit {origin['commit'][:COMMIT]}"] if origin.get("commit") else []
    if updated := node.get("updated"):
        yield ", ".join([f"changed {updated['at']} by {line(updated['by'])}", *commit])
        if "verified_at" in updated:
            yield f"verified {updated['verified_at']} by {line(updated['verified_by'])}"
        if (created := node["created"]) != updated:
            yield f"created {created['at']} by {line(created['by'])}"
    else:
        yield from commit
    if origin.get("workspace", home) != home:
        yield f"of workspace {origin['workspace']}"
    if origin.get("trust", "local") != "local":
        yield f"trust {origin['trust']}"


def _text(text: str | None, cut: Answer | None, name: str) -> Iterator[str]:
    if cut:
        yield f"{name}, characters {cut['start']} to {cut['end']} of {cut['of']}:"
    elif text and name != "content":
        yield f"{name}:"
    if text:
        yield fence(text)


def _cut(name: str, node: Answer) -> Iterator[str]:
    if cut := node.get(f"{name}_cut"):
        yield f"{name} {cut['start']} to {cut['end']} of {cut['of']}:"


def _of_relation(one: Answer) -> str:
    """Weight, data, unknown keys and state of a relation, without defaults."""
    weight = "" if one["weight"] == 1 else f" {one['weight']:g}"
    data = f" {orjson.dumps(one['data']).decode()}" if one.get("data") else ""
    others = f" others {orjson.dumps(one['others']).decode()}" if one.get("others") else ""
    return f"{weight}{data}{others}{' (broken)' if one.get('broken') else ''}"


def _commit(one: Answer) -> str:
    brought = "".join(
        f", {key.replace('_', ' ')} {line(one[key])}" for key in ("pushed_by", "accepted_by") if key in one
    )
    return f"{one['commit'][:COMMIT]} {one['at']} {line(one['author'])}{brought}:"


def _mentions(found: Answer | None, home: str) -> Iterator[str]:
    for name, key in (("mentions", "out"), ("mentioned in", "into")):
        if found and found[key]:
            yield f"{name}: {', '.join(address(uri, home) for uri in found[key])}"
    if found and found["more"]:
        yield f"mentions left out: {found['more']}"


def _citation(one: Answer) -> Iterator[str]:
    why = f", {line(one['reason'])}" if "reason" in one else ""
    yield f"cites {line(one['text'])}: {one.get('state', 'not compared')}{why}"
    if code := one.get("code"):
        yield f"from line {one['first']}:"
        yield fence(code)
    if diff := one.get("diff"):
        yield "changed since:"
        yield fence(diff)


def _message(one: Answer, home: str) -> Iterator[str]:
    answers = f" answers {address(one['answers'], home)}" if "answers" in one else ""
    yield f"### {line(one['sender'])} ({one['sender_type']}) {one.get('at', '')} {address(one['uri'], home)}{answers}"
    yield from rest(one, ("uri", "sender", "sender_type", "at", "answers", "content", "content_cut"))
    yield from _text(one["content"], one.get("content_cut"), "content")


def _missing(answer: Answer, home: str) -> Iterator[str]:
    for one in answer["missing"]:
        why = f" ({one['reason']})" if "reason" in one else ""
        like = [address(uri, home) for uri in one["similar"]]
        also = [f"similar: {', '.join(like)}"] if like else []
        yield "; ".join([f"missing: `{one['uri']}`{why}", *also, *rest(one, ("uri", "similar", "reason"))])


_REACHED = frozenset(
    {"uri", "type", "name", "cost", "via", "path", "summary", "stored", "unverified", "superseded_by", "origin"}
)
_PLAIN = frozenset({"uri", "type", "name", "cost", "via", "summary"})
_WALK = frozenset({"workspace", "nodes", "edges", "cut", "broken_links", "conflicts", "unreached", "alternatives"})


def walk(answer: Answer) -> str:
    """The answer of `traverse`: one line per node, as cost, address, summary, and the relation that reached it."""
    home = answer["workspace"]
    lines = [f"workspace: {home}", *(_reached(node, home) for node in answer["nodes"])]
    if end := answer.get("unreached"):
        lines.append(f"no path to {address(end, home)} within these limits")
    lines += _edges(answer, home)
    for one in answer.get("alternatives", ()):
        steps = " ".join(_step(node["via"], home) for node in one["nodes"][1:])
        lines.append(f"another path, cost {one['cost']:g}: {steps} {address(one['nodes'][-1]['uri'], home)}")
    for one in answer["cut"]:
        lines.append(f"cut by {one['limit']} at {address(one['at'], home)}: {one['count']} or more left out")
    for one in answer["broken_links"]:
        told = "; ".join([one["reason"], *rest(one, ("source", "type", "target", "reason", "weight"))])
        lines.append(f"broken: {_edge(one, home)} ({told})")
    lines += [f"conflict: {orjson.dumps(one).decode()}" for one in answer["conflicts"]]
    return "\n".join([*lines, *rest(answer, _WALK)])


def _edges(answer: Answer, home: str) -> Iterator[str]:
    if edges := answer.get("edges"):
        yield "relations:"
        yield from (f"- {_edge(one, home)}{_of_relation(one)}" for one in edges)


def _edge(one: Answer, home: str) -> str:
    return f"{address(one['source'], home)} {line(one['type'])} -> {address(one['target'], home)}"


def _reached(node: Answer, home: str) -> str:
    text = f"- {node['cost']:g} {titled(node, home)}"
    if (summary := node.get("summary")) and summary != node["name"]:
        text += f": {line(summary)}"
    if node.keys() <= _PLAIN:
        return f"{text} [{_via(node['via'], home)}]" if "via" in node else text
    notes = [_via(node["via"], home)] if "via" in node else []
    if "path" in node:
        notes.append("path " + (" ".join(_step(step, home) for step in node["path"]) or "of a start"))
    if node.get("stored") is False:
        notes.append("not stored")
    if doubt := node.get("unverified"):
        notes.append(f"stale: {'; '.join(rest(doubt, ()))}")
    notes += superseded(node, home)
    if origin := node.get("origin"):
        notes.append(f"of workspace {'; '.join(rest(origin, ())).removeprefix('workspace: ')}")
    if not node.keys() <= _REACHED:
        notes += rest(node, _REACHED)
    return f"{text} [{'; '.join(notes)}]" if notes else text


def _via(via: Answer, home: str) -> str:
    if "through" in via:
        return " ".join(_step(step, home) for step in (*via["through"], via))
    return _step(via, home)


def _step(step: Answer, home: str) -> str:
    """``a uses ->``, or ``a <- uses`` for a relation that was walked against its direction."""
    start, type = address(step["from"], home), line(step["type"])
    return f"{start} <- {type}" if "direction" in step else f"{start} {type} ->"


_HIT = frozenset(
    {"uri", "type", "name", "line", "score", "lex", "vec", "why", "summary", "snippet", "path", "superseded_by"}
)
_FOUND = ("workspace", "hits", "code", "edges", "nearest", "absent", "hint")


def hits(answer: Answer) -> str:
    """The answer of `search`: knowledge, then code, a few lines per hit."""
    home = answer["workspace"]
    parts = [f"workspace: {home}", *([line(answer["absent"])] if "absent" in answer else [])]
    parts += [text for hit in answer["hits"] for text in _hit(hit, home)]
    if hint := answer.get("hint"):
        parts.append(line(hint))
    if nearest := answer.get("nearest"):
        parts.append(f"nearest: {', '.join(address(uri, home) for uri in nearest)}")
    if code := answer.get("code"):
        parts += ["in the code:", *(text for hit in code for text in _hit(hit, home))]
    parts += _edges(answer, home)
    return "\n".join([*parts, *rest(answer, _FOUND)])


def _hit(hit: Answer, home: str) -> Iterator[str]:
    reasons = "; ".join((f"{hit['score']:.2g}", *hit["why"]))
    yield f"- {titled(hit, home)}{_at(hit)} ({line(reasons)})"
    yield from (f"  {text}" for text in superseded(hit, home))
    summary, snippet = hit.get("summary", ""), hit.get("snippet", "")
    for text in ("" if summary in snippet else summary, snippet):
        if text and text != hit["name"]:
            yield f"  {line(text)}"
    if path := hit.get("path"):
        yield f"  reached by {' > '.join(address(uri, home) for uri in path)}"
    yield from (f"  {text}" for text in rest(hit, _HIT))


def briefing(answer: Answer) -> str:
    """The answer of `context`: items in reading order, then the code, then its history. If nothing is known, this comes
    first."""
    home, missing = answer["workspace"], answer.get("missing")
    parts = [f"workspace: {home}"]
    if missing:
        parts.append(line(missing["message"]))
    if nearest := answer.get("nearest"):
        parts.append(f"nearest: {', '.join(address(uri, home) for uri in nearest)}")
    for item in answer["items"]:
        parts += _context_item(item, home)
    if code := answer.get("code"):
        parts += ["in the code:", *(text for one in code for text in _context_code(one, home))]
    for name, title in _CONTEXT_LISTS.items():
        if found := answer.get(name):
            parts += [f"{title}:", *(f"- {'; '.join(rest(one, ()))}" for one in found)]
    if missing:
        parts += rest(missing, ("message",))
    return "\n".join([*parts, *rest(answer, ("workspace", "items", "code", "missing", "nearest", *_CONTEXT_LISTS))])


def _context_item(item: Answer, home: str) -> Iterator[str]:
    yield f"## {address(item['uri'], home)} ({line(item['kind'])}) {line(item['name'])}"
    yield f"why: {line(item['why'])}"
    yield from superseded(item, home)
    if summary := item.get("summary"):
        yield line(summary)
    yield from rest(item, _CONTEXT_ITEM)
    if text := item.get("text"):
        yield fence(text)
    if "more" in item:
        yield "(more with get)"


def _at(one: Answer) -> str:
    """Where a symbol begins in its file."""
    return f" line {one['line']}" if "line" in one else ""


def _context_code(one: Answer, home: str) -> Iterator[str]:
    yield f"- {titled(one, home)}{_at(one)} ({line(one['why'])})"
    for text in (one.get("summary"), one.get("text")):
        if text:
            yield f"  {line(text)}"
    yield from (f"  {text}" for text in rest(one, _CONTEXT_CODE))
