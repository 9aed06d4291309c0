"""This file is where Markdown that anybody may have written becomes HTML that can do nothing but be read.

Markup in it stays text, pictures become links, and a link leads to the web, to a mail program or to a node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from kgd.model.uri import OWNED

LONGEST = 300_000
"""Characters that are laid out; what is longer is shown as it is written."""
WEB = ("https://", "http://", "mailto:")


def shown(text: str) -> str:
    """The text with what could not be seen, or would turn a line around, written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else f"⟨U+{ord(c):04X}⟩" for c in text)


def laid_out(text: str, place: Callable[[str], str]) -> Markup:
    """Markdown as HTML. `place` gives the address of a node's page."""
    text = shown(text)
    if len(text) > LONGEST:
        return Markup("<pre>{}</pre>").format(text)
    return Markup(_PARSER.render(text, {"place": place}))


def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": 40}).enable(["table", "strikethrough"])
    made.validateLink = _is_harmless  # type: ignore[method-assign]
    made.add_render_rule("link_open", _link)
    made.add_render_rule("image", _picture)
    for level in ("heading_open", "heading_close"):
        made.add_render_rule(level, _heading)
    for cell in ("th_open", "td_open"):
        made.add_render_rule(cell, _cell)
    return made


def _is_harmless(url: str) -> bool:
    return url.lower().startswith(WEB) or _is_node(url)


def _is_node(url: str) -> bool:
    return url.partition("://")[0] in OWNED


def _link(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    url = str(tokens[index].attrGet("href") or "")
    if _is_node(url):
        return str(Markup('<a href="{}">').format(env["place"](url)))
    return str(Markup('<a href="{}" rel="noreferrer noopener" class="out">').format(url))


def _picture(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A picture from elsewhere would tell its owner who reads this and when."""
    url = str(tokens[index].attrGet("src") or "")
    text = tokens[index].content or url
    return str(Markup('<a href="{}" rel="noreferrer noopener" class="out">{}</a>').format(url, text))


def _heading(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Two levels down: the page has its own heading."""
    token = tokens[index]
    level = min(6, int(token.tag[1]) + 2)
    return f"<{'/' if token.nesting < 0 else ''}h{level}>" + ("\n" if token.nesting < 0 else "")


def _cell(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Without its alignment, which would be a style attribute: the pages' policy refuses those."""
    return f"<{tokens[index].tag}>"


def quoted(text: str) -> str:
    """For an address."""
    return quote(text, safe="")


_PARSER = _parser()
