"""Formats of documents, detected by name and first bytes."""

from __future__ import annotations

import posixpath

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
    """Whether a file of a folder is ingested, by its name alone. Files of data are ingested only if named."""
    base = posixpath.basename(name)
    if base.startswith(".") or base.endswith((".min.js", ".min.css")):
        return False
    suffix = suffix_of(base)
    if not suffix:
        return base.lower() in _TEXT_NAMES.split()
    return suffix in FORMATS or suffix in CODE or suffix in SETTINGS


def format_of(name: str, data: bytes) -> str:
    """One of the formats above, or ``code:<suffix>`` for source code. The bytes count for more than the name."""
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
