"""HTML as Markdown: headings, paragraphs, lists, tables, code and links; no scripts."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from kgd.ingest.readers import Text, Unreadable, clean, one_line

DEEPEST_LIST = 6
_LEFT_OUT = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object", "nav", "head", "select"})
_BLOCKS = frozenset(
    """
    p div section article main header footer aside blockquote figure figcaption dl dt dd address details summary form
    fieldset table ul ol hr body
    """.split()
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.I)
_HREF = re.compile(r"(?:https?://|(?![a-z][a-z0-9+.-]*:))[^\s()<>]{1,2000}\Z", re.I).match


def read(data: bytes) -> Text:
    """The page's text. Links keep their targets, so that they can be resolved in the graph."""
    page = _parsed(_characters(data))
    return Text("html", "markdown", one_line(page.title) or one_line(page.first_heading), page.text())


def markdown(html: str) -> tuple[str, str]:
    """The Markdown of a piece of HTML, and its first heading."""
    page = _parsed(html)
    return page.text(), one_line(page.first_heading)


def _parsed(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    return page


def _characters(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return clean(data.decode("utf-16", "replace"))
    if b"\0" in data[:8192]:
        raise Unreadable("it is a binary file, despite its name")
    try:
        return clean(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        words = _CHARSET.search(data[:2048])
        if words is None:
            raise Unreadable("it is not UTF-8 and declares no encoding", next="Save it as UTF-8.") from error
    try:
        return clean(data.decode(words[1].decode("ascii"), "replace"))
    except LookupError:
        raise Unreadable("its declared encoding is unknown") from None


class Page(HTMLParser):
    """A page while it is parsed. Nesting depth has no cost, because no element waits for its end."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = self.first_heading = ""
        self._out: list[str] = []
        self._left_out: list[str] = []
        """Open elements whose content is skipped."""
        self._in_title = False
        self._heading: list[str] | None = None
        self._mark = ""
        self._lists = 0
        self._pre = 0
        self._link: tuple[str, int] | None = None
        self._cells = 0

    def text(self) -> str:
        text = "".join(self._out)
        text = re.sub(r"[ \t]+\n", "\n", text)
        return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self.title:
            self._in_title = True
        if self._left_out:
            if tag == self._left_out[-1]:
                self._left_out.append(tag)
            return
        match tag:
            case _ if tag in _LEFT_OUT:
                self._left_out.append(tag)
            case _ if tag in _HEADINGS:
                self._end_heading()
                self._heading, self._mark = [], _HEADINGS[tag]
            case "pre":
                self._pre += 1
                self._say("\n\n```\n")
            case "br":
                self._say("\n" if self._heading is None else " ")
            case "li":
                self._say("\n" + "  " * min(max(self._lists - 1, 0), DEEPEST_LIST) + "- ")
            case "ul" | "ol":
                self._lists += 1
                self._say("\n" if self._lists > 1 else "\n\n")
            case "tr":
                self._cells = 0
                self._say("\n")
            case "td" | "th":
                self._say(" | " if self._cells else "| ")
                self._cells += 1
            case "a":
                target = dict(attrs).get("href") or ""
                is_shown = _HREF(target) and self._heading is None and not self._pre
                self._link = (target, len(self._out)) if is_shown else None
            case "img" if alt := dict(attrs).get("alt"):
                self._say(f" {alt} ")
            case "code" if not self._pre:
                self._say("`")
            case _ if tag in _BLOCKS and not self._cells:
                self._say("\n\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if self._left_out:
            if tag == self._left_out[-1]:
                self._left_out.pop()
            elif tag in ("body", "html") or (tag == "head" and "head" in self._left_out):
                self._left_out.clear()
            return
        match tag:
            case _ if tag in _HEADINGS:
                self._end_heading()
            case "pre" if self._pre:
                self._pre -= 1
                self._say("\n```\n\n")
            case "ul" | "ol":
                self._lists = max(0, self._lists - 1)
                self._say("\n")
            case "tr" | "table" if self._cells:
                self._cells = 0
                self._say(" |" if tag == "tr" else "\n\n")
            case "a" if self._link:
                self._end_link(*self._link)
            case "code" if not self._pre:
                self._say("`")
            case _ if tag in _BLOCKS and not self._cells:
                self._say("\n\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        if self._left_out:
            return
        if self._pre:
            self._say(data)
            return
        words = " ".join(data.split())
        if words:
            before, after = " " * data[0].isspace(), " " * data[-1].isspace()
            self._say(f"{before}{words}{after}")
        elif data:
            self._say(" ")

    def close(self) -> None:
        super().close()
        self._end_heading()

    def _say(self, text: str) -> None:
        if self._heading is not None:
            self._heading.append(text)
            return
        if text.startswith(" ") and self._out and self._out[-1][-1:].isspace() and not self._pre:
            text = text.lstrip(" ")
        if text:
            self._out.append(text)

    def _end_heading(self) -> None:
        if self._heading is None:
            return
        words, self._heading = " ".join("".join(self._heading).split()), None
        if words:
            self.first_heading = self.first_heading or words
            self._out.append(f"\n\n{self._mark} {words}\n\n")

    def _end_link(self, target: str, start: int) -> None:
        words = " ".join("".join(self._out[start:]).split())
        if words and "[" not in words and "]" not in words and self._heading is None:
            space = " " if "".join(self._out[start : start + 1]).startswith(" ") else ""
            self._out[start:] = [f"{space}[{words}]({target})"]
        self._link = None
