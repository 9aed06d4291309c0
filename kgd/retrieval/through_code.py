"""Notes found through the code that they are about, if the question shares no words with them.

For example, a note says "debounce", a user asks about keystrokes, and the comments in the code have both words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from kgd.index.code_index import FileHit
from kgd.model.lane import KNOWLEDGE, Lane
from kgd.model.uri import Uri
from kgd.retrieval.candidates import Pool, filters_of, normalise
from kgd.retrieval.paths import is_aside
from kgd.retrieval.query import Step
from kgd.retrieval.spreading import Surroundings

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

About = Callable[[Sequence[Uri]], Mapping[Uri, Sequence[Uri]]]
"""Returns the notes about files."""

FILES = 5
"""Number of best files whose notes are considered."""
COVERED = 0.5
"""Least share of the query's weight in such a file."""
PASSED = 0.5
"""Share of a file's score that its notes get, divided by the square root of their number."""
ABOUT = "about"


def add(pool: Pool, workspace: Workspace, about: Mapping[Uri, Sequence[Uri]], around: Surroundings) -> None:
    """Add the notes about the best files to the pool, and raise the scores of notes already in it.

    `about` has the notes about at least the `FILES` best files.
    """
    if Lane.NOTES not in pool.question.lanes:
        return
    best = [
        (file, one) for file, one in islice(pool.files.items(), FILES) if one.covered >= COVERED and not is_aside(file)
    ]
    if not best:
        return
    found: dict[Uri, tuple[float, Uri]] = {}
    for file, one in best:
        notes = about.get(file, ())
        gained = _gained(one, best[0][1], len(notes))
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
