"""Export of areas as coding agents' rule files. An area that came from a file is written back to it.

A new file names its area in its first line, and imports skip it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from kgd.codec import front_matter
from kgd.exchange.plan import Export, Output, Trouble, View, sub_mapping, unused
from kgd.exchange.rules import KEPT, KIND, SIGN, kind_of, page_of
from kgd.model.escaping import one_line
from kgd.model.node import Json, Node, cut_at_word
from kgd.model.uri import build, path_of, scheme_of

AREAS = ("atom", "molecule")
MOST_GLOBS = 20
_PLAIN_GLOBS = re.compile(r"[\w./*?{},\[\]!+@ -]+\Z").match


@dataclass(frozen=True, slots=True)
class Area:
    """An area as a rule: applied to globs, always, or on request."""

    node: Node
    globs: tuple[str, ...]
    always: bool


@dataclass(frozen=True, slots=True)
class Program:
    """The place and front matter of a program's rules, and the other rule files that the program reads."""

    name: str
    path: str
    front: Callable[[Area], str]
    reads: tuple[str, ...]


def _cursor(area: Area) -> str:
    said = one_line(area.node.summary or area.node.title)
    return (
        f"---\ndescription: {json.dumps(said, ensure_ascii=False)}\n{_cursor_globs(area.globs)}"
        f"alwaysApply: {'true' if area.always else 'false'}\n---\n"
    )


def _cursor_globs(globs: tuple[str, ...]) -> str:
    joined = ",".join(globs)
    return f"globs: {joined}\n" if _PLAIN_GLOBS(joined) or not joined else f"globs: {json.dumps(joined)}\n"


def _claude(area: Area) -> str:
    return front_matter.write({"paths": list(area.globs)}) if area.globs else ""


def _copilot(area: Area) -> str:
    head: dict[str, Json] = {"description": one_line(area.node.summary)} if area.node.summary else {}
    if area.globs or area.always:
        head["applyTo"] = ",".join(area.globs) or "**"
    return front_matter.write(head)


PROGRAMS = {
    "cursor-rules": Program("cursor", ".cursor/rules/kgd/{}.mdc", _cursor, ("AGENTS.md", ".cursorrules")),
    "claude-rules": Program("claude", ".claude/rules/kgd/{}.md", _claude, ("CLAUDE.md",)),
    "copilot-rules": Program(
        "copilot", ".github/instructions/kgd/{}.instructions.md", _copilot, ("AGENTS.md", "copilot-instructions.md")
    ),
}


def write_back(view: View) -> Export:
    """Export only the files from which areas were imported."""
    files: list[Output] = []
    troubles: list[Trouble] = []
    others = 0
    for area in _areas(view):
        path = _origin(area.node)
        if path:
            files.append(Output(path, _as_it_was(area, path, view, troubles)))
        else:
            others += 1
    if others:
        reason = f"{others} areas are not from a rule file: write them with --to {', '.join(PROGRAMS)} or agents-md"
        troubles.append(Trouble("", reason))
    return Export(tuple(files), tuple(troubles), {"rule_files": len(files)})


def for_program(name: str) -> Callable[[View], Export]:
    """All areas as rule files for this program. An area that was imported from a file that the program reads is written
    back to that file.

    An additional file would give the program the same rule twice.
    """
    program = PROGRAMS[name]

    def write(view: View) -> Export:
        files: list[Output] = []
        troubles: list[Trouble] = []
        taken: set[str] = set()
        for area in _areas(view):
            path = _origin(area.node)
            found = kind_of(path) if path else None
            if found is not None and (found[0].program == program.name or path.rpartition("/")[2] in program.reads):
                files.append(Output(path, _as_it_was(area, path, view, troubles)))
                continue
            slug = _slug(area.node, taken)
            text = f"{program.front(area)}{SIGN}{area.node.uri} -->\n{_text(area.node)}"
            files.append(Output(program.path.format(slug), text.encode("utf-8", "replace")))
        return Export(tuple(files), tuple(troubles), {"areas": len(files)})

    return write


def agents_md(view: View) -> Export:
    """All areas as one block of AGENTS.md."""
    parts = ["# What this team knows about parts of this code", ""]
    count = 0
    for area in _areas(view):
        if _origin(area.node) == "AGENTS.md":
            continue
        count += 1
        where = ", ".join(f"`{glob}`" for glob in area.globs) or ("everything" if area.always else "on request")
        parts += [f"## {one_line(area.node.title)}", "", f"For: {where}", "", area.node.content.strip("\n"), ""]
    text = "\n".join(parts).replace("<!-- kgd", "<!-- (kgd)")
    files = (Output("AGENTS.md", text.encode("utf-8", "replace"), block=True),) if count else ()
    return Export(files, (), {"areas": count})


def _areas(view: View) -> list[Area]:
    """The areas of the view in order. A molecule applies to its atoms' paths, unless it applies to everything."""
    nodes = [node for node in view.nodes() if scheme_of(node.uri) in AREAS]
    members: dict[str, list[str]] = {}
    for node in nodes:
        molecule = node.data.get("moleculeId")
        if isinstance(molecule, str):
            members.setdefault(molecule, []).extend(_paths(node))
    root = build("dir", view.workspace, [])
    areas = []
    for node in nodes:
        always = any(relation.target == root and relation.type == "about" for relation in node.relations)
        globs = tuple(dict.fromkeys(_paths(node) or ([] if always else members.get(node.uri, []))))
        areas.append(Area(node, globs[:MOST_GLOBS] if len(globs) <= MOST_GLOBS else (), always=always and not globs))
    return areas


def _paths(node: Node) -> list[str]:
    paths = node.data.get("paths")
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []


def _origin(node: Node) -> str:
    if node.source is None or node.source.type != KIND:
        return ""
    path = node.source.id
    return path if kind_of(path) is not None and ".." not in path.split("/") and not path.startswith("/") else ""


def _as_it_was(area: Area, path: str, view: View, troubles: list[Trouble]) -> bytes:
    """The file's original bytes, changed only where the node has changed."""
    node = area.node
    head = sub_mapping(node, KEPT).get("head", "")
    head = head if isinstance(head, str) else ""
    page = page_of(head + node.content)
    found = kind_of(path)
    assert found is not None
    kind, base, _ = found
    front: dict[str, Json] = dict(page.front or {})
    described = front.get("description")
    before = sub_mapping(node, KEPT).get("paths")
    changes: dict[str, Json] = {}
    if node.summary != (cut_at_word(one_line(described)) if isinstance(described, str) else ""):
        changes["description"] = node.summary or None
    if kind.key and _paths(node) != (before if isinstance(before, list) else []):
        changes[kind.key] = ",".join(_known(area.globs, base)) if kind.key != "paths" else _known(area.globs, base)
    if page.front is None and changes:
        troubles.append(Trouble(path, "invalid front matter; written unchanged"))
        changes = {}
    if not changes or page.body != node.content:
        return (head + node.content).encode("utf-8", "replace")
    front |= changes
    front = {key: value for key, value in front.items() if value is not None or key not in changes}
    return (front_matter.write(front) + node.content).encode("utf-8", "replace")


def _known(globs: tuple[str, ...], base: str) -> list[Json]:
    """The globs as they are written in the file: relative to its folder, in the shortest spelling."""
    below = [glob.removeprefix(f"{base}/") if base else glob for glob in globs]
    return [glob.removeprefix("**/") if glob.count("/") == 1 and glob.startswith("**/") else glob for glob in below]


def _slug(node: Node, taken: set[str]) -> str:
    stem = re.sub(r"[^\w.-]+", "-", path_of(node.uri), flags=re.ASCII).strip("-.").lower()[:80] or scheme_of(node.uri)
    return unused(stem.removesuffix(".md"), taken)


def _text(node: Node) -> str:
    text = node.content.strip("\n")
    return text + "\n" if re.match(r"#{1,2}\s", text) else f"# {one_line(node.title)}\n\n{text}\n"
