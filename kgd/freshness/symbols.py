"""This file is where a symbol's text is found in a source file: exactly in Python, by shape in other languages.

What changes around it does not change it: the text is cut to the definition, without the indentation that it stands in
and without blanks at line ends.
"""

from __future__ import annotations

import re
import textwrap

from kgd.symbols import python

_DEFINES = (
    r"\b(?:function|func|fun|fn|def|class|struct|interface|type|enum|trait|impl|mod|module|namespace|record|object|const|"
    r"let|var|val|static|sub|proc|procedure|macro_rules!|#define|message|service|rpc|CREATE\s+(?:TABLE|VIEW|FUNCTION))"
)
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_CLOSES = re.compile(r"\s*(?:[)\]}]|end\b)")
LONGEST = 20_000
"""Lines of a file that is looked through; of a longer one the whole file counts."""
PARSED = 1 << 20
"""Characters of a Python file that is parsed; a longer one was made by a program, and is read by its shape."""


def text_of(source: str, name: str, path: str) -> str | None:
    """The definition of `name` (dotted for what lies inside, such as ``Class.method``); None where it is not found."""
    lines = source.splitlines()
    if len(lines) > LONGEST:
        return None
    if path.endswith((".py", ".pyi")):
        span = _in_python(source, name)
    elif path.endswith((".md", ".markdown", ".mdx")):
        span = _section(lines, name)
    else:
        span = _by_shape(lines, name)
    if span is None:
        return None
    text = textwrap.dedent("\n".join(line.rstrip() for line in lines[span[0] : span[1]]))
    return text.strip("\n")


def _in_python(source: str, name: str) -> tuple[int, int] | None:
    tree = python.parse(source) if len(source) <= PARSED else None
    return python.span(tree, name) if tree is not None else _by_shape(source.splitlines(), name)


def _section(lines: list[str], name: str) -> tuple[int, int] | None:
    """The section under a heading, named as it is written or as links to it are."""
    wanted, start, level = _slug(name), None, 0
    for number, line in enumerate(lines):
        heading = _HEADING.match(line)
        if heading is None:
            continue
        if start is not None and len(heading[1]) <= level:
            return start, number
        if start is None and _slug(heading[2]) == wanted:
            start, level = number, len(heading[1])
    return (start, len(lines)) if start is not None else None


def _slug(text: str) -> str:
    return "-".join(re.findall(r"\w+", text.lower()))


def _by_shape(lines: list[str], name: str) -> tuple[int, int] | None:
    """From the line that defines the last part of the name to where the indentation ends, closing bracket included."""
    last = re.escape(re.split(r"\.|::|#", name)[-1])
    patterns = (
        rf"{_DEFINES}[\s*&]+(?:\([^)]*\)\s*)?{last}\b",
        rf"^\s*(?:[\w<>\[\],*&:~]+\s+)*[*&]?{last}\s*\([^;]*$",
        rf"^\s*[\"']?{last}[\"']?\s*(?::=|[:=])",
    )
    for pattern in patterns:
        defines = re.compile(pattern, re.IGNORECASE if "CREATE" in pattern and last.islower() else 0).search
        start = next((number for number, line in enumerate(lines) if len(line) < 1_000 and defines(line)), None)
        if start is not None:
            return start, _end_of(lines, start)
    return None


def _end_of(lines: list[str], start: int) -> int:
    depth, end = _indent(lines[start]), start + 1
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if not line.strip():
            continue
        if _indent(line) <= depth:
            closes = _CLOSES.match(line) or (line.strip() == "{" and number == start + 1)
            if not closes:
                break
            end = number + 1
            if line.strip() != "{" and not line.rstrip().endswith("{"):
                break
            continue
        end = number + 1
    return end


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())
