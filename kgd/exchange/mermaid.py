"""Export to a Mermaid flowchart, for READMEs and chats.

Names are untrusted: all characters except letters, digits and plain signs are written as numbers, so a name cannot end
its label, open a directive, or become HTML. Missing nodes are red, dashed and labelled.
"""

from __future__ import annotations

from kgd.exchange.plan import Export, Output, Trouble, View, drawing

MOST_NODES, MOST_EDGES = 200, 450
"""Unless configured otherwise, Mermaid draws at most 500 edges and 50,000 characters."""
LABEL = 48
SIGN = "%% written by kgd"
_PLAIN = frozenset(" .,-_/+!?@")


def own(data: bytes) -> bool:
    return data.startswith(SIGN.encode())


def write(view: View) -> Export:
    """A flowchart; relations beyond 450 are left out and counted."""
    graph = drawing(view)
    drawn = graph.edges[:MOST_EDGES]
    ends = {uri for edge in drawn for uri in (edge.source, edge.target)} | set(view.chosen)
    graph.nodes = [node for node in graph.nodes if node.uri in ends]
    ids = {node.uri: f"n{number}" for number, node in enumerate(graph.nodes)}
    out = [SIGN, "flowchart LR"]
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
    cut = text if len(text) <= LABEL else text[: LABEL - 1].rstrip() + "…"
    return "".join(c if c.isalnum() or c in _PLAIN else f"#{ord(c)};" if c.isprintable() else " " for c in cut) or "_"
