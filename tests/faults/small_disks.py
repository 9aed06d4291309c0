"""A program in its own mount namespace: writes until a small disk is full, for many sizes.

Prints one JSON object: the counts and complaints of `tests.faults.audit.Findings`. The diaries are on another disk, so
that they stay complete.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from kgd.errors import KgdError, Unavailable
from kgd.git.layout import Layout
from kgd.workspace.workspace import Workspace
from tests.builders import change, new_layout, upsert, uri
from tests.faults.audit import Findings, audit
from tests.faults.scribes import Diary, write_until_refused
from tests.workspace.people import code_layout

SMALLEST, STEP = 700, 20
"""KiB. Below that not even the repository and its derived files fit."""


def main() -> None:
    place, diaries = Path(sys.argv[1]), Path(sys.argv[2])
    total, sizes = Findings(), list(map(int, sys.argv[3:]))
    for number in sizes:
        mount(place, f"size={SMALLEST + STEP * number}k")
        try:
            found = fill(place, diaries / f"{number}.diary", number)
            found.complaints = [f"size {number}: {complaint}" for complaint in found.complaints]
        except Exception as error:  # noqa: BLE001  named with its size
            found = Findings(complaints=[f"size {number}: {error!r}"])
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)
        total.add(found)
    print(json.dumps(asdict(total)))


def mount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)


def fill(place: Path, diary: Path, number: int) -> Findings:
    publish = number % 2 == 1
    layout = code_layout(place / "code") if publish else new_layout(place / "knowledge")
    ws = Workspace.open(layout, publish=publish)
    try:
        ws.submit(change(upsert("known", name="known")))
        diary.unlink(missing_ok=True)
        notes = Diary(diary)
        write_until_refused(ws, notes, number, threads=3, refusals=6, count=120)
        wrong = full(ws)
        if number % 3 == 0:
            wrong += restarted(ws, layout, publish)
        mount(place, "remount,size=32m")
        if number % 3 == 0:
            ws = Workspace.open(layout, publish=publish)
        for again in range(3):  # without a restart, as soon as there is space
            if not ws.submit(change(upsert("known", summary=f"{again}"))).commit:
                wrong.append("space again, and still nothing is written")
    finally:
        ws.close()  # otherwise it would continue on the disk mounted there next
    found = audit(layout, diary, publish=publish)
    found.complaints += wrong
    return found


def full(ws: Workspace) -> list[str]:
    """Reads continue while the disk is full."""
    node = ws.node(uri("known"))
    wrong = [] if node and node.name == "known" else [f"the node reads as {node}"]
    if not ws.graph.uris() or ws.node_version(uri("known")) is None:
        wrong.append("graph or version cannot be asked")
    return wrong


def restarted(ws: Workspace, layout: Layout, publish: bool) -> list[str]:
    """Stop and start on the full disk: it serves, or reports one clear error."""
    ws.close()
    try:
        again = Workspace.open(layout, publish=publish)
    except Unavailable:
        return []
    try:
        return full(again)
    except KgdError as error:
        return [f"cannot be read on a full disk: {error}"]
    finally:
        again.close()


if __name__ == "__main__":
    main()
