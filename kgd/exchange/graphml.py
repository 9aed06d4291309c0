"""Export to GraphML: standard keys for all readers, and graphics for yEd.

A missing target of a relation has ``missing`` true, the colour red and a dashed border, so colour is not the only sign.
Nodes keep the order of the view, so equal graphs have equal bytes.
"""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from kgd.exchange.plan import DrawnEdge, DrawnNode, Export, Output, View, drawing

RED, PLAIN, INK = "#d62728", "#e8eef7", "#5b6b7f"
SIGN = "<!-- written by kgd -->"
LABEL = 60

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_KEYS = (
    ("uri", "node", "string"),
    ("label", "node", "string"),
    ("type", "node", "string"),
    ("summary", "node", "string"),
    ("tags", "node", "string"),
    ("missing", "node", "boolean"),
    ("color", "node", "string"),
    ("type", "edge", "string"),
    ("label", "edge", "string"),
    ("weight", "edge", "double"),
    ("missing", "edge", "boolean"),
    ("color", "edge", "string"),
)
"""(name, element, type) of each attribute; its id is ``n_`` or ``e_`` followed by the name."""


def own(data: bytes) -> bool:
    return SIGN.encode() in data[:400]


def write(view: View) -> Export:
    """One document. Relations to existing nodes outside the view are left out and counted."""
    out = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        SIGN,
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">',
        *(f'  <key id="{of[0]}_{name}" for="{of}" attr.name="{name}" attr.type="{kind}"/>' for name, of, kind in _KEYS),
        '  <key id="n_graphics" for="node" yfiles.type="nodegraphics"/>',
        '  <key id="e_graphics" for="edge" yfiles.type="edgegraphics"/>',
        f'  <graph id={_attribute(view.workspace)} edgedefault="directed">',
    ]
    graph = drawing(view)
    for node in graph.nodes:
        out += _node(node)
    for number, edge in enumerate(graph.edges):
        out += _edge(number, edge)
    out += ["  </graph>", "</graphml>", ""]
    return Export((Output("", "\n".join(out).encode()),), counts=graph.counts())


def _node(node: DrawnNode) -> list[str]:
    missing = node.is_missing
    values = {
        "uri": node.uri,
        "label": node.title,
        "type": node.type,
        "summary": node.summary,
        "tags": ", ".join(node.tags),
        "missing": "true" if missing else "false",
        "color": RED if missing else PLAIN,
    }
    line, width = ("dashed", "2.0") if missing else ("line", "1.0")
    return [
        f"    <node id={_attribute(node.uri)}>",
        *(f'      <data key="n_{name}">{_text(value)}</data>' for name, value in values.items() if value),
        f'      <data key="n_graphics"><y:ShapeNode><y:Fill color="{values["color"]}" transparent="false"/>'
        f'<y:BorderStyle color="{RED if missing else INK}" type="{line}" width="{width}"/>'
        f"<y:NodeLabel>{_text(node.title[:LABEL])}</y:NodeLabel></y:ShapeNode></data>",
        "    </node>",
    ]


def _edge(number: int, edge: DrawnEdge) -> list[str]:
    values = {
        "type": edge.type,
        "label": edge.type,
        "weight": repr(edge.weight),
        "missing": "true" if edge.is_broken else "false",
        "color": RED if edge.is_broken else INK,
    }
    line = "dashed" if edge.is_broken else "line"
    return [
        f'    <edge id="e{number}" source={_attribute(edge.source)} target={_attribute(edge.target)}>',
        *(f'      <data key="e_{name}">{_text(value)}</data>' for name, value in values.items()),
        f'      <data key="e_graphics"><y:PolyLineEdge><y:LineStyle color="{values["color"]}" type="{line}"'
        f' width="1.0"/><y:Arrows source="none" target="standard"/>'
        f"<y:EdgeLabel>{_text(edge.type[:LABEL])}</y:EdgeLabel></y:PolyLineEdge></data>",
        "    </edge>",
    ]


def _text(value: str) -> str:
    """Escaped text; characters that XML 1.0 does not allow are replaced."""
    return escape(_NOT_XML.sub("\ufffd", value))


def _attribute(value: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", value))
