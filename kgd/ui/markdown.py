"""Untrusted Markdown as harmless HTML.

HTML is shown as text, pictures become links, and links lead to the web, to a mail program or to a node. Nothing is
hidden: invisible parts, such as link definitions, are shown below the text. A text that is expensive to render is shown
as source.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.normalize_url import normalizeLink
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup

from kgd.model.uri import OWNED
from kgd.model.wiki_links import wiki_link

LONGEST = 300_000
"""Largest number of characters that are rendered; a longer text is shown as source."""
STEPS = 120_000
"""Largest number of parser steps for one text: about a second. 256 KiB of prose need a third of them."""
DEEPEST = 40
"""Largest depth of quotes and lists. The parser would drop deeper levels, so a deeper text is shown as source."""
WEB = ("https://", "http://", "mailto:")

_UNSEEN_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(code) for code in range(0xE0100, 0xE01F0)
}
"""Characters that are letters or marks in Unicode but have no visible glyph."""
_BLANK = "\n\t\u200c\u200d"
"""Line feed, tab, and the joiners that several scripts and emoji need."""


class _TooMuch(Exception):
    """The text is too expensive to render."""


def shown(text: str) -> str:
    """Spell out invisible characters and text-direction controls."""
    unseen = {ord(c): f"⟨U+{ord(c):04X}⟩" for c in set(text) if not _is_seen(c)}
    return text.translate(unseen) if unseen else text


def _is_seen(c: str) -> bool:
    return c in _BLANK or (c.isprintable() and c not in _UNSEEN_LETTERS) or unicodedata.category(c) == "Zs"


def laid_out(text: str, place: Callable[[str], str], file: Callable[[str], str | None] = lambda path: None) -> Markup:
    """Render Markdown as HTML. `place` returns the address of a node's page, `file` the address of a file's page or
    None."""
    text = shown(text)
    if len(text) <= LONGEST:
        env: dict[str, Any] = {"place": place, "file": file, "steps": STEPS}
        try:
            # Entities have become characters only after parsing.
            return Markup(shown(_PARSER.render(text, env)) + _definitions(env))
        except _TooMuch:
            pass
    return Markup('<pre class="as-written">\n{}</pre>').format(text)


def _definitions(env: dict[str, Any]) -> str:
    """Show the targets of reference links and unused definitions, which could otherwise hide text."""
    found = [(label, one) for label, one in env.get("references", {}).items()]
    found += [(str(one.get("label", "")), one) for one in env.get("duplicate_refs", ())]
    rows = (Markup("<li>[{}]: {} {}</li>").format(label, one["href"], one.get("title", "")) for label, one in found)
    return shown(str(Markup('<ul class="definitions">{}</ul>').format(Markup("").join(rows)))) if found else ""


def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST + 20}).enable(["table", "strikethrough"])
    made.validateLink = _is_harmless  # type: ignore[method-assign]
    made.normalizeLink = _normal  # type: ignore[method-assign]
    made.block.ruler.before("table", "counted", _count, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    made.inline.ruler.before("text", "counted", _count)
    made.inline.ruler.before("link", "wiki", _wiki)
    made.core.ruler.after("block", "counted", _count_tokens)
    made.core.ruler.push("titles", _titles)
    rules = {
        "link_open": _link,
        "image": _picture,
        "code_inline": _code,
        "fence": _fence,
        "heading_open": _heading,
        "heading_close": _heading,
        "th_open": _cell,
        "td_open": _cell,
    }
    for name, rule in rules.items():
        made.add_render_rule(name, rule)
    return made


def _take(env: MutableMapping[str, Any], steps: int = 1) -> None:
    env["steps"] -= steps
    if env["steps"] < 0:
        raise _TooMuch


def _count(state: Any, *_: Any) -> bool:
    """Count a step of the parser. The parser calls this as a rule, for blocks and for inline text; it never matches."""
    _take(state.env)
    if state.level >= DEEPEST:
        raise _TooMuch
    return False


def _count_tokens(state: StateCore) -> None:
    _take(state.env, len(state.tokens))


def _titles(state: StateCore) -> None:
    """Write the title of a link, which is visible only on hover, after the link."""
    for token in state.tokens:
        if token.children and any(one.type == "link_open" and one.attrGet("title") for one in token.children):
            made, titles = [], list[str]()
            for one in token.children:
                made.append(one)
                if one.type == "link_open":
                    titles.append(str(one.attrs.pop("title", "")))
                elif one.type == "link_close" and (title := titles.pop()):
                    made.append(Token("text", "", 0, content=f" ({title})"))
            token.children = made


def _is_harmless(url: str) -> bool:
    return url.lower().startswith(WEB) or _is_node(url)


def _is_node(url: str) -> bool:
    return url.partition("://")[0] in OWNED


def _normal(url: str) -> str:
    """Keep a node's URI; encode other addresses so that their target is visible."""
    return url if _is_node(url) else normalizeLink(url)


def _wiki(state: StateInline, silent: bool) -> bool:
    """Parse ``[[target|words]]`` as a link to a node."""
    if state.src[state.pos : state.pos + 2] != "[[":
        return False
    found = wiki_link(state.src, state.pos)
    if found is None or state.linkLevel:
        return False
    if not silent:
        state.push("link_open", "a", 1).meta = {"node": found.target}
        state.push("text", "", 0).content = found.words
        state.push("link_close", "a", -1)
    state.pos = found.end
    return True


def _link(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    url = str(token.meta.get("node") or token.attrGet("href") or "")
    return str(_opened(url, env, is_node="node" in token.meta))


def _opened(url: str, env: Any, *, is_node: bool = False) -> Markup:
    """Render the beginning of a link."""
    if is_node or _is_node(url):
        return Markup('<a href="{}">').format(env["place"](url))
    return Markup('<a href="{}" rel="noreferrer noopener" class="out">').format(url)


def _code(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render code within a sentence; the path of a file is a link to its page, unless it is within a link."""
    text = tokens[index].content
    level = sum(token.nesting for token in tokens[:index] if token.type in ("link_open", "link_close"))
    if not level and (place := env["file"](text)):
        return str(Markup('<a href="{}"><code>{}</code></a>').format(place, text))
    return str(Markup("<code>{}</code>").format(text))


def _picture(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render a picture as a link: loading the picture would reveal the reader to its host."""
    url = str(tokens[index].attrGet("src") or "")
    title = tokens[index].attrGet("title")
    text = (tokens[index].content or url) + (f" ({title})" if title else "")
    return str(Markup("{}{}</a>").format(_opened(url, env), text))


def _fence(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render a code block with its info string, which could otherwise hide text."""
    said = Markup('<span class="aside">{}</span>\n').format(info) if (info := tokens[index].info.strip()) else ""
    return str(Markup("<pre>{}<code>{}</code></pre>\n").format(said, tokens[index].content))


def _heading(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render a heading two levels lower, below the page's own headings."""
    token = tokens[index]
    level = min(6, int(token.tag[1]) + 2)
    return f"<{'/' if token.nesting < 0 else ''}h{level}>" + ("\n" if token.nesting < 0 else "")


def _cell(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render a cell without alignment, because the content policy blocks style attributes."""
    return f"<{tokens[index].tag}>"


_PARSER = _parser()
