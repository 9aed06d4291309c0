"""Import and export of coding agents' rule files as areas: CLAUDE.md, AGENTS.md, and folders of rules.

A file with globs becomes an atom with those paths; a file in a subfolder without globs becomes an atom for its folder.
A file for the whole tree, or for use on request, becomes a molecule, because an atom of ``**`` would own every file and
hide gaps in coverage. A rule that always applies is `about` the root of the code, so `context` shows it for every path.

An export writes an area that came from a file back to it. A new file names its area in its first line, and imports skip
it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kgd.codec import front_matter
from kgd.codec.front_matter import Page
from kgd.errors import Invalid, KgdError
from kgd.exchange import (
    PRUNED,
    Export,
    Folder,
    Output,
    Plan,
    Reading,
    Trouble,
    View,
    Wanted,
    filled,
    sub_mapping,
    unused,
    without_nulls,
)
from kgd.model.escaping import one_line
from kgd.model.node import NAME_LIMIT, Json, Node, Relation, Source, cut_at_word
from kgd.model.uri import build, from_path, path_of, scheme_of

KIND = "rules"
"""Source type of a rule; the id is the file's path in the code."""
KEPT = "rule"
"""Data key for the file's front matter as written, and for its keys that kgd does not know."""
SIGN = "<!-- written by kgd from "
WHOLE = frozenset({"**", "*", "**/*"})
PATTERNS, KNOWLEDGE = 20, 32 * 1024
HIDDEN = frozenset({".cursor", ".claude", ".github"})
OWN_KEYS = frozenset({"description", "globs", "paths", "applyTo", "alwaysApply"})

BLOCKS = (("<!-- kgd: written by ", "<!-- kgd: end -->"), ("<!-- kgd export begin -->", "<!-- kgd export end -->"))
"""Marker lines around parts of a user's file that kgd wrote, either by `kgd agents install` or by an export."""

_BARE = re.compile(r"^(globs|paths|applyTo):[ \t]*([^\s\[\"'#|>&][^\n#]*)$", re.M)
_BARE_ITEM = re.compile(r"^([ \t]*-[ \t]+)([*{!][^\n]*)$", re.M)
_HEADING = re.compile(r"^#{1,2}[ \t]+(.+)$", re.M).search

AREAS = ("atom", "molecule")
MOST_GLOBS = 20
_PLAIN_GLOBS = re.compile(r"[\w./*?{},\[\]!+@ -]+\Z").match


@dataclass(frozen=True, slots=True)
class RuleFile:
    """One kind of rule file: its program, the front matter key of its globs, and the pattern of its path."""

    program: str
    key: str
    matches: re.Pattern[str]


FILES: tuple[RuleFile, ...] = (
    RuleFile("cursor", "globs", re.compile(r"(?:(?P<base>.+)/)?\.cursor/rules/(?P<name>.+)\.mdc")),
    RuleFile("claude", "paths", re.compile(r"(?:(?P<base>.+)/)?\.claude/rules/(?P<name>.+)\.md")),
    RuleFile("copilot", "applyTo", re.compile(r"(?P<base>)\.github/instructions/(?P<name>.+)\.instructions\.md")),
    RuleFile("", "", re.compile(r"(?P<base>)(?P<name>\.github/copilot-instructions\.md|\.claude/CLAUDE\.md)")),
    RuleFile("", "", re.compile(r"(?P<base>)(?P<name>\.cursorrules)")),
    RuleFile("", "", re.compile(r"(?:(?P<base>.+)/)?(?P<name>CLAUDE\.md|AGENTS\.md|GEMINI\.md)")),
)


PLACES = tuple(
    """
    AGENTS.md CLAUDE.md GEMINI.md .cursorrules .cursor/rules .claude/CLAUDE.md .claude/rules .github/instructions
    .github/copilot-instructions.md
    """.split()
)
"""Rule files and folders of the top of a code tree."""


def kind_of(path: str) -> tuple[RuleFile, str, str] | None:
    """The kind, the folder to which it applies, and the name of a rule file; None for other files."""
    for kind in FILES:
        if found := kind.matches.fullmatch(path):
            return kind, found["base"] or "", found["name"]
    return None


def sniff(path: Path) -> bool:
    if path.is_file():
        return any(kind_of("/".join(path.parts[-n:])) is not None for n in range(1, 6))
    if not path.is_dir() or (path / ".obsidian").is_dir():
        return False
    return path.name in ("rules", "instructions") or any((path / place).exists() for place in PLACES)


def at_top(root: Path) -> list[str]:
    """The rule files and folders at the top of a code tree that an import can read. O(1) in the size of the tree."""
    return [place for place in PLACES if _has_rules(root / place, place)]


def _has_rules(path: Path, place: str) -> bool:
    """Whether a user wrote the file, or the folder or one of its subfolders has a rule file."""
    try:
        if path.is_dir():
            inside = [path, *(Path(entry) for entry in os.scandir(path) if entry.is_dir())]
            return any(
                kind_of(f"{place}/{(folder / name).relative_to(path).as_posix()}")
                for folder in inside
                for name in os.listdir(folder)
            )
        if not path.is_file():
            return False
        with path.open(encoding="utf-8", errors="replace") as file:
            text = without_blocks(file.read(2 * KNOWLEDGE))
    except OSError:
        return False
    return SIGN not in text[:4_000] and 0 < len(text.strip().encode()) <= KNOWLEDGE


def read(source: Path, reading: Reading) -> Plan:
    """The rule files at or below the source, each as an area.

    Raises:
        Invalid: There are no rule files.
        Limit: There are too many files.
    """
    root = _root(source, reading)
    below = source.relative_to(root).as_posix()
    folder = Folder(root if source == root or source.is_file() else source)
    before = "" if folder.root == root else below + "/"
    names = (
        [below]
        if source.is_file()
        else [before + name for name in folder.paths(lambda path: kind_of(before + path) is not None, _enters)]
    )
    folder.root, folder.left = root, {}
    rules = Rules(reading, folder.troubles)
    wanted: list[Wanted] = []
    ours = 0
    for name, text in folder.texts(names):
        if SIGN in text[:4_000]:
            ours += 1
        elif (one := rules.wanted(name, text)) is not None:
            wanted.append(one)
    if not names:
        raise Invalid("there are no rule files", at="source", next="Name the top of the code, or one file.")
    counts = {"rule_files": len(names)} | ({"written_by_kgd": ours} if ours else {})
    return Plan(tuple(wanted), troubles=tuple(folder.troubles), counts=counts)


def _root(source: Path, reading: Reading) -> Path:
    """The base of rule paths: the code tree or, without one, the parent of the folder or file with the rules."""
    if reading.code_tree is not None and source.is_relative_to(reading.code_tree):
        return reading.code_tree
    for folder in (source, *source.parents):
        if folder.name in HIDDEN:
            return folder.parent
    return source.parent if source.is_file() else source


def _enters(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name in HIDDEN or (not name.startswith(".") and name not in PRUNED)


@dataclass(frozen=True, slots=True)
class Rules:
    """Reads rule files for one workspace."""

    reading: Reading
    troubles: list[Trouble] = field(default_factory=list)

    def wanted(self, path: str, text: str) -> Wanted | None:
        """The area of a file. If the file is invalid, report it and return None."""
        text = without_blocks(text)
        page = page_of(text)
        if page.front is None:
            reason = f"invalid front matter: {page.problem}. The rule was imported without it"
            self.troubles.append(Trouble(f"{path}:{page.line}", reason))
        if len(page.body.encode()) > KNOWLEDGE:
            self.troubles.append(Trouble(path, f"larger than {KNOWLEDGE // 1024} KB, the limit of an area; skipped"))
            return None
        if not text.strip():
            self.troubles.append(Trouble(path, "it contains only text that kgd wrote"))
            return None
        try:
            node = self.node(path, page)
        except KgdError as error:
            self.troubles.append(Trouble(path, f"{error.message}; skipped"))
            return None
        return Wanted(node, at=path)

    def node(self, path: str, page: Page) -> Node:
        """The area of a file.

        Raises:
            KgdError: The file cannot be an area.
        """
        found = kind_of(path)
        if found is None:
            raise Invalid("no known program reads rules from a file of this name")
        kind, base, name = found
        front = page.front or {}
        given = globs(front.get(kind.key)) if kind.key else []
        is_whole = bool(given) and set(given) <= WHOLE and not base
        patterns = [] if is_whole else self._patterns(path, base, given)
        if given and not is_whole and not patterns:
            raise Invalid("none of its globs is a valid path pattern of an area")
        if base and not given:
            patterns = self._patterns(path, "", [f"{base}/**"])
        if len(patterns) > PATTERNS:
            raise Invalid(f"it has {len(patterns)} globs; an area has at most {PATTERNS}")
        applies = (
            is_whole or not kind.program or front.get("alwaysApply") is True or (kind.program == "claude" and not given)
        )
        return self._made(path, kind, base, name, page, patterns, applies=applies)

    def _made(
        self, path: str, kind: RuleFile, base: str, name: str, page: Page, patterns: Sequence[str], *, applies: bool
    ) -> Node:
        front = without_nulls(page.front or {})
        scheme = "atom" if patterns else "molecule"
        where = "/".join(part for part in (self.reading.below, base, kind.program, name) if part)
        relations: tuple[Relation, ...] = ()
        if applies and not patterns and self.reading.code_tree is not None:
            relations = (Relation("about", build("dir", self.reading.workspace, [])),)
        unknown = {key: value for key, value in front.items() if key not in OWN_KEYS}
        kept = filled({"file": path, "head": page.head, "paths": list(patterns), "keys": unknown})
        data = filled({KEPT: kept, "paths": list(patterns)})
        described = front.get("description")
        heading = _HEADING(page.body)
        title = (heading[1].rstrip("# \t") or heading[1]) if heading else f"{base}/{name}" if base else name
        return Node(
            from_path(scheme, self.reading.workspace, where),
            name=one_line(title)[:NAME_LIMIT],
            summary=cut_at_word(one_line(described)) if isinstance(described, str) else "",
            content=page.body,
            data=data,
            source=Source(KIND, path),
            relations=relations,
        )

    def _patterns(self, path: str, base: str, given: Sequence[str]) -> list[str]:
        kept: list[str] = []
        for glob in given:
            # In these programs, a glob without a slash matches at any depth.
            pattern = glob if "/" in glob.rstrip("/") else f"**/{glob}"
            try:
                pattern = self.reading.check_pattern(f"{base}/{pattern}" if base else pattern, path)
            except KgdError as error:
                self.troubles.append(Trouble(path, f"the glob '{glob[:60]}' was left out: {error.message}"))
                continue
            if pattern not in kept:
                kept.append(pattern)
        return kept


def without_blocks(text: str) -> str:
    """The text without kgd's blocks; a block without an end marker is kept as the user's text."""
    for begin, end in BLOCKS:
        start = text.find(begin)
        while start >= 0 and (stop := text.find(end, start)) >= 0:
            rest = text[stop + len(end) :].removeprefix("\n")
            text = text[:start].removesuffix("\n") + rest
            start = text.find(begin)
    return text


def page_of(text: str) -> Page:
    """The page of a rule file. Globs are often invalid YAML, so they are quoted first."""
    page = front_matter.read(text)
    if not page.head:
        return page
    mended = _BARE.sub(lambda m: f"{m[1]}: {json.dumps(m[2].rstrip())}", page.head)
    mended = _BARE_ITEM.sub(lambda m: m[1] + json.dumps(m[2].rstrip()), mended)
    read = front_matter.read(mended)
    return Page(page.head, page.body, read.front, read.problem, read.line)


def globs(value: Json) -> list[str]:
    """The globs of a list, or of a comma-separated text; a comma in braces is part of a glob."""
    if isinstance(value, list):
        return [glob for item in value if isinstance(item, str) for glob in globs(item)]
    if not isinstance(value, str):
        return []
    found, depth = [""], 0
    for char in value:
        depth = max(0, depth + (char == "{") - (char == "}"))
        if char == "," and not depth:
            found.append("")
        else:
            found[-1] += char
    return [glob.strip().strip("\"'") for glob in found if glob.strip().strip("\"'")]


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


def _areas(view: View) -> Iterator[Area]:
    """The areas of the view in order. A molecule applies to its atoms' paths, unless it applies to everything."""
    nodes = [node for node in view.nodes() if scheme_of(node.uri) in AREAS]
    members: dict[str, list[str]] = {}
    for node in nodes:
        molecule = node.data.get("moleculeId")
        if isinstance(molecule, str):
            members.setdefault(molecule, []).extend(_paths(node))
    root = build("dir", view.workspace, [])
    for node in nodes:
        always = any(relation.target == root and relation.type == "about" for relation in node.relations)
        globs = tuple(dict.fromkeys(_paths(node) or ([] if always else members.get(node.uri, []))))
        yield Area(node, globs[:MOST_GLOBS] if len(globs) <= MOST_GLOBS else (), always=always and not globs)


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
