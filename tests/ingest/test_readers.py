"""Each format becomes text; a broken or hostile file costs one line, and the next one is read."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kgd.ingest.document_reader import DocumentReader, Limited
from kgd.ingest.readers import Unreadable
from tests.ingest import made


@pytest.fixture(scope="module")
def reading() -> Iterator[DocumentReader]:
    with DocumentReader() as reading:
        yield reading


GOOD = {
    "a.md": (b"---\ntitle: Said\n---\n# Other\n\nWords\n", "Said", "Words"),
    "b.md": (b"\xef\xbb\xbf# First\r\n\r\nWords\r\n", "First", "# First\n\nWords\n"),
    "c.txt": ("Ümläute".encode("utf-16"), "", "Ümläute"),
    "d.txt": (
        b"======\nDjango\n======\n\n.. index:: x\n\nUse\n===\n\nText\n",
        "Django",
        "# Django\n\n\n.. index:: x\n\n## Use",
    ),
    "e.rst": (b"Title\n-----\n\nBelow\n", "Title", "# Title\n"),
    "f.html": (
        b"<title>Pay &amp; go</title><script>evil()</script><h2>How <b>to</b></h2><p>A <a href='x.md'>link</a>"
        b"<ul><li>one<li>two</ul><table><tr><td>1<td>2</table><a href='javascript:x'>no</a>",
        "Pay & go",
        "## How to\n\nA [link](x.md)\n\n- one\n- two\n\n| 1 | 2",
    ),
    "g.html": ("<meta charset=iso-8859-1><p>Café".encode("latin-1"), "", "Café"),
    "h.pdf": (made.pdf("Hello from page one", "and from page two"), "", "## Page 2\n\nand from page two"),
    "named.md": (made.pdf("It is a PDF anyway"), "", "It is a PDF anyway"),
    "i.docx": (made.docx("The plan", "First this."), "The plan", "# The plan\n\nFirst this."),
    "j.xlsx": (made.xlsx([["name", "age"], ["Ann", 3, None]]), "", "## Sheet\n\n| name | age |\n| Ann | 3 |"),
    "k.pptx": (made.pptx("Hello", "World"), "Hello", "## Slide 1: Hello\n\nWorld"),
    "l.epub": (made.epub("<h1>Two</h1>later", "<h1>One</h1>first"), "A Book", "# One\n\nfirst\n\n# Two\n\nlater"),
    "m.py": (b"def f():\n    pass\n", "", "def f():\n    pass\n"),
    "n.md": (b"A\x00B" * 0 + "a\u0007b\ud7ffc\x1b[31m".encode(), "", "ab\ud7ffc[31m"),
    "p.md": (b"---\ntitle: [broken\n---\nBody\n", "", "Body\n"),
}


@pytest.mark.requirement("U8")
@pytest.mark.parametrize("name", GOOD)
def test_each_format_becomes_text_with_its_title_and_headings(reading: DocumentReader, name: str) -> None:
    data, title, text = GOOD[name]
    found = reading.read(name, data)
    assert found.title == title
    assert text in found.text.replace("\n\n\n", "\n\n") or text in found.text


LOOP = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2>>endobj\n"
    b"trailer<</Root 1 0 R>>\n"
)
NESTED = b"%PDF-1.4\n1 0 obj\n" + b"[" * 200_000 + b"\nendobj\ntrailer<</Root 1 0 R>>\n"
LAUGHS = "".join(f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in zip("abcdefghi", "bcdefghij", strict=True))
BAD = {
    "elf.md": (b"\x7fELF\0\0\0", "binary"),
    "latin.txt": (b"ok\ncaf\xe9", "not UTF-8 text .line 2."),
    "empty.md": (b"", ""),
    "wide.html": (b"\0\0\0", "binary"),
    "broken.pdf": (b"%PDF-1.4 nothing", "not a valid PDF"),
    "loop.pdf": (LOOP, "not a valid PDF|no text"),
    "nested.pdf": (NESTED, "not a valid PDF|deep"),
    "scanned.pdf": (made.pdf(""), "no text"),
    "zip.docx": (b"PK\x03\x04 and then nothing", "not a valid archive"),
    "other.docx": (made.archive({"a.txt": "no Word"}), "not a valid docx"),
    "many.docx": (made.crowded(made.archive({"a.txt": ""}), 10_001), "more than 10,000 files"),
    "bomb.docx": (made.bomb(made.docx("x")), "MiB"),
    "laughs.docx": (
        made.archive({"[Content_Types].xml": f"<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'>{LAUGHS}]><x>&j;</x>"}),
        "not a valid docx",
    ),
    "outside.epub": (
        made.archive({"META-INF/container.xml": "<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x>&e;</x>"}),
        "list of pages",
    ),
    "text.xlsx": (b"name,age\n", "not a valid archive"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_unreadable_document_costs_one_line_and_the_next_is_read(reading: DocumentReader, name: str) -> None:
    data, why = BAD[name]
    if why:
        with pytest.raises(Unreadable, match=why):
            reading.read(name, data)
    else:
        assert reading.read(name, data).text == ""
    assert "still here" in reading.read("next.html", b"<p>still here").text


def test_html_that_is_nested_100_000_levels_deep_is_read(reading: DocumentReader) -> None:
    found = reading.read("deep.html", b"<div><ul><li>" * 35_000 + b"hello")
    assert "hello" in found.text


@pytest.mark.large
def test_a_document_that_takes_too_much_memory_or_time_ends_its_reader_and_no_other(reading: DocumentReader) -> None:
    large = made.docx(body="<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 700_000)
    with pytest.raises(Unreadable, match=r"too much memory|too long"):
        reading.read("large.docx", large)
    assert "still here" in reading.read("next.html", b"<p>still here").text


def test_a_reader_that_hangs_is_ended() -> None:
    with contextlib.closing(Limited(seconds=0.0)) as hasty, pytest.raises(Unreadable, match="too long"):
        hasty.read("html", b"<p>words" * 100_000)  # the process never answers at once


def test_the_limited_process_opens_no_file_no_socket_and_no_program() -> None:
    """Run as it runs: what it would do for a document that makes a library try."""
    program = (
        "import sys; from kgd.ingest.readers import sandbox; sandbox._limit()\n"
        "import socket, subprocess, os\n"
        "for attempt in (lambda: open('/etc/hostname'), lambda: open('/tmp/made-by-a-document', 'w'),"
        " lambda: socket.socket().connect(('127.0.0.1', 9)), lambda: subprocess.run(['true']),"
        " lambda: os.system('true'), lambda: os.fork()):\n"
        "    try: attempt()\n"
        "    except PermissionError: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused"] * 6


@pytest.mark.slow
def test_without_the_extra_the_refusal_names_it(reading: DocumentReader, monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mammoth" else there(name))
    with pytest.raises(Unreadable, match=r"extra `docs`.*'\.\[docs\]'"):
        reading.read("a.docx", made.docx("x"))
