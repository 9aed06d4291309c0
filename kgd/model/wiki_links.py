"""Links and tags in the text of a note, and the note of a vault that a link names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

NOTE = ".md"

# Each of these is linear even in a hostile text: an unclosed construct ends with the text.
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
    """The ``[[target#part|words]]`` that begins at `start`; None if none does."""
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
    """The links of a `prose`, ordered by kind; web links and links within the note are left out."""
    for found in _WIKI.finditer(text):
        target = found[2].strip().rstrip("\\").strip()
        if target:
            yield Link(target, bool(found[1]), is_path=False)
    for found in _MARKDOWN.finditer(text):
        target = unquote(found[2].partition("#")[0])
        if target and "://" not in target and not target.startswith(("mailto:", "/", "#")) and target.endswith(NOTE):
            yield Link(target, bool(found[1]), is_path=True)


def tags(text: str) -> list[str]:
    """The tags of a `prose`, each once."""
    return list(dict.fromkeys(found[1].strip("/") for found in _TAG.finditer(text) if found[1].strip("/")))


def whole_link(text: str) -> str | None:
    """The target of a text that is exactly one link, as in properties."""
    found = _WHOLE(text.strip())
    return found[1].strip() or None if found else None


@dataclass(slots=True)
class Names:
    """The note that a link names. Of several notes of one name the one nearest to the top counts, then by path."""

    _paths: dict[str, str] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _aliases: dict[str, str] = field(default_factory=dict)

    def add(self, paths: Iterable[str]) -> None:
        """The notes of a vault, without their ending."""
        for path in sorted(paths, key=lambda path: (path.count("/"), path)):
            self._paths.setdefault(path.casefold(), path)
            self._names.setdefault(path.rpartition("/")[2].casefold(), path)

    def add_alias(self, alias: str, path: str) -> None:
        self._aliases.setdefault(alias.casefold(), path)

    def find(self, link: Link, beside: str) -> str | None:
        """The path of the note that a link in the note `beside` names; None if there is none."""
        target = link.target.removesuffix(NOTE)
        here = posixpath.normpath(posixpath.join(posixpath.dirname(beside), target))
        if link.is_path:
            return self._paths.get(here.casefold())
        key = target.strip("/").casefold()
        found = self._paths.get(key) or self._paths.get(here.casefold())
        if found is None and "/" not in target:
            found = self._names.get(key) or self._aliases.get(key)
        return found
