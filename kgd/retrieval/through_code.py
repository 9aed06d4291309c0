"""Notes found through the code that they are about, for a question in other words than theirs.

A team writes "debounce", a user asks about keystrokes, and the code's own comments have both words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kgd.index.code_index import FileHit
from kgd.model.lane import KNOWLEDGE, Lane
from kgd.model.uri import Uri, from_path
from kgd.retrieval.candidates import Pool, filters_of, normalise
from kgd.retrieval.paths import is_aside
from kgd.retrieval.query import Step
from kgd.retrieval.spreading import Surroundings

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

About = Callable[[Sequence[Uri]], Mapping[Uri, Sequence[Uri]]]

FILES = 5
"""Best files whose notes are looked at."""
COVERED = 0.5
"""Share of the query's weight that a file needs."""
PASSED = 0.5
"""Part of a file's score that its notes get; a file with several notes divides it by their number's root."""
ABOUT = "about"


def add(pool: Pool, workspace: Workspace, about: About, around: Surroundings) -> None:
    """Add the notes about the best files to the pool, and raise the scores of notes already in it."""
    if Lane.NOTES not in pool.question.lanes:
        return
    best = [one for one in pool.files[:FILES] if one.covered >= COVERED and not is_aside(f"x://w/{one.path}")]
    if not best:
        return
    files = {from_path("file", workspace.id, one.path): one for one in best}
    found: dict[Uri, tuple[float, Uri]] = {}
    for file, notes in about(list(files)).items():
        gained = _gained(files[file], best[0], len(notes))
        for note in notes:
            if gained > found.get(note, (0.0, file))[0]:
                found[note] = gained, file
    texts = workspace.text().passing(list(found), **{**filters_of(pool.question), "lanes": KNOWLEDGE})
    units = {text.uri: pool.take(text) for text in texts}
    if pool.share:
        around.measure(units.values())
    for uri, unit in units.items():
        unit.through, file = found[uri]
        unit.score += PASSED * unit.through
        if not unit.steps and not unit.covered and pool.speaks_of(unit):  # else the file alone would make it a hit
            unit.steps = (Step(uri, ABOUT, file, True),)
    normalise(pool)


def _gained(file: FileHit, best: FileHit, notes: int) -> float:
    return file.covered * file.score / best.score / max(1, notes) ** 0.5 if best.score > 0 else 0.0
