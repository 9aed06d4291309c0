"""The manual: the documents shipped with kgd, in reading order, as HTML.

Like a node's text, the documents are not trusted: HTML in them is shown as text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from kgd.errors import NotFound
from kgd.ui.highlighting import highlighted_once

INDEX = "README"
"""The page that lists all other pages in reading order."""
GLOSSARY = ("concepts", "Glossary")
"""The page and heading of the glossary."""
PICTURES = "pictures"
_IS_PICTURE = re.compile(r"[\w-]+\.png|(architecture|terminal-why)\.svg").fullmatch
"""The other SVG files are flame graphs with scripts."""
SHORT = 24
"""Length of code in a sentence that stays on one line."""
SHORT_CELL = 12
"""Length of the text of a cell that stays on one line, such as a figure with its unit."""

_FILE_NAMES = {"sh": "x.sh", "json": "x.json", "yaml": "x.yaml", "python": "x.py", "toml": "x.toml", "console": "x.sh"}
"""A file name for each language of code in the manual that is highlighted."""

_LISTED = re.compile(r"^\| \[([^\]]+)\]\(([\w./-]+)\.md\) \| (.*) \|$", re.M)
_WEB = re.compile(r"https?://|mailto:")
_REMARK = re.compile(r"<!--.*?-->\n?", re.S)
_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Chapter:
    """One page of the manual: its path without extension, its title, its purpose, and its group in the contents."""

    name: str
    title: str
    about: str = ""
    group: str = ""

    @property
    def group_anchor(self) -> str:
        """The anchor of the group in the index."""
        return anchor(self.group)


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading of a page."""

    level: int
    anchor: str
    title: str


@dataclass(frozen=True, slots=True)
class Section:
    """The plain text below one heading of a page, up to the next heading."""

    chapter: Chapter
    heading: Heading
    text: str


@dataclass(frozen=True, slots=True)
class Read:
    """One rendered page."""

    chapter: Chapter
    body: Markup
    headings: tuple[Heading, ...]
    before: Chapter | None = None
    after: Chapter | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """One word of the glossary."""

    word: str
    anchor: str
    meaning: Markup


@dataclass(frozen=True, slots=True)
class Places:
    """Addresses of the manual's pages and pictures: in the daemon, or in a folder of files."""

    page: Callable[[str, str], str]
    picture: Callable[[str], str]


_NOWHERE = Places(page=lambda name, heading: "", picture=lambda name: "")


@dataclass(slots=True)
class _Around:
    """State of the rendering of one page, for its links and headings."""

    name: str
    places: Places
    headings: list[Heading] = field(default_factory=list)

    def add(self, heading: Token, text: Token) -> Heading:
        """Add the next heading; a repeated title gets a number in its anchor."""
        title = _plain(text.content)
        used = {heading.anchor for heading in self.headings}
        names = (f"{anchor(title)}-{number}" if number else anchor(title) for number in count())
        self.headings.append(Heading(int(heading.tag[1]), next(name for name in names if name not in used), title))
        return self.headings[-1]


@lru_cache(maxsize=64)
def read(name: str, places: Places) -> Read:
    """Return one page.

    Raises:
        NotFound: The manual has no page of that name.
    """
    all_of_them = chapters()
    at = next((number for number, chapter in enumerate(all_of_them) if chapter.name == name), None)
    if at is None:
        raise NotFound("the manual has no such page", at=name[:100], next="The manual's first page lists all pages.")
    around = _Around(name, places)
    body = Markup(_PARSER.render(_text(name), {"around": around}))
    return Read(
        all_of_them[at],
        body if posixpath.basename(name) == INDEX else _with_contents(body, around.headings),
        tuple(around.headings),
        all_of_them[at - 1] if at else None,
        all_of_them[at + 1] if at + 1 < len(all_of_them) else None,
    )


def _with_contents(body: Markup, headings: Sequence[Heading]) -> Markup:
    """Add the folded headings of a page below its title; wide windows show them beside the text instead."""
    own = [one for one in headings if one.level == 2]
    before, title, after = body.partition("</h1>")
    if len(own) < 2 or not title:
        return body
    rows = Markup("\n").join(Markup('<li><a href="#{}">{}</a></li>').format(one.anchor, one.title) for one in own)
    fold = Markup('\n<details class="own-contents"><summary>On this page</summary>\n<ul>\n{}\n</ul>\n</details>')
    return before + title + fold.format(rows) + after


@cache
def sections() -> tuple[Section, ...]:
    """Return the text of all pages by heading, in reading order, without the indexes.

    Each word of the glossary is a section of its own. The first call parses every page.
    """
    found = []
    for chapter in (one for one in chapters() if posixpath.basename(one.name) != INDEX):
        around, texts = _Around(chapter.name, _NOWHERE), list[list[str]]()
        tokens = _PARSER.parse(_text(chapter.name))
        for before, token in zip([None, *tokens], tokens, strict=False):
            if before and before.type == "heading_open":
                around.add(before, token)
                texts.append([])
            elif texts and token.type in ("inline", "fence", "code_block") and not _is_own_link(token):
                cell = before is not None and before.type == "td_open"
                texts[-1].append(f"· {_words_of(token)}" if cell else _words_of(token))
        for heading, text in zip(around.headings, texts, strict=True):
            if (chapter.name, heading.title) == GLOSSARY:
                words = glossary(_NOWHERE)
                found += [
                    Section(chapter, Heading(3, heading.anchor, one.word), one.meaning.striptags()) for one in words
                ]
            else:
                found.append(Section(chapter, heading, " ".join(" ".join(text).split())))
    return tuple(found)


def glossary(places: Places) -> tuple[Word, ...]:
    """Return the words of kgd with their meanings."""
    page, title = GLOSSARY
    section = _text(page).partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    words = []
    for line in section.splitlines()[2:]:
        cells = line.strip("| ").split(" | ")
        if line.startswith("| ") and len(cells) == 2 and cells[0] != "word":
            meaning = Markup(_PARSER.renderInline(cells[1], {"around": _Around(page, places)}))
            words.append(Word(cells[0], anchor(cells[0]), meaning))
    return tuple(words)


def picture(name: str) -> bytes:
    """Return a picture of the manual.

    Raises:
        NotFound: The manual has no picture of that name.
    """
    place = folder().joinpath(PICTURES, name)
    if not _IS_PICTURE(name) or not place.is_file():
        raise NotFound("the manual has no such picture", at=name[:100], next="Go back to the manual.")
    return place.read_bytes()


def pictures() -> list[str]:
    """Return the names of all pictures."""
    place = folder().joinpath(PICTURES)
    return sorted(one.name for one in place.iterdir() if _IS_PICTURE(one.name)) if place.is_dir() else []


def anchor(title: str) -> str:
    """Return the anchor of a heading, as git servers derive it."""
    return re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")


@cache
def folder() -> Traversable:
    """Return the folder of documents: in an installed package, or in a source checkout."""
    packaged = files("kgd.ui").joinpath("docs")
    return packaged if packaged.is_dir() else Path(__file__).resolve().parent.parent.parent / "docs"


def _text(name: str) -> str:
    text = folder().joinpath(*f"{name}.md".split("/")).read_text("utf-8")
    return _outside_code(text, lambda part: _REMARK.sub("", part))


@cache
def chapters() -> tuple[Chapter, ...]:
    """Return every page in reading order, from the tables of the index and of the folders that it links to."""
    found = [Chapter(INDEX, _title(INDEX))]
    for group, name, about in _listed(INDEX):
        found.append(Chapter(name, _title(name), _plain(about), group))
        if posixpath.basename(name) == INDEX:
            below = [(posixpath.join(posixpath.dirname(name), one), told) for _, one, told in _listed(name)]
            found += [Chapter(one, _title(one), _plain(told), group) for one, told in below]
    return tuple(found)


@cache
def groups() -> tuple[tuple[str, tuple[Chapter, ...]], ...]:
    """Return the groups of the contents, each with its pages, in reading order."""
    found: dict[str, list[Chapter]] = {}
    for chapter in chapters():
        if chapter.group:
            found.setdefault(chapter.group, []).append(chapter)
    return tuple((group, tuple(pages)) for group, pages in found.items())


def _listed(index: str) -> Iterator[tuple[str, str, str]]:
    """Yield the pages in the tables of an index: group, name and purpose."""
    for part in _text(index).split("\n## "):
        group = part.partition("\n")[0]
        for _, name, about in _LISTED.findall(part):
            yield group, name, about


@cache
def _names() -> frozenset[str]:
    return frozenset(chapter.name for chapter in chapters())


def _title(name: str) -> str:
    return _plain(_text(name).partition("\n")[0].removeprefix("# "))


def _plain(text: str) -> str:
    """Remove the markup of one line of Markdown."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text).replace("`", "").replace("**", "").replace("*", "")


def _words_of(token: Token) -> str:
    """Return the text of a paragraph or of code, without markup."""
    if not token.children:
        return token.content
    return "".join(" " if child.type == "softbreak" else child.content for child in token.children)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    changed, end = [], 0
    for code in _FENCE.finditer(text):
        changed += [change(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join((*changed, change(text[end:])))


def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    rules = {
        "heading_open": _heading,
        "bullet_list_open": _list,
        "link_open": _link,
        "link_close": _link_end,
        "image": _picture,
        "fence": _code,
        "code_block": _code,
        "code_inline": _short_code,
        "table_open": lambda *_: '<div class="scroll" tabindex="0">\n<table>\n',
        "table_close": lambda *_: "</table>\n</div>\n",
        **dict.fromkeys(("th_open", "td_open", "th_close", "td_close"), _cell),
    }
    for name, rule in rules.items():
        made.add_render_rule(name, rule)
    return made


def _heading(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    around: _Around = env["around"]
    heading = around.add(tokens[index], tokens[index + 1])
    return str(Markup('<h{} id="{}">').format(heading.level, heading.anchor))


def _list(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render a list; a list of the page's own headings is hidden, because the page shows them below its title."""
    return f"<ul{' hidden' if _is_own_list(tokens, index) else ''}>\n"


def _is_own_list(tokens: Sequence[Token], index: int) -> bool:
    """Whether the list that begins at a token has only links to headings of the same page."""
    inside = takewhile(lambda token: token.level > tokens[index].level, tokens[index + 1 :])
    return all(_is_own_link(token) for token in inside if token.type == "inline")


def _is_own_link(token: Token) -> bool:
    """Whether the text is only a link to a heading of the same page."""
    inside = token.children or []
    return len(inside) == 3 and inside[0].type == "link_open" and str(inside[0].attrGet("href")).startswith("#")


def _link(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    url = str(tokens[index].attrGet("href") or "")
    if _WEB.match(url):
        return str(Markup('<a href="{}" rel="noreferrer noopener" class="out">').format(url))
    address = _address(url, env["around"])
    # a file that is only in the repository has no page to link to
    return str(Markup('<a href="{}">').format(address)) if address else '<span class="file">'


def _link_end(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    opened = next(
        one for one in reversed(tokens[:index]) if one.type == "link_open" and one.level == tokens[index].level
    )
    url = str(opened.attrGet("href") or "")
    return "</a>" if _WEB.match(url) or _address(url, env["around"]) else "</span>"


def _address(url: str, around: _Around) -> str:
    """Return the target of a relative link; empty for a file without a page."""
    path, _, heading = url.partition("#")
    if not path:
        return f"#{heading}"
    name = posixpath.normpath(posixpath.join(posixpath.dirname(around.name), path.rstrip("/")))
    name = name.removesuffix(".md") if name.endswith(".md") else posixpath.join(name, INDEX)
    return around.places.page(name, heading) if name in _names() else ""


def _picture(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    around: _Around = env["around"]
    name = posixpath.basename(str(tokens[index].attrGet("src") or ""))
    if not folder().joinpath(PICTURES, name).is_file():  # installed packages leave the pictures out
        return str(Markup("<em>{}</em>").format(tokens[index].content))
    place = around.places.picture(name)
    return str(
        Markup('<a href="{}"><img src="{}" alt="{}" loading="lazy"></a>').format(place, place, tokens[index].content)
    )


def _cell(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render a cell without alignment, which needs inline style; an empty header becomes a plain cell."""
    opens = tokens[index].nesting > 0
    text = _plain(tokens[index + 1 if opens else index - 1].content)
    tag = tokens[index].tag if text else "td"
    if not opens:
        return f"</{tag}>"
    return f'<{tag} class="short">' if 0 < len(text) <= SHORT_CELL else f"<{tag}>"


def _code(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    language = (tokens[index].info.split() or ["text"])[0]
    name = _FILE_NAMES.get(language, "")
    code = Markup("\n").join(highlighted_once(tokens[index].content, name)) if name else escape(tokens[index].content)
    code = Markup(_OPTION.sub(r'<span class="short">\1</span>', str(code)))
    # Focusable, so that wide code scrolls by keyboard.
    return str(
        Markup('<pre class="code" tabindex="0" data-language="{}"><code>{}</code></pre>\n').format(language, code)
    )


def _short_code(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render code within a sentence; a browser must not break a short option or command after its hyphen."""
    text = tokens[index].content
    return str(Markup("<code{}>{}</code>").format(Markup(' class="short"' if len(text) <= SHORT else ""), text))


_OPTION = re.compile(r"(?<![\w-])(--[A-Za-z][\w-]*)(?![^<]*>)")
"""Matches an option of a command in highlighted code, which a browser must not break after its hyphens."""
_PARSER = _parser()
