"""This file is where the formats are listed: their names, how each is recognised, read and written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kgd.errors import Invalid
from kgd.exchange import (
    graphml,
    jsonl,
    mermaid,
    orchestrator,
    orchestrator_writing,
    rules,
    rules_writing,
    vault,
    vault_writing,
)
from kgd.exchange.plan import Plan, Reading, Written
from kgd.exchange.view import View


def _never(path: Path) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Args:
        name: What `--from` and `--to` call it.
        title: In a few words, for lists.
        shape: Whether an export is one file or a folder of them.
        sniff: Whether a source looks like it; looks at names and a few bytes.
        read: The plan in a source; raises KgdError only where nothing of it can be read.
        write: The files of an export.
        own: Whether the bytes of a file were written by this format, so that an export may replace them.
        most: How many nodes an export holds at most.
    """

    name: str
    title: str
    shape: Literal["file", "folder"]
    sniff: Callable[[Path], bool] = _never
    read: Callable[[Path, Reading], Plan] | None = None
    write: Callable[[View], Written] | None = None
    own: Callable[[bytes], bool] = lambda data: False
    most: int = 200_000


FORMATS: tuple[Format, ...] = (
    Format(
        "orchestrator",
        "an .orchestrator/ folder: knowledge graph, memories, journal, state",
        "folder",
        orchestrator.sniff,
        orchestrator.read,
        orchestrator_writing.write,
    ),
    Format(
        "rules",
        "rule files of coding agents: CLAUDE.md, AGENTS.md, .cursor/rules, .claude/rules, .github/instructions",
        "folder",
        rules.sniff,
        rules.read,
        rules_writing.write_back,
    ),
    *(
        Format(
            name, f"every area as a rule file of {one.name.title()}", "folder", write=rules_writing.for_program(name)
        )
        for name, one in rules_writing.PROGRAMS.items()
    ),
    Format("agents-md", "every area in a block of AGENTS.md", "folder", write=rules_writing.agents_md),
    Format(
        "vault",
        "a folder of Markdown notes, such as Obsidian's",
        "folder",
        vault.sniff,
        vault.read,
        vault_writing.write,
    ),
    Format(
        jsonl.NAME,
        "the memory.jsonl of the official memory server",
        "file",
        jsonl.sniff,
        jsonl.read,
        jsonl.write,
    ),
    Format("graphml", "GraphML, for graph viewers", "file", write=graphml.write, own=graphml.own, most=50_000),
    Format("mermaid", "a Mermaid flowchart", "file", write=mermaid.write, own=mermaid.own, most=mermaid.MOST_NODES),
)
"""In the order in which they are asked whether a source looks like them."""


def named(name: str, at: str, does: Literal["read", "write"]) -> Format:
    """The format of that name which can be read or written.

    Raises:
        Invalid: There is none.
    """
    able = [one for one in FORMATS if getattr(one, does) is not None]
    for one in able:
        if one.name == name:
            return one
    raise Invalid(
        f"there is no format '{name[:40]}' here", at=at, next=f"Known: {', '.join(one.name for one in able)}."
    )


def passed_by(path: Path, chosen: Format) -> str:
    """A folder in the source that another format would read, which the chosen one does not look into; or nothing."""
    return orchestrator.FOLDER if chosen.name != "orchestrator" and orchestrator.within(path) else ""


def sniffed(path: Path) -> Format:
    """The format that a source looks like.

    Raises:
        Invalid: None of them.
    """
    for one in FORMATS:
        if one.name == "vault" and orchestrator.within(path):
            return named("orchestrator", "source", "read")  # a project's README alone makes no vault of it
        if one.read is not None and one.sniff(path):
            return one
    names = ", ".join(one.name for one in FORMATS if one.read is not None)
    raise Invalid(
        f"'{path.name[:60]}' looks like nothing that can be imported", at="source", next=f"Say --from: {names}."
    )
