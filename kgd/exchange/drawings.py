"""Exports of the graph for viewers: GraphML, and Mermaid flowcharts for READMEs and chats.

A missing target of a relation is red and dashed, so colour is not the only sign. Nodes keep the order of the view, so
equal graphs have equal bytes. Names are untrusted: in Mermaid, all characters except letters, digits and plain signs
are written as numbers, so a name cannot end its label, open a directive, or become HTML.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from kgd.exchange import Export, Output, Trouble, View
from kgd.model.uri import Uri, is_owned, name_of, scheme_of

RED, LIGHT, INK = "#d62728", "#e8eef7", "#5b6b7f"
GRAPHML_SIGN = "<!-- written by kgd -->"
GRAPHML_LABEL = 60

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

MOST_NODES, MOST_EDGES = 200, 450
"""Unless configured otherwise, Mermaid draws at most 500 edges and 50,000 characters."""
MERMAID_LABEL = 48
MERMAID_SIGN = "%% written by kgd"
_PLAIN = frozenset(" .,-_/+!?@")


@dataclass(frozen=True, slots=True)
class DrawnNode:
    uri: Uri
    title: str
    type: str
    summary: str = ""
    tags: tuple[str, ...] = ()
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    source: Uri
    target: Uri
    type: str
    weight: float
    is_broken: bool = False


@dataclass(slots=True)
class Drawing:
    """`nodes` has the nodes of the view in its order, then other targets of relations. `left` counts relations to
    stored nodes outside the view."""

    nodes: list[DrawnNode] = field(default_factory=list)
    edges: list[DrawnEdge] = field(default_factory=list)
    left: int = 0

    def counts(self) -> dict[str, int]:
        missing = sum(node.is_missing for node in self.nodes)
        counts = {"nodes": len(self.nodes) - missing, "relations": len(self.edges), "missing": missing}
        return counts | ({"relations_out_of_view": self.left} if self.left else {})


def drawing(view: View) -> Drawing:
    """The graph of a view, including related files, web pages, missing nodes and nodes of other workspaces."""
    out = Drawing()
    stored = list(view.nodes())
    chosen = {node.uri for node in stored}
    others: dict[Uri, DrawnNode] = {}
    for node in stored:
        out.nodes.append(DrawnNode(node.uri, node.title, node.type, node.summary, node.tags))
        for relation in node.relations:
            target = relation.target if relation.target in chosen else view.store.resolve(relation.target)
            is_missing = target not in chosen and view.store.is_broken(target)
            if target not in chosen and not is_missing and view.store.node(target) is not None:
                out.left += 1
                continue
            if target not in chosen and target not in others:
                kind = scheme_of(target) if is_owned(target) else "resource"
                summary = "missing" if is_missing else ""
                others[target] = DrawnNode(target, name_of(target), kind, summary, (), is_missing)
            out.edges.append(DrawnEdge(node.uri, target, relation.type, relation.weight, is_missing))
    out.nodes += others.values()
    return out


# ---- GraphML


def is_graphml(data: bytes) -> bool:
    return GRAPHML_SIGN.encode() in data[:400]


def graphml(view: View) -> Export:
    """A document with standard keys for all readers, and graphics for yEd. Relations to existing nodes outside the view
    are left out and counted."""
    out = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        GRAPHML_SIGN,
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
        "color": RED if missing else LIGHT,
    }
    line, width = ("dashed", "2.0") if missing else ("line", "1.0")
    return [
        f"    <node id={_attribute(node.uri)}>",
        *(f'      <data key="n_{name}">{_text(value)}</data>' for name, value in values.items() if value),
        f'      <data key="n_graphics"><y:ShapeNode><y:Fill color="{values["color"]}" transparent="false"/>'
        f'<y:BorderStyle color="{RED if missing else INK}" type="{line}" width="{width}"/>'
        f"<y:NodeLabel>{_text(node.title[:GRAPHML_LABEL])}</y:NodeLabel></y:ShapeNode></data>",
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
        f"<y:EdgeLabel>{_text(edge.type[:GRAPHML_LABEL])}</y:EdgeLabel></y:PolyLineEdge></data>",
        "    </edge>",
    ]


def _text(value: str) -> str:
    """Escaped text; characters that XML 1.0 does not allow are replaced."""
    return escape(_NOT_XML.sub("\ufffd", value))


def _attribute(value: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", value))


# ---- Mermaid


def is_mermaid(data: bytes) -> bool:
    return data.startswith(MERMAID_SIGN.encode())


def mermaid(view: View) -> Export:
    """A Mermaid flowchart; relations beyond 450 are left out and counted."""
    graph = drawing(view)
    drawn = graph.edges[:MOST_EDGES]
    ends = {uri for edge in drawn for uri in (edge.source, edge.target)} | set(view.chosen)
    graph.nodes = [node for node in graph.nodes if node.uri in ends]
    ids = {node.uri: f"n{number}" for number, node in enumerate(graph.nodes)}
    out = [MERMAID_SIGN, "flowchart LR"]
    for node in graph.nodes:
        label = _label(node.title) + ("<br/>(missing)" if node.is_missing else "")
        out.append(f'    {ids[node.uri]}["{label}"]' + (":::missing" if node.is_missing else ""))
    for edge in drawn:
        arrow = "-.->" if edge.is_broken else "-->"
        out.append(f'    {ids[edge.source]} {arrow}|"{_label(edge.type)}"| {ids[edge.target]}')
    broken = [str(number) for number, edge in enumerate(drawn) if edge.is_broken]
    out.append("    classDef missing fill:#ffd6d6,stroke:#d62728,stroke-width:2px,stroke-dasharray:5 5,color:#8b0000")
    if broken:
        out.append(f"    linkStyle {','.join(broken)} stroke:#d62728,color:#8b0000")
    more = len(graph.edges) - MOST_EDGES
    troubles = (Trouble("", f"{more} relations were left out: Mermaid draws at most 500"),) if more > 0 else ()
    counts = graph.counts() | {"relations": len(drawn)}
    return Export((Output("", "\n".join([*out, ""]).encode()),), troubles, counts)


def _label(text: str) -> str:
    """The text, with all characters that are special in Mermaid or HTML as numeric entities."""
    cut = text if len(text) <= MERMAID_LABEL else text[: MERMAID_LABEL - 1].rstrip() + "…"
    return "".join(c if c.isalnum() or c in _PLAIN else f"#{ord(c)};" if c.isprintable() else " " for c in cut) or "_"
