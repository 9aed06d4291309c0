"""Links and tags in the text of a note, and the note in a vault that a link refers to."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

NOTE = ".md"

# Each of these takes linear time even for a hostile text: an unclosed construct extends to the end of the text.
_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.S | re.M)
_CODE = re.compile(r"(?<!`)(`+)(?!`)[^\n]{0,1000}?(?<!`)\1(?!`)")
_COMMENT = re.compile(r"%%.*?(?:%%|\Z)|<!--.*?(?:-->|\Z)", re.S)
_WIKI = re.compile(r"(!?)\[\[([^\[\]\n|#^]*)(?:[#^][^\[\]\n|]*)?(?:\|[^\[\]\n]*)?\]\]")
_MARKDOWN = re.compile(r"(!?)\[[^\[\]\n]*\]\(<?([^()\s<>]+)>?(?:\s+\"[^\"\n]*\")?\)")
_TAG = re.compile(r"(?<!\S)#([\w/-]*[^\W\d_][\w/-]*)")
_SHOWN = re.compile(r"\[\[([^\[\]\n|#^]*)(?:[#^][^\[\]\n|]*)?(?:\|([^\[\]\n]*))?\]\]").match
_WHOLE = re.compile(r"\[\[([^\[\]\n|#^]*)(?:[#^][^\[\]\n|]*)?(?:\|[^\[\]\n]*)?\]\]\Z").match


class Link(NamedTuple):
    """A link as written: its target, whether the target is shown in place, and whether it is a relative path."""

    target: str
    is_embed: bool
    is_path: bool


class Written(NamedTuple):
    """A link as displayed: its target, its words, and its end in the text."""

    target: str
    words: str
    end: int


def wiki_link(text: str, start: int) -> Written | None:
    """The link ``[[target#part|words]]`` that begins at `start`; None if there is none."""
    found = _SHOWN(text, start)
    target = found[1].strip() if found else ""
    if not found or not target:
        return None
    return Written(target, (found[2] or "").strip() or target, found.end())


def prose(text: str) -> str:
    """The text without code and comments, in which brackets and number signs have other meanings."""
    text = _FENCED.sub("\n", text)
    return _COMMENT.sub(" ", _CODE.sub(" ", text))


def links(text: str) -> Iterator[Link]:
    """The links in a `prose`, ordered by kind, without web links and links within the note."""
    for found in _WIKI.finditer(text):
        target = found[2].strip().rstrip("\\").strip()
        if target:
            yield Link(target, bool(found[1]), is_path=False)
    for found in _MARKDOWN.finditer(text):
        target = unquote(found[2].partition("#")[0])
        if target and "://" not in target and not target.startswith(("mailto:", "/", "#")) and target.endswith(NOTE):
            yield Link(target, bool(found[1]), is_path=True)


def tags(text: str) -> list[str]:
    """The tags in a `prose`, without duplicates."""
    return list(dict.fromkeys(found[1].strip("/") for found in _TAG.finditer(text) if found[1].strip("/")))


def whole_link(text: str) -> str | None:
    """The target of a text that is exactly one link, as in properties; None for other text."""
    found = _WHOLE(text.strip())
    return found[1].strip() or None if found else None


@dataclass(slots=True)
class Names:
    """Finds the note that a link refers to. If several notes have its name, the one nearest the top is chosen, then the
    first by path."""

    _paths: dict[str, str] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _aliases: dict[str, str] = field(default_factory=dict)

    def add(self, paths: Iterable[str]) -> None:
        """Add the notes of a vault, as paths without extension."""
        for path in sorted(paths, key=lambda path: (path.count("/"), path)):
            self._paths.setdefault(path.casefold(), path)
            self._names.setdefault(path.rpartition("/")[2].casefold(), path)

    def add_alias(self, alias: str, path: str) -> None:
        self._aliases.setdefault(alias.casefold(), path)

    def find(self, link: Link, beside: str) -> str | None:
        """The path of the note that a link in the note `beside` refers to; None if there is none."""
        target = link.target.removesuffix(NOTE)
        here = posixpath.normpath(posixpath.join(posixpath.dirname(beside), target))
        if link.is_path:
            return self._paths.get(here.casefold())
        key = target.strip("/").casefold()
        found = self._paths.get(key) or self._paths.get(here.casefold())
        if found is None and "/" not in target:
            found = self._names.get(key) or self._aliases.get(key)
        return found
