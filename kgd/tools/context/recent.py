"""Recent changes: entries in the changelogs of areas, and commits of the code."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NotRequired

from typing_extensions import TypedDict

from kgd.areas import changelog
from kgd.git.discovery import find_place
from kgd.git.history import Touch, Touches, head, touches
from kgd.model.node import cut_at_word
from kgd.model.uri import Uri
from kgd.tools.context.file_paths import uri_at
from kgd.tools.context.findings import AREAS, Findings
from kgd.tools.nodes import moment, overlay_of, printable

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

KEPT = 64
"""Cached answers about the code's history."""
AGAIN = 60.0
"""Seconds before git is asked again for an answer that took too long."""
ENTRIES = 3
"""Entries of each area's changelog."""
AREAS_ASKED = 12
COMMITS_SHOWN = 8
LINE = 200
TOGETHER = 8
TWICE = 2
"""Least number of common commits of a listed file; a single one may be chance."""
WIDE = 40
"""Files of a commit beyond which it does not show which files belong together."""


class ChangeAnswer(TypedDict):
    """`area` for an entry of a changelog; `commit`, `by` and the asked `paths` that it changed for one of the code."""

    at: str
    what: str
    area: NotRequired[str]
    task: NotRequired[str]
    commit: NotRequired[str]
    by: NotRequired[str]
    paths: NotRequired[list[str]]


class TogetherAnswer(TypedDict):
    """In `count` of the `of` newest commits that changed the paths asked about, this one was changed as well."""

    path: str
    count: int
    of: int


@dataclass(frozen=True, slots=True)
class Asked:
    """The paths of a question, for look-ups by file."""

    files: frozenset[str]
    folders: tuple[str, ...]

    @classmethod
    def of(cls, paths: Sequence[str]) -> Asked:
        return cls(frozenset(paths), tuple(path for path in paths if path.endswith("/") or not path))

    def __contains__(self, path: object) -> bool:
        return path in self.files or str(path).startswith(self.folders)


class CodeHistory:
    """A cache of the code's history, by `CodeHistory.of`. Each answer is about one checked-out commit."""

    def __init__(self, workspace: Workspace) -> None:
        root = workspace.layout.code_tree
        self._code, self._lock = find_place(root) if root is not None else None, threading.Lock()
        self._known: OrderedDict[tuple[str, tuple[str, ...]], tuple[Touches, float]] = OrderedDict()

    @classmethod
    def of(cls, workspace: Workspace) -> CodeHistory:
        return workspace.beside(cls, cls)

    def touches(self, paths: Sequence[str]) -> Sequence[Touch]:
        """As `kgd.git.history.touches`, cached per checked-out commit; an incomplete answer expires after `AGAIN`."""
        if self._code is None or not paths or not (at := head(self._code)):
            return ()
        key = (at, tuple(sorted(paths)))
        with self._lock:
            known, when = self._known.get(key, (None, 0.0))
            if known is not None and (known.all or time.monotonic() - when < AGAIN):
                self._known.move_to_end(key)
                return known.found
        asked = touches(self._code, key[1])
        with self._lock:
            self._known[key] = asked, time.monotonic()
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return asked.found


def changes(findings: Findings, found: Sequence[Touch], paths: Sequence[str]) -> list[ChangeAnswer]:
    """Entries of the areas' changelogs, which have the reasons, then the code's commits; each newest first."""
    entries: list[ChangeAnswer] = []
    for area in findings.of_kind(*AREAS)[:AREAS_ASKED]:
        for one in changelog.entries(
            findings.workspace, area.uri, limit=ENTRIES, since=findings.since, until=findings.until
        )[0]:
            answer: ChangeAnswer = {"at": one.created_at, "what": cut_at_word(one.summary, LINE), "area": area.uri}
            if one.task and findings.may_see(Uri(one.task)):
                answer["task"] = one.task
            entries.append(answer)
    entries.sort(key=lambda one: (one["at"], one["area"]), reverse=True)
    asked = Asked.of(paths)
    return [*entries, *(_commit(touch, asked) for touch in found[:COMMITS_SHOWN])]


def together(workspace: Workspace, found: Sequence[Touch], paths: Sequence[str]) -> list[TogetherAnswer]:
    """Files that changed repeatedly in the same commits as the requested paths, most frequent first."""
    asked = Asked.of(paths)
    narrow = [touch for touch in found if len(touch.files) <= WIDE]
    counted = Counter(path for touch in narrow for path in touch.files if path not in asked)
    often = sorted((-count, path) for path, count in counted.items() if count >= TWICE)
    shown = [(path, -count) for count, path in often if _is_there(workspace, path)][:TOGETHER]
    return [{"path": printable(path), "count": count, "of": len(narrow)} for path, count in shown]


def _commit(touch: Touch, asked: Asked) -> ChangeAnswer:
    mine = [path for path in touch.files if path in asked]
    answer: ChangeAnswer = {
        "at": moment(touch.at), "what": cut_at_word(touch.subject, LINE), "commit": touch.commit[:12],
        "by": touch.author, "paths": [printable(path) for path in mine[:3]],
    }  # fmt: skip
    return answer


def _is_there(workspace: Workspace, path: str) -> bool:
    """Whether the file still exists; true if the code tree was not scanned."""
    overlay, uri = overlay_of(workspace), uri_at(workspace, "file", path)
    return uri is not None and (overlay is None or overlay.view.root is None or overlay.card(uri) is not None)
