"""Reading of documents: plain text in this process, other formats in a limited process of its own.

Plain text is Markdown, reStructuredText, text and code. The format is detected by name and first bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import select
import subprocess
import sys
import time
from datetime import date
from types import TracebackType
from typing import Any

from kgd.codec import front_matter
from kgd.codec.front_matter import strings
from kgd.errors import Unavailable
from kgd.ingest.chunks import headings
from kgd.ingest.readers import TEXT_LIMIT, Text, Unreadable, characters, office, one_line
from kgd.ingest.readers.sandbox import LENGTH
from kgd.model.node import LABEL_LIMIT

MARKDOWN, RST, TEXT, HTML, PDF = "markdown", "rst", "text", "html", "pdf"
DOCX, XLSX, PPTX, EPUB = "docx", "xlsx", "pptx", "epub"

_BY_SUFFIX = {
    MARKDOWN: "md markdown mdx mkd qmd",
    RST: "rst rest",
    TEXT: "txt text adoc asciidoc org tex",
    HTML: "html htm xhtml",
    PDF: "pdf",
    DOCX: "docx docm dotx",
    XLSX: "xlsx xlsm",
    PPTX: "pptx pptm",
    EPUB: "epub",
}
_CODE = (
    "py pyi js mjs cjs jsx ts mts cts tsx go java rs c h cc cpp cxx hh hpp cs rb php swift kt kts scala clj ex exs erl "
    "hs ml mli lua pl pm r jl dart sh bash zsh fish ps1 sql proto graphql tf vue svelte css scss less"
)
_SETTINGS = "yaml yml toml ini cfg conf"
_TEXT_NAMES = "readme license licence copying authors changelog changes news notice todo contributing"

FORMATS = {suffix: format for format, suffixes in _BY_SUFFIX.items() for suffix in suffixes.split()}
CODE = frozenset(_CODE.split())
SETTINGS = frozenset(_SETTINGS.split())

BINARY = frozenset({PDF, DOCX, XLSX, PPTX, EPUB})
OFFICE = frozenset({DOCX, XLSX, PPTX})
"""Read by libraries of the extra `docs`."""


def suffix_of(name: str) -> str:
    return posixpath.splitext(name)[1][1:].lower()


def is_document(name: str) -> bool:
    """Whether a file in a folder is ingested, judged by its name alone. Data files are ingested only if the user names
    them."""
    base = posixpath.basename(name)
    if base.startswith(".") or base.endswith((".min.js", ".min.css")):
        return False
    suffix = suffix_of(base)
    if not suffix:
        return base.lower() in _TEXT_NAMES.split()
    return suffix in FORMATS or suffix in CODE or suffix in SETTINGS


def format_of(name: str, data: bytes) -> str:
    """One of the formats above, or ``code:<suffix>`` for source code. PDF and HTML are identified by their bytes, other
    formats by the name."""
    if data.startswith(b"%PDF-"):
        return PDF
    suffix = suffix_of(name)
    found = FORMATS.get(suffix, "")
    if found in BINARY and found != PDF:
        return found
    if suffix in CODE or suffix in SETTINGS:
        return f"code:{suffix}"
    start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if found in ("", TEXT, MARKDOWN) and start.startswith((b"<!doctype html", b"<html")):
        return HTML
    return found or TEXT


SECONDS = 120.0
"""Wall time in seconds for one document; longer than its processor time, as the machine may be busy."""
ANSWER_LIMIT = 256 << 20
PART = 1 << 20


class DocumentReader:
    """Reads documents one after another. Starts a limited process if needed, and ends it. Not thread-safe."""

    def __init__(self) -> None:
        self._limited = Limited()

    def read(self, name: str, data: bytes) -> Text:
        """The text of a document. `name` determines its format if its first bytes do not.

        Raises:
            Unreadable: The document cannot be ingested.
        """
        format = format_of(name, data)
        if format in OFFICE:
            office.require(format)
        if format in BINARY or format == HTML:
            return self._limited.read(format, data)
        text = characters(data)
        if len(text) > TEXT_LIMIT:
            raise Unreadable(f"it has more than {TEXT_LIMIT >> 20} MiB of text")
        if format == MARKDOWN:
            return markdown(text)
        if format == RST:
            return restructured(text)
        if format.startswith("code:"):
            return Text(format.removeprefix("code:"), "code", "", text)
        return plain(text)

    def close(self) -> None:
        self._limited.close()

    def __enter__(self) -> DocumentReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Limited:
    """A process that reads untrusted documents. The first document starts it. Not thread-safe."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, format: str, data: bytes) -> Text:
        """The text of a document.

        Raises:
            Unreadable: The document cannot be read within the limits.
            Unavailable: The process cannot be started.
        """
        process = self._process or self._start()
        until = time.monotonic() + self._seconds
        try:
            _send(process, _packed(format.encode()) + LENGTH.pack(len(data)), until)
            _send(process, data, until)
            (length,) = LENGTH.unpack(_receive(process, LENGTH.size, until))
            if length > ANSWER_LIMIT:
                raise Unreadable("it has too much text")
            answer: dict[str, Any] = json.loads(_receive(process, length, until))
        except TimeoutError:
            self._kill()
            raise Unreadable("reading it takes too long") from None
        except (EOFError, OSError):
            code = self._kill()
            raise Unreadable(
                "reading it takes too much memory or time" if code else "the process that read it ended"
            ) from None
        except Unreadable:
            self._kill()
            raise
        if answer.get("spent"):  # otherwise its memory would stay in use
            self._kill()
        if "unreadable" in answer:
            raise Unreadable(answer["unreadable"], next=answer["next"])
        return Text(answer["format"], answer["kind"], answer["title"], answer["text"], trouble=tuple(answer["trouble"]))

    def close(self) -> None:
        if self._process is not None:
            self._kill()

    def _start(self) -> subprocess.Popen[bytes]:
        # The new process gets the module path of this one, but not the environment, which documents must not see.
        program = f"import sys; sys.path[:] = {sys.path!r}; from kgd.ingest.readers.sandbox import main; main()"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={"LC_ALL": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"no process can be started to read documents: {error.strerror}") from None
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        return self._process

    def _kill(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        ended = process.poll()
        process.kill()
        process.stdout.close()
        return process.wait() if ended is None else ended


def _packed(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def _send(process: subprocess.Popen[bytes], data: bytes, until: float) -> None:
    assert process.stdin is not None
    rest = memoryview(data)
    while rest:
        _, ready, _ = select.select([], [process.stdin], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        rest = rest[os.write(process.stdin.fileno(), rest[:PART]) :]


def _receive(process: subprocess.Popen[bytes], length: int, until: float) -> bytes:
    assert process.stdout is not None
    out = bytearray()
    while len(out) < length:
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(process.stdout.fileno(), min(PART, length - len(out)))
        if not part:
            raise EOFError
        out += part
    return bytes(out)


_ADORNMENT = re.compile(r"([=\-`:.'\"~^_*+#<>!$%&(),/;?@\[\]\\{|}])\1{2,}\s*\Z").match
_DIRECTIVE = re.compile(r"^\.\. (?:[\w-]+::|_[^\n:]{1,200}:)|(?<![\w`]):[a-z]+(?::[a-z]+)?:`", re.M)
ABOUT = ("date", "author")


def markdown(text: str) -> Text:
    """Markdown text. Title, tags, date and author come from front matter; the first heading is the default title."""
    page = front_matter.read(text)
    trouble = (f"front matter: {page.problem}",) if page.front is None else ()
    front = page.front or {}
    named = front.get("title")
    title = one_line(named) if isinstance(named, str) else ""
    about = []
    for key in ABOUT:
        value = front.get(key)
        stated = ", ".join(strings(value)) if not isinstance(value, date) else value.isoformat()
        if stated:
            about.append((key, one_line(stated)))
    tags = tuple(tag for tag in strings(front.get("tags")) if 0 < len(tag) <= LABEL_LIMIT and tag.isprintable())
    return Text("markdown", "markdown", title or first_heading(page.body), page.body, tags, tuple(about), trouble)


def first_heading(text: str) -> str:
    """The first heading of level 1 or 2, as the title of a document."""
    found = next(headings(text), None)
    return one_line(found[1]) if found and found[0] <= 2 else ""


def plain(text: str) -> Text:
    """Plain text; a text with reStructuredText markup is read as reStructuredText."""
    return restructured(text) if is_restructured(text) else Text("text", "text", "", text)


def is_restructured(text: str) -> bool:
    """Whether a text has directives, targets or roles of reStructuredText and an underlined line."""
    head = text[:20_000]
    return bool(_DIRECTIVE.search(head)) and bool(_titles(head.split("\n")))


def restructured(text: str) -> Text:
    """The text with its underlined titles as Markdown headings; levels follow the order in which the marks appear."""
    lines = text.split("\n")
    levels: dict[str, int] = {}
    for number, above, mark in list(_titles(lines)):
        level = levels.setdefault(mark, min(len(levels) + 1, 6))
        title = lines[number].strip()
        lines[number] = f"{'#' * level} {title}"
        lines[number + 1] = ""
        if above:
            lines[number - 1] = ""
    body = "\n".join(lines)
    return Text("rst", "markdown", first_heading(body), body)


def _titles(lines: list[str]) -> list[tuple[int, bool, str]]:
    """For each title: its line number, whether it has a line of marks above it as well, and the marks."""
    found: list[tuple[int, bool, str]] = []
    taken = -1
    for number in range(len(lines) - 1):
        line, under = lines[number], lines[number + 1].rstrip()
        if number <= taken or not line.strip() or not under or not (mark := _ADORNMENT(under)):
            continue
        if len(under) < len(line.rstrip()) or _ADORNMENT(line.rstrip()):
            continue
        above = number > 0 and lines[number - 1].rstrip() == under
        if line[0].isspace() and not above:  # an indented line is a title only between two lines of marks
            continue
        if not above and number > 0 and lines[number - 1].strip():
            continue
        found.append((number, above, mark[1] * (2 if above else 1)))
        taken = number + 1
    return found
