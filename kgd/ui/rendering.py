"""Rendering of pages: templates with escaping, static files, and HTTP headers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from kgd.drawing import in_words
from kgd.drawing.svg import sample
from kgd.index.snippets import spans
from kgd.model import escaping
from kgd.model.change import Author
from kgd.tools.nodes import OWN_CLIENTS
from kgd.ui import words
from kgd.ui.changes import rewritten
from kgd.ui.highlighting import highlighted
from kgd.ui.markdown import laid_out, shown
from kgd.ui.node_reading import lead
from kgd.ui.visit import ROOT, address

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-frame-options": "DENY",
}
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
STATIC = {
    file.name: _TYPES[PurePath(file.name).suffix]
    for file in files("kgd.ui").joinpath("static").iterdir()
    if PurePath(file.name).suffix in _TYPES
}
"""Static files and their types; no other file of the folder is served."""


LONGEST_UNBROKEN = 30
"""Largest number of characters of a command that stays on one line: the width of a phone."""
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@").match
_CODE = re.compile(r"`([^`]+)`")


def page(template: str, told: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(told)


@cache
def asset(name: str) -> tuple[bytes, str]:
    """Return a static file and its digest; the digest in the address lets browsers cache it permanently."""
    data = files("kgd.ui").joinpath("static", name).read_bytes()
    return data, hashlib.sha256(data).hexdigest()[:16]


def ago(moment: str | float) -> str:
    """Return the time since a moment in words."""
    try:
        then = datetime.fromisoformat(moment).timestamp() if isinstance(moment, str) else float(moment)
    except ValueError:
        return shown(str(moment))
    return escaping.ago(datetime.now(UTC).timestamp() - then)


def day(moment: str) -> str:
    """``3 March 2026``."""
    then = datetime.fromisoformat(moment)
    return f"{then.day} {then:%B %Y}"


def initials(line: str) -> str:
    """Return the first letters of an author's first two names: ``AP``."""
    return "".join(word[0] for word in Author.of(line).name.split()[:2]).upper()


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("kgd.ui"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
        auto_reload=False,
    )
    made.filters |= {
        "exact": escape,  # without spelling out invisible characters, for a form field that is sent back
        "ago": ago,
        "day": day,
        "shown": shown,
        "markdown": laid_out,
        "counted": counted,
        "short": short,
        "marked": marked,
        "rewritten": rewritten,
        "sentence": words.sentence,
        "commands": commands,
        "breakable": breakable,
        "breakable_code": breakable_code,
        "marked_path": marked_path,
        "unbroken": unbroken,
        "message": words.message,
        "place": words.place,
        "next_step": words.next_step,
        "person": person,
        "initials": initials,
        "author": lambda line: Author.of(line).name,
        "program": program,
        "in_words": in_words,
        "shape": shape,
        "lead": lambda found: commands(lead(found)),
        "stale_reason": stale_reason,
        "coloured": coloured,
        "percent": percent,
        "share": share,
        "listed_words": listed_words,
    }
    made.globals |= {"asset": lambda name: f"{ROOT}/static/{name}?v={asset(name)[1]}", "address": address}
    return made


_CODE_BREAK = re.compile(r"(<[^>]*>|&#?\w+;)|(?<=[\w)\]])(?=\.[^\W\d])|([(\[{,]|(?<=\w)/)(?=\w)")
"""A tag or an entity, or a place where a line of code may break."""


def commands(text: str) -> Markup:
    """Render text between backticks as code."""
    parts = shown(text).split("`")
    if len(parts) % 2 == 0:
        return escape("`".join(parts))
    return Markup("").join(
        Markup("<code>{}</code>").format(unbroken(part)) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def unbroken(command: str) -> Markup:
    """Render a command so that its options do not break after a hyphen, and a short command does not break at all."""
    if " " in command and len(command) <= LONGEST_UNBROKEN:
        return Markup('<span class="unbroken">{}</span>').format(shown(command))
    parts = re.split(r"(?<!\S)(--?[A-Za-z][\w-]*)", shown(command))
    return Markup("").join(
        Markup('<span class="unbroken">{}</span>').format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )


def breakable(path: str) -> Markup:
    """Render a path that can break after each `/` and `#`."""
    return Markup("<wbr>").join(re.split(r"(?<=[/#])", shown(path)))


def breakable_code(line: Markup) -> Markup:
    """Let a line of highlighted code break before a dot and after an opening bracket, a comma and a `/` in
    a path, so that a narrow panel breaks no names.

    >>> breakable_code(Markup('<b>a.b</b>(c.d(1.5, "&lt;"))'))
    Markup('<b>a<wbr>.b</b>(<wbr>c<wbr>.d(<wbr>1.5, "&lt;"))')
    """
    return Markup(_CODE_BREAK.sub(lambda found: found[1] or f"{found[2] or ''}<wbr>", str(line)))


def person(line: str) -> str:
    """Return the name in a commit's author, without the address, and with the program only if it is an agent's.

    >>> person("Ann Person (kgd ui) <ann@example.org>"), person("Ann Person (codex) <ann@example.org>")
    ('Ann Person', 'Ann Person (codex)')
    """
    author = Author.of(line)
    return author.name if author.client in OWN_CLIENTS else author.signed


def program(client: str) -> str:
    """Return the program of a change if an agent used it; empty for kgd's own."""
    return "" if client in OWN_CLIENTS else client


def stale_reason(mark: Mapping[str, Any]) -> str:
    """Return why a fact is stale, without the id of the commit."""
    reason, commit = str(mark["reason"]), mark.get("commit")
    return reason.replace(f" in {commit[:10]}", "") if commit else reason


def numbered(diff: str) -> list[tuple[str, str]]:
    """Return the lines of a unified difference, each with its number: in the old file for a deleted line, in the new
    file for all others. A line with an ellipsis separates two hunks.

    >>> numbered("@@ -3,2 +3,2 @@\\n a\\n-b\\n+c")
    [('3', ' a'), ('4', '-b'), ('4', '+c')]
    """
    rows, old, new = list[tuple[str, str]](), 0, 0
    for line in diff.split("\n"):
        if head := _HUNK(line):
            old, new = int(head[1]), int(head[2])
            rows += [("", "…")] if rows else []
            continue
        is_of_file = line[:1] in ("+", "-", " ")
        rows.append((str(old if line[:1] == "-" else new) if is_of_file else "", line))
        old += line[:1] in ("-", " ")
        new += line[:1] in ("+", " ")
    return rows


def coloured(diff: str, path: str) -> list[tuple[str, str, Markup]]:
    """Return the lines of a unified difference with their numbers as `numbered` does, each as its sign and its code
    with the colours of a file of this name; with at most one unchanged line before and after a change. The code between
    two hunks is unknown, so a long text may lose its colour.

    >>> ["".join(row) for row in coloured("@@ -3 +3 @@\\n a\\n b\\n-c\\n+d\\n \\n e", "notes.txt")]
    ['4 b', '5-c', '5+d']
    """
    rows = numbered(diff)
    old, new = (
        iter(highlighted("\n".join(row[1:] for _, row in rows if row[:1] in kinds), path)) for kinds in ("- ", "+ ")
    )
    found = []
    for number, row in rows:
        sign, code = row[:1], escape(row[1:])
        if sign in ("-", " "):
            code = next(old, code)
        if sign in ("+", " "):
            code = next(new, code)
        found.append((number, sign, code))
    return _near_changes(found, [row for _, row in rows])


def _near_changes(found: list[tuple[str, str, Markup]], rows: Sequence[str]) -> list[tuple[str, str, Markup]]:
    """Keep the changed lines with one line before and after each, but no blank line at the end of a stretch."""
    changed = {at for at, row in enumerate(rows) if row[:1] in ("+", "-") or row.startswith("… ")}
    near = changed | {at for at, row in enumerate(rows) if row[:1] == " " and changed & {at - 1, at + 1}}
    kept = [at for at in sorted(near) if at in changed or rows[at].strip() or {at - 1, at + 1} <= near]
    shown = list[tuple[str, str, Markup]]()
    for before, at in zip([None, *kept], kept, strict=False):
        if before is not None and at > before + 1:
            shown.append(("", "…", Markup()))
        shown.append(found[at])
    return shown


def counted(number: int, one: str, many: str = "") -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def marked(text: str, question: str) -> Markup:
    """Render a text with the words of a question marked, and text between backticks as code."""
    parts, at = Markup(""), 0
    for begin, end in spans(text, question):
        parts += Markup("{}<mark>{}</mark>").format(shown(text[at:begin]), shown(text[begin:end]))
        at = end
    parts += shown(text[at:])
    return Markup(_CODE.sub(r"<code>\1</code>", str(parts))) if parts.count("`") % 2 == 0 else parts


def marked_path(path: str, question: str) -> Markup:
    """Render a path as `breakable` does, with the words of a question marked."""
    parts, at = Markup(""), 0
    for begin, end in spans(path, question):
        parts += Markup("{}<mark>{}</mark>").format(breakable(path[at:begin]), breakable(path[begin:end]))
        at = end
    return parts + breakable(path[at:])


def percent(part: int, whole: int) -> int:
    """Return a share in percent, rounded, but 0 only for nothing and 100 only for the whole.

    >>> percent(55, 64), percent(1, 1000), percent(999, 1000), percent(0, 0)
    (86, 1, 99, 0)
    """
    if part in (0, whole):
        return 100 if part else 0
    return min(99, max(1, round(100 * part / whole)))


def share(part: int, whole: int) -> str:
    """Return a share that may exceed the whole, in percent.

    >>> share(2, 99), share(1, 1000), share(300, 100)
    ('2 %', 'less than 1 %', '300 %')
    """
    rounded = round(100 * part / whole)
    return f"{rounded} %" if rounded else "less than 1 %"


def listed_words(listed: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *first, last = listed or [""]
    return f"{', '.join(first)} and {last}" if first else last


@lru_cache(256)
def shape(type: str) -> Markup:
    """Return the shape of a type in its colour, as in pictures of the graph; ``missing`` stands for a missing node."""
    return Markup(sample("", ("missing",)) if type == "missing" else sample(type))


def short(number: int) -> str:
    """``7``, ``1,200`` as ``1.2k``: a count in three or four characters."""
    if number < 1_000:
        return str(number)
    thousands = f"{number / 1_000:.1f}".removesuffix(".0") if number < 10_000 else str(number // 1_000)
    return f"{thousands}k"


def _finalize(value: Any) -> Any:
    """Spell out invisible characters in every text of a page."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value
