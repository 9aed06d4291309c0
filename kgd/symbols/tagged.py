"""This file is where a language is read by the query that its grammar's own authors ship: definitions, no more.

Such a query says what is defined and called, and nothing of scopes and modules: names are qualified by what stands
around them, and what is called is not followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgd.symbols.grammars import matches, tag_query, text, tree
from kgd.symbols.symbols import Gathering, Symbols
from kgd.symbols.walking import doc

if TYPE_CHECKING:
    from tree_sitter import Node


def extract(language: str, data: bytes) -> Symbols:
    query = tag_query(language)
    if query is None:
        return Symbols(language, reason="the query of its grammar cannot be used")
    found: dict[tuple[int, int], tuple[Node, str, str]] = {}
    for captures in matches(query, tree(language, data).root_node):
        kind = next((name.partition(".")[2] for name in captures if name.startswith("definition.")), "")
        if kind and "name" in captures:
            node = captures[f"definition.{kind}"][0]
            found.setdefault((node.start_byte, -node.end_byte), (node, kind, text(captures["name"][0])))
    gathered, around = Gathering(language), list[tuple[int, str]]()
    for node, kind, name in (found[place] for place in sorted(found)):
        while around and around[-1][0] <= node.start_byte:
            around.pop()
        head = text(node).partition("\n")[0].rstrip(" {")
        scope = around[-1][1] if around else ""
        made = gathered.define(scope, name, kind, node.start_point[0] + 1, node.end_point[0] + 1, head, doc(node))
        around.append((node.end_byte, made))
    return gathered.done()
