"""Output for a person: colours, addresses, dates, wrapped lines and tables on a terminal, plain lines in a pipe;
and numbers and values in words.

The text in a pipe depends on the answer alone. Only a terminal loads `kgd.cli.layout`, and with it the library rich.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import IO, Any

from kgd.config import color_choice, has_many_colors
from kgd.model.escaping import ago

STYLES = {
    "bold": ("1", "1"),
    "faint": ("38;5;243", "2"),
    "address": ("38;5;30", "36"),
    "commit": ("38;5;133", "35"),
    "good": ("38;5;28", "32"),
    "warning": ("38;5;130", "33"),
    "bad": ("38;5;161", "31"),
}
"""SGR codes for 256 colours, with a contrast of 4 to 1 on white and on black, and for terminals with fewer colours."""

SHORT = 20
"""Characters of a line that fits every terminal, even if they are wide."""
RESET = "\033[0m"

_workspace = ""
_has_lines = False
"""Whether a line of the current answer was written."""
_detailed = False
_typed: frozenset[str] = frozenset()


def width() -> int:
    """The width of the terminal in columns."""
    return shutil.get_terminal_size().columns


def is_terminal() -> bool:
    return sys.stdout.isatty()


def has_color(stream: IO[str]) -> bool:
    """Whether to write colours: the user's choice, or to a terminal."""
    choice = color_choice()
    return stream.isatty() if choice is None else choice


def painted(text: str, style: str) -> str:
    """The text in a style of `STYLES`. Colour is never the only sign."""
    if not text or not has_color(sys.stdout):
        return text
    many, few = STYLES[style]
    begin = f"\033[{many if has_many_colors() else few}m"
    return f"{begin}{text.replace(RESET, RESET + begin)}{RESET}"


bold = partial(painted, style="bold")
faint = partial(painted, style="faint")
good = partial(painted, style="good")
red = partial(painted, style="bad")
"""For values that are missing or unreadable."""
alert = partial(painted, style="warning")


def commit(id: str | None) -> str:
    """A short commit id."""
    return painted(short_id(id), "commit")


def within(workspace: str, *, detailed: bool = False, typed: Iterable[str] = ()) -> None:
    """Begin an answer, in which addresses of this workspace are shortened; with an empty name, none.

    Args:
        detailed: Whether the user asked for more than the usual lines.
        typed: The words of the command line. An error shows the address of a concept as such a word, if it is one.
    """
    global _workspace, _has_lines, _detailed, _typed
    _workspace, _has_lines, _detailed, _typed = workspace, False, detailed, frozenset(typed)


def is_detailed() -> bool:
    """Whether the user asked for more than the usual lines."""
    return _detailed


def address(uri: str) -> str:
    """An address, in its colour; see `short`."""
    return painted(short(uri), "address")


def short(uri: str) -> str:
    """An address. A terminal shows addresses of the directory's workspace in short, and files of the code as paths.

    The root folder is ``dir:_``: a path that leads to it depends on the current directory. A scheme that kgd does not
    know has no short form: ``person:ann`` would be an external resource. A name with spaces is quoted, as a shell needs
    it: ``'task:Renew earlier'``.
    """
    scheme, mark, rest = uri.partition(f"://{_workspace}/")
    if _workspace and mark and rest and is_terminal() and _has_short_form(scheme):
        if "%20" in rest and (name := _unescaped(rest)):
            return f"'{scheme}:{name}'"
        if "%" in rest or scheme not in ("file", "dir") or rest == "_":
            return f"{scheme}:{rest}"
        return f"{rest}/" if scheme == "dir" else rest  # without the slash, it could be a concept of this name
    return uri


def _unescaped(path: str) -> str:
    """The path with spaces instead of ``%20``; empty if it has other escapes, or a quote."""
    plain = path.replace("%20", " ")
    return "" if "%" in plain or "'" in plain else plain


def _has_short_form(scheme: str) -> bool:
    from kgd.model.uri import OWNED

    return scheme in OWNED


def with_addresses(text: str, form: Callable[[str], str] = address) -> str:
    """A line, with the addresses in it in this form."""
    words = ((word.removesuffix(":"), ":" * word.endswith(":")) for word in text.split(" "))
    return " ".join(f"{form(word)}{end}" if "://" in word else f"{word}{end}" for word, end in words)


def when(at: str, exact: str | None = None) -> str:
    """A date, in relation to now on a terminal, as in ``3 days ago``; otherwise `exact`, by default the date itself."""
    plain = at if exact is None else exact
    if not at or not is_terminal():
        return plain
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return plain
    age = time.time() - moment.timestamp()
    return ago(age) if moment.tzinfo and age >= 0 else plain


def fits(line: str) -> bool:
    """Whether a line fits the terminal's width."""
    from kgd.cli import layout

    return layout.cells(line) <= width()


def shortened(text: str, columns: int) -> str:
    """A text that ends with … if it takes more columns."""
    from kgd.cli import layout

    return layout.cut(text, columns)


def say(text: str = "", hang: int | None = None) -> None:
    """Write one line, or several. A terminal breaks long lines, and indents the rest by `hang` columns."""
    global _has_lines
    _has_lines = True
    sys.stdout.write(fitted(text, hang) + "\n")


def say_field(answer: Mapping[str, Any], name: str, form: str = "{}", hang: int | None = None) -> None:
    """Write a field of an answer in a form, if it has a value."""
    if value := answer.get(name):
        say(form.format(value), hang)


def say_each(values: Iterable[Any], form: str, hang: int | None = None) -> None:
    """Write each value on a line of its own."""
    for value in values:
        say(form.format(value), hang)


def gap() -> None:
    """Write an empty line between two parts of an answer on a terminal, and none before the first part."""
    if _has_lines and is_terminal():
        say()


def heading(title: str) -> None:
    """Begin a part of an answer."""
    gap()
    say(bold(title))


def verbatim(text: str) -> None:
    """Write a line that is to be copied; the terminal breaks it."""
    sys.stdout.write(text + "\n")


def markdown(text: str) -> None:
    """Write a text whose lines may be broken, except in blocks of code."""
    is_code = False
    for line in text.split("\n"):
        is_fence = line.lstrip().startswith("```")
        (verbatim if is_code or is_fence else say)(line)
        is_code ^= is_fence


def fitted(text: str, hang: int | None = None) -> str:
    """The text with line breaks for the terminal; in a pipe, the text."""
    if not is_terminal() or len(text) <= SHORT:
        return text
    from kgd.cli import layout

    return "\n".join(layout.wrapped(line, width(), hang) for line in text.split("\n"))


def complain(message: str, then: str = "") -> None:
    """Write an error and its next step to standard error. A terminal shows addresses as typed, or in short."""
    lines = [f"kgd: {message}", *([f"     {then}"] if then else [])]
    if sys.stderr.isatty():
        from kgd.cli import layout

        if _workspace:
            own = re.compile(rf"\b[a-z]+://{re.escape(_workspace)}/[^\s,;()?`'\"]*[^\s,;:.()?`'\"]")
            lines = [own.sub(lambda found: _as_typed(found[0]), line) for line in lines]
        lines = [layout.wrapped(line, width(), 5) for line in lines]
    text = "".join(f"{line}\n" for line in lines)
    if has_color(sys.stderr):
        many, few = STYLES["bad"]
        text = text.replace("kgd:", f"\033[{many if has_many_colors() else few}mkgd:{RESET}", 1)
    sys.stderr.write(text)


def _as_typed(uri: str) -> str:
    name = uri.partition(f"concept://{_workspace}/")[2]
    return name if name in _typed else short(uri)


LABEL = 11


def field(label: str, value: str, indent: int = 2) -> None:
    """Write a value with its label. The values of consecutive fields are aligned."""
    shown = faint(label) + " " * (LABEL - len(label))
    say(f"{' ' * indent}{shown} {value}", hang=indent + LABEL + 1)


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], plain: Callable[..., str], *, cuts: bool = False
) -> None:
    """Write rows as columns with headings on a terminal that is wide enough, otherwise `plain(*row)` for each row.

    With `cuts`, each row is one line.
    """
    if rows and is_terminal():
        from kgd.cli import layout

        if text := layout.table([bold(one) for one in headings], rows, width(), cuts=cuts):
            sys.stdout.write(text)
            return
    for row in rows:
        say(plain(*row), hang=4)


def clean(value: Any) -> Any:
    """The value with control and direction characters escaped: stored text is untrusted."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


def counted(count: int, thing: str) -> str:
    """``1 open conflict``, ``2 chunks new``, ``1,746 files``; `thing` is the plural."""
    named = thing if count != 1 else " ".join(map(_singular, thing.split(" ")))
    return f"{count:,} {named}"


def _singular(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def counts(many: dict[str, Any]) -> str:
    """The counts in their order, without zeros; bytes as a size."""
    told = {name: value for name, value in many.items() if value or name == "nodes"}
    return ", ".join(
        size(value) if name == "bytes" else counted(value, name.replace("_", " ")) for name, value in told.items()
    )


def size(count: int) -> str:
    """``812 bytes``, ``1.7 MB``."""
    if count < 1_000:
        return f"{count} byte" if count == 1 else f"{count} bytes"
    number, units = float(count), iter(("kB", "MB", "GB", "TB"))
    unit = ""
    while number >= 999.5 and (following := next(units, "")):
        number, unit = number / 1_000, following
    return f"{number:.1f} {unit}" if number < 99.95 else f"{number:.0f} {unit}"


def span(seconds: int) -> str:
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def listed(value: Any) -> str:
    """A value, or the values of a list, separated by commas."""
    return ", ".join(map(as_text, value)) if isinstance(value, list) else as_text(value)


def as_text(value: Any) -> str:
    """One value on one line."""
    if isinstance(value, str):
        return " / ".join(filter(str.strip, value.splitlines()))
    if isinstance(value, list | dict):
        import json

        return json.dumps(value, ensure_ascii=False)
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def short_id(commit: str | None) -> str:
    """The id of a commit as in messages of merges, reasons of stale facts, and on pages."""
    return (commit or "")[:10]


def signed(commit: dict[str, Any]) -> str:
    """The author of a commit with the program, who pushed it, and who accepted it."""
    client = f" ({commit['client']})" if commit.get("client") else ""
    pushed = f", pushed by {commit['pushed_by']}" if commit.get("pushed_by") else ""
    accepted = f", accepted by {commit['accepted_by']}" if commit.get("accepted_by") else ""
    return f"{commit['author']}{client}{pushed}{accepted}"
