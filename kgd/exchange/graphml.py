"""This file is where a graph becomes GraphML: keys that any reader finds, and drawing for yEd beside them.

A node that a relation leads to and nobody wrote has ``missing`` true, the colour red and a dashed border, so that it is
told by more than colour. The order is that of the view, so that equal graphs have equal bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from kgd.exchange.plan import Output, Written
from kgd.exchange.view import View
from kgd.model.node import Node
from kgd.model.uri import Uri, name_of, scheme_of

RED, PLAIN = "#d62728", "#e8eef7"
SIGN = "<!-- written by kgd -->"
LABEL = 60

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_KEYS = (
    ("uri", "node", "string"), ("label", "node", "string"), ("type", "node", "string"), ("summary", "node", "string"),
    ("tags", "node", "string"), ("missing", "node", "boolean"), ("color", "node", "string"),
    ("type", "edge", "string"), ("label", "edge", "string"), ("weight", "edge", "double"),
    ("missing", "edge", "boolean"), ("color", "edge", "string"),
)  # fmt: skip
"""(name, of what, type) of each attribute; its id is ``n_`` or ``e_`` and the name."""


def own(data: bytes) -> bool:
    return SIGN.encode() in data[:400]


def write(view: View) -> Written:
    """One document. Relations to nodes outside of the view, which do exist, are left out and counted."""
    out = [
        '<?xml version="1.0" encoding="UTF-8"?>', SIGN,
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">',
        *(f'  <key id="{of[0]}_{name}" for="{of}" attr.name="{name}" attr.type="{kind}"/>' for name, of, kind in _KEYS),
        '  <key id="n_graphics" for="node" yfiles.type="nodegraphics"/>',
        '  <key id="e_graphics" for="edge" yfiles.type="edgegraphics"/>',
        f'  <graph id={_attribute(view.workspace)} edgedefault="directed">',
    ]  # fmt: skip
    chosen, missing, edges, left = set(view.chosen), dict[Uri, None](), list[str](), 0
    nodes = 0
    for node in view.nodes():
        nodes += 1
        out += _node(node.uri, node.title, node.type, node.summary, node.tags, missing=False)
        for number, relation in enumerate(node.relations):
            target = relation.target if relation.target in chosen else view.store.resolve(relation.target)
            is_missing = target not in chosen and view.is_missing(target)
            if is_missing:
                missing[target] = None
            elif target not in chosen:
                left += 1
                continue
            edges += _edge(f"{nodes}.{number}", node, target, relation.type, relation.weight, missing=is_missing)
    for uri in missing:
        out += _node(uri, name_of(uri), scheme_of(uri), "nobody has written this yet", (), missing=True)
    out += [*edges, "  </graph>", "</graphml>", ""]
    counts = {"nodes": nodes, "relations": sum(line.startswith("    <edge") for line in edges), "missing": len(missing)}
    if left:
        counts["relations_out_of_view"] = left
    return Written((Output("", "\n".join(out).encode()),), counts=counts)


def _node(uri: Uri, title: str, type: str, summary: str, tags: Iterable[str], *, missing: bool) -> list[str]:
    values = {"uri": uri, "label": title, "type": type, "summary": summary, "tags": ", ".join(tags),
              "missing": "true" if missing else "false", "color": RED if missing else PLAIN}  # fmt: skip
    line, width = ("dashed", "2.0") if missing else ("line", "1.0")
    return [
        f"    <node id={_attribute(uri)}>",
        *(f'      <data key="n_{name}">{_text(value)}</data>' for name, value in values.items() if value),
        f'      <data key="n_graphics"><y:ShapeNode><y:Fill color="{values["color"]}" transparent="false"/>'
        f'<y:BorderStyle color="{RED if missing else "#5b6b7f"}" type="{line}" width="{width}"/>'
        f"<y:NodeLabel>{_text(title[:LABEL])}</y:NodeLabel></y:ShapeNode></data>",
        "    </node>",
    ]


def _edge(id: str, source: Node, target: Uri, type: str, weight: float, *, missing: bool) -> list[str]:
    values = {"type": type, "label": type, "weight": repr(weight), "missing": "true" if missing else "false",
              "color": RED if missing else "#5b6b7f"}  # fmt: skip
    line = "dashed" if missing else "line"
    return [
        f'    <edge id="e{id}" source={_attribute(source.uri)} target={_attribute(target)}>',
        *(f'      <data key="e_{name}">{_text(value)}</data>' for name, value in values.items()),
        f'      <data key="e_graphics"><y:PolyLineEdge><y:LineStyle color="{values["color"]}" type="{line}"'
        f' width="1.0"/><y:Arrows source="none" target="standard"/><y:EdgeLabel>{_text(type[:LABEL])}</y:EdgeLabel>'
        "</y:PolyLineEdge></data>",
        "    </edge>",
    ]


def _text(value: str) -> str:
    """As XML 1.0 can hold it: what it cannot is replaced, whoever chose it."""
    return escape(_NOT_XML.sub("\ufffd", value))


def _attribute(value: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", value))
