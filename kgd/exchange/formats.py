"""The registry of exchange formats: names, detection, reading and writing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kgd.errors import Invalid
from kgd.exchange import Export, Plan, Reading, View, drawings, entities, orchestrator, rules, vault


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Args:
        name: Its name for `--from` and `--to`.
        title: A short title for lists.
        shape: Whether an export is one file or a folder.
        sniff: Whether a source looks like this format, judged by names and a few bytes.
        read: Returns the plan in a source; raises KgdError only if nothing can be read.
        write: Returns the files of an export.
        own: Whether a file was written by this format, so that an export may replace it.
        most: Largest number of nodes in an export.
    """

    name: str
    title: str
    shape: Literal["file", "folder"]
    sniff: Callable[[Path], bool] = lambda path: False
    read: Callable[[Path, Reading], Plan] | None = None
    write: Callable[[View], Export] | None = None
    own: Callable[[bytes], bool] = lambda data: False
    most: int = 200_000


FORMATS: tuple[Format, ...] = (
    Format(
        "orchestrator",
        "an .orchestrator/ folder: knowledge graph, memories, journal, state",
        "folder",
        orchestrator.sniff,
        orchestrator.read,
        orchestrator.write,
    ),
    Format(
        "rules",
        "rule files of coding agents: CLAUDE.md, AGENTS.md, .cursor/rules, .claude/rules, .github/instructions",
        "folder",
        rules.sniff,
        rules.read,
        rules.write_back,
    ),
    *(
        Format(name, f"every area as a rule file of {one.name.title()}", "folder", write=rules.for_program(name))
        for name, one in rules.PROGRAMS.items()
    ),
    Format("agents-md", "every area in a block of AGENTS.md", "folder", write=rules.agents_md),
    Format("vault", "a folder of Markdown notes, such as Obsidian's", "folder", vault.sniff, vault.read, vault.write),
    Format(
        entities.NAME,
        "the memory.jsonl of the official memory server",
        "file",
        entities.sniff,
        entities.read,
        entities.write,
    ),
    Format(
        "graphml", "GraphML, for graph viewers", "file", write=drawings.graphml, own=drawings.is_graphml, most=50_000
    ),
    Format(
        "mermaid",
        "a Mermaid flowchart",
        "file",
        write=drawings.mermaid,
        own=drawings.is_mermaid,
        most=drawings.MOST_NODES,
    ),
)
"""Formats in the order of detection."""


def named(name: str, at: str, does: Literal["read", "write"]) -> Format:
    """The format of this name, if it can be read or written.

    Raises:
        Invalid: There is no such format.
    """
    able = {one.name: one for one in FORMATS if getattr(one, does) is not None}
    if name in able:
        return able[name]
    raise Invalid(f"unknown format '{name[:40]}'", at=at, next=f"Known: {', '.join(able)}.")


def passed_by(path: Path, chosen: Format) -> str:
    """A folder in the source that the chosen format skips because the folder belongs to another format; empty if there
    is no such folder."""
    return orchestrator.FOLDER if chosen.name != "orchestrator" and orchestrator.within(path) else ""


def sniffed(path: Path) -> Format:
    """The format that a source looks like.

    Raises:
        Invalid: No format matches.
    """
    for one in FORMATS:
        if one.name == "vault" and orchestrator.within(path):
            return named("orchestrator", "source", "read")  # a project's README alone does not make it a vault
        if one.read is not None and one.sniff(path):
            return one
    names = ", ".join(one.name for one in FORMATS if one.read is not None)
    raise Invalid(f"'{path.name[:60]}' is not in a known format", at="source", next=f"Use --from with one of: {names}.")
