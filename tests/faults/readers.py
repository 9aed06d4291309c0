"""Reading children: open a workspace and report its contents. Forked by the nursery, with a deadline.

libgit2 may hang on a damaged object while it holds the interpreter's lock, so the test itself does not read.
"""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kgd.errors import KgdError
from kgd.git.layout import locate
from kgd.model.change import Append
from kgd.workspace.check import check
from kgd.workspace.workspace import Workspace
from tests.builders import change, uri


def look(line: Connection, place: str, words: list[str]) -> None:
    """Send every answer of the workspace, with refusals as text; then write one change and close."""
    began, seen = time.monotonic(), dict[str, Any]()
    try:
        layout = locate(Path(place))
        if layout is None:
            line.send({"refused": "there is no workspace"})
            return
        ws = Workspace.open(layout, publish=False)
    except KgdError as error:
        line.send({"refused": f"{error.code} {error}"})
        return
    except Exception as defect:  # noqa: BLE001  a refusal has to be a KgdError
        line.send({"defect": repr(defect)})
        return
    try:
        seen = answers(ws, words)
        again = change(Append(uri("log/7"), "once more"), request="request-of-7")
        seen["repeated"] = said(lambda: ws.submit(again).repeated)
        seen["check"] = [str(finding) for finding in check(ws)]
        seen["written"] = said(lambda: ws.submit(change(Append(uri("log/written"), "after the damage"))).commit)
        seen["degraded"] = list(ws.degraded())
        ws.close()
    except Exception as defect:  # noqa: BLE001
        seen["defect"] = repr(defect)
    seen["seconds"] = time.monotonic() - began
    line.send(seen)


def answers(ws: Workspace, words: list[str]) -> dict[str, Any]:
    """Nodes, versions, relations, searches, broken links and history: equal after any rebuild."""
    uris = sorted(ws.graph.uris())
    return {
        "nodes": {one: said(lambda one=one: ws.node(one)) for one in uris},
        "versions": {one: said(lambda one=one: ws.node_version(one)) for one in uris},
        "edges": {one: [tuple(edge) for edge in (*ws.graph.out(one), *ws.graph.into(one))] for one in uris},
        "aliases": {one: ws.graph.aliases(one) for one in uris},
        "broken": [tuple(link) for link in ws.broken_links()],
        "found": {
            word: said(lambda word=word: sorted(hit.uri for hit in ws.text().search(word, limit=50))) for word in words
        },
        "history": said(lambda: [entry.commit for entry in ws.history.entries(limit=200)]),
        "invalid": [(file.path, file.reason) for file in ws.invalid_files()],
        "tip": ws.tip,
    }


def said(question: Any) -> Any:
    try:
        return question()
    except KgdError as error:
        return f"{error.code} {error}"
