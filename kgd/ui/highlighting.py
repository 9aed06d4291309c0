"""Highlighted source code as HTML: a line each, with the classes of `static/code.css`.

Code is untrusted text. Each token is escaped, invisible characters are spelled out, and a text that is large, has very
long lines or takes too long is shown without colours from there on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename
from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Operator, String, Token

from kgd.ui.markdown import shown

LONGEST = 500_000
"""Largest number of characters that are highlighted: about 12,000 lines, which take half a second."""
LONGEST_LINE = 2_000
"""Largest number of characters of a line of source code; longer lines are data or generated."""
SECONDS = 1.5
CACHED = 16
"""Number of texts whose lines are kept, since a page is rendered again after each change of its workspace."""

_CLASSES = {
    Comment: "c",
    Comment.Preproc: "m",
    Comment.PreprocFile: "s",
    Generic.Deleted: "d",
    Generic.Heading: "k",
    Generic.Inserted: "i",
    Generic.Subheading: "k",
    Keyword: "k",
    Keyword.Constant: "n",
    Keyword.Type: "b",
    Literal: "s",
    Name.Attribute: "m",
    Name.Builtin: "b",
    Name.Class: "f",
    Name.Decorator: "m",
    Name.Exception: "b",
    Name.Function: "f",
    Name.Tag: "k",
    Number: "n",
    Operator.Word: "k",
    String: "s",
    String.Doc: "c",
}
"""The class of each kind of token; a kind without one has the class of the kind above it."""


@lru_cache(CACHED)
def highlighted(text: str, path: str) -> tuple[Markup, ...]:
    """Return the lines of a text as `highlighted_once` does, and keep them."""
    return highlighted_once(text, path)


def highlighted_once(text: str, path: str) -> tuple[Markup, ...]:
    """Return the lines of a text, highlighted by the language that the file name suggests.

    Takes about 60 ms for 1,000 lines.
    """
    text = shown(text.replace("\r\n", "\n"))
    lexer = _lexer(path.rpartition("/")[2])
    if lexer is None or len(text) > LONGEST or any(len(line) > LONGEST_LINE for line in text.split("\n")):
        return tuple(escape(line) for line in text.split("\n"))
    lines, line = [], list[str]()
    for css, value in _tokens(lexer(ensurenl=False), text):
        first, *rest = value.split("\n")
        line.append(_part(css, first))
        for more in rest:
            lines.append(Markup("".join(line)))
            line = [_part(css, more)]
    return (*lines, Markup("".join(line)))


@lru_cache(1_000)
def _lexer(name: str) -> type[Lexer] | None:
    found: type[Lexer] | None = find_lexer_class_for_filename(name)
    return found


def _tokens(lexer: Lexer, text: str) -> Iterator[tuple[str, str]]:
    """The class and text of each stretch; adjacent tokens of one class are joined."""
    until, end = time.monotonic() + SECONDS, 0
    before, joined = "", list[str]()
    for start, kind, value in lexer.get_tokens_unprocessed(text):
        if start != end or time.monotonic() > until:
            break  # a lexer that leaves out text must not hide it
        end += len(value)
        if (css := _class(kind)) != before and value.strip():
            yield before, "".join(joined)
            before, joined = css, []
        joined.append(value)
    yield before, "".join(joined)
    yield "", text[end:]


@lru_cache(1_000)
def _class(kind: type[Token]) -> str:
    while kind not in _CLASSES and kind.parent is not None:
        kind = kind.parent
    return _CLASSES.get(kind, "")


def _part(css: str, text: str) -> str:
    if not css or not text.strip():
        return str(escape(text))
    return f'<span class="{css}">{escape(text)}</span>'
