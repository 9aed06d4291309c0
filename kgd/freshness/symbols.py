"""This file is where a symbol's text is found in a source file: exactly in Python, by shape in other languages.

What changes around it does not change it: the text is cut to the definition, without the indentation that it stands in
and without blanks at line ends.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings

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
DOTS = 500
"""Names joined by dots, one after the other: of a long chain in an import Python's parser keeps every beginning."""
_CHAIN = re.compile(r"(?:\.[\s\\]*\w*[\s\\]*)+")


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
    if len(source) > PARSED or any(one[0].count(".") > DOTS for one in _CHAIN.finditer(source)):
        return _by_shape(source.splitlines(), name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a file's author wrote is none of our business
            scope: ast.AST = ast.parse(source)
        found: tuple[int, int] | None = None
        for step in re.split(r"\.|::", name):
            member = _member(scope, step)
            if member is None:
                return None
            scope, found = member, _lines_of(member)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _by_shape(source.splitlines(), name)
    return found


def _member(scope: ast.AST, name: str) -> ast.stmt | None:
    """The last definition of a name in a scope, as it is the one that counts; also inside of if and try."""
    found: ast.stmt | None = None
    todo = list(getattr(scope, "body", []))
    while todo:
        one = todo.pop(0)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found = one if one.name == name else found
        elif isinstance(one, ast.Assign | ast.AnnAssign):
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                found = one
        elif isinstance(one, ast.If | ast.Try | ast.With):
            inner = [*one.body, *getattr(one, "orelse", [])]
            inner += [s for handler in getattr(one, "handlers", []) for s in handler.body]
            todo = inner + todo
    return found


def _lines_of(one: ast.stmt) -> tuple[int, int]:
    decorators = [decorator.lineno for decorator in getattr(one, "decorator_list", [])]
    return min([one.lineno, *decorators]) - 1, one.end_lineno or one.lineno


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
