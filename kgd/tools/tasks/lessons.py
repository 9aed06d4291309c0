"""Knowledge from completed tasks: nodes for their patterns and gotchas, and tags for the task (M5)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgd.areas.paths import normalise
from kgd.memories.keywords import keywords
from kgd.memories.new_memory import first_words, memory
from kgd.memories.tasks import ITEMS_LIMIT, Task, read_paths
from kgd.model.change import Upsert
from kgd.model.node import Json, Node, Relation, Source, cut_at_word
from kgd.model.uri import Uri, build, path_of, scheme_of, segments_of, uri_at

if TYPE_CHECKING:
    from kgd.tools.visibility import Sees
    from kgd.workspace.workspace import Workspace

CONNECTED_TO, ABOUT = "connected_to", "about"
ABOUT_COST = 0.5
FEW = 5
"""Largest number of files that an item is about; more files would describe the task, not the item."""
PATHS_LOOKED_AT = 50
_LEADING_PATH = re.compile(r"\s*`?[^\s`]*[/.][^\s`]*`?:\s+(?=\S)")
"""A leading path such as ``src/main.py: ``, which is left out of names."""
KINDS = (("pattern", "patterns"), ("gotcha", "gotchas"))
"""Node type, and the field of `Task` that has the items."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The edits of a completion, apart from the task's own. `new` nodes are created; `known` nodes are only linked."""

    edits: tuple[Upsert, ...]
    new: tuple[Uri, ...]
    known: tuple[Uri, ...]
    warnings: tuple[str, ...]


def learned(workspace: Workspace, task: Task, sees: Sees | None = None) -> Recorded:
    """One node for each pattern and gotcha, linked to the task. Known facts are only linked.

    A node's URI contains a digest of its text, so that repeated completions of a task, even in two clones, name the
    same nodes. The node is in the namespace of the task, so that the same write permission applies.
    """
    edits, new, known, warnings = [], [], [], []
    for type, field in KINDS:
        texts: tuple[str, ...] = getattr(task, field)
        if len(texts) > ITEMS_LIMIT:
            warnings.append(f"only {ITEMS_LIMIT} of {len(texts)} {field} were recorded: write one item per line")
        for text in texts[:ITEMS_LIMIT]:
            uri, there = _place(workspace, task, type, text, sees)
            connection = Relation(CONNECTED_TO, task.uri)
            if there is None:
                edits.append(_made(workspace, uri, type, text, task, sees))
                new.append(uri)
            else:
                known.append(uri)
                if there.relation(CONNECTED_TO, task.uri) is None:
                    edits.append(Upsert(uri, relations=(connection,)))
    return Recorded(tuple(edits), tuple(new), tuple(known), tuple(warnings))


def own_tags(task: Task) -> tuple[str, ...]:
    """Keywords of the objective and of the notes that the task hands over."""
    return keywords(f"{task.objective}\n\n{task.notes}")


def own_summary(task: Task) -> str:
    """A summary for a task without one: the first line of its notes or, without notes, of its objective, cut to one
    line."""
    return cut_at_word(
        next(
            (
                line
                for text in (task.notes, task.objective)
                for line in text.splitlines()
                if any(map(str.isalnum, line))
            ),
            task.name,
        )
    )


def about_files(workspace: Workspace, paths: Sequence[str], sees: Sees | None = None) -> list[Uri]:
    """The files and directories of the code tree for these paths; missing files are left out.

    Files that the caller may not see (`sees`) are left out too: a relation would reveal that they exist.
    """
    found = []
    for path in paths[:PATHS_LOOKED_AT]:
        place = normalise(path, workspace.layout.code_tree, workspace=workspace.id)
        for scheme in ("file", "dir") if place else ():
            uri = uri_at(scheme, workspace.id, place or "")
            if uri is not None and (sees is None or sees(uri)) and workspace.in_overlay(uri):
                found.append(uri)
                break
    return list(dict.fromkeys(found))


def _made(workspace: Workspace, uri: Uri, type: str, text: str, task: Task, sees: Sees | None) -> Upsert:
    """The node of one item. The node is about the files that the item names, and cites them, so that it becomes stale
    when they change. An item without files is about the files of its task, if these are few.
    """
    named = about_files(workspace, read_paths(text), sees)
    about = named or about_files(workspace, task.files, sees)
    relations = [Relation(CONNECTED_TO, task.uri)]
    if len(about) <= FEW:
        relations += [Relation(ABOUT, one, ABOUT_COST) for one in about]
    cites: list[Json] = [path_of(one) for one in named if scheme_of(one) == "file"]
    made = memory(uri, type, text, relations=relations)
    return replace(made, data={"cites": cites} if cites else {}, source=Source("task", task.uri))


def _place(workspace: Workspace, task: Task, type: str, text: str, sees: Sees | None) -> tuple[Uri, Node | None]:
    """The URI of a fact, and its node if it exists, whether a task recorded it or a user wrote the same text."""
    folder, name = segments_of(task.uri)[:-1], first_words(_LEADING_PATH.sub("", text))
    digest = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:8]
    uri = workspace.graph.resolve(build(type, workspace.id, [*folder, f"{name}-{digest}".encode()]))
    if (node := workspace.node(uri)) is not None:
        return uri, node
    remembered = workspace.graph.resolve(build(type, workspace.id, [name.encode()]))
    node = workspace.node(remembered) if sees is None or sees(remembered) else None
    if node is not None and text.split() in (node.content.split(), node.summary.split()):
        return remembered, node
    return uri, None
