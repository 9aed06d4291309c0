"""A program in its own mount namespace: the disk turns read-only under an open workspace.

Prints its observations as one JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kgd.errors import KgdError
from kgd.git.layout import Layout
from kgd.workspace.workspace import Workspace
from tests.builders import change, new_layout, upsert, uri
from tests.faults.small_disks import mount


def main() -> None:
    place, seen = Path(sys.argv[1]), dict[str, object]()
    mount(place, "size=32m")
    try:
        layout = new_layout(place / "knowledge")
        ws = Workspace.open(layout, publish=False)
        ws.submit(change(upsert("known", name="known")))
        freeze(layout.git_dir / "objects", layout.git_dir / "refs")
        seen["refused"] = refusal(lambda: ws.submit(change(upsert("new", name="new"), request="r")))
        seen["again"] = refusal(lambda: ws.submit(change(upsert("new", name="new"), request="r")))
        seen["reads"] = [getattr(ws.node(uri("known")), "name", None), getattr(ws.node(uri("new")), "name", None)]
        seen["status"] = ws.degraded()
        ws.close()
        mount(place, "remount,ro")
        seen["opening"] = opening(layout)
        mount(place, "remount,rw")
        thaw(layout.git_dir / "objects", layout.git_dir / "refs")
        ws = Workspace.open(layout, publish=False)
        seen["later"] = [bool(ws.submit(change(upsert("new", name="new"), request="r")).commit), ws.degraded()]
        ws.close()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
    print(json.dumps(seen))


def freeze(*folders: Path) -> None:
    """Read-only one by one: a whole file system with files open for writing turns read-only only when it breaks."""
    for folder in folders:
        subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)


def thaw(*folders: Path) -> None:
    for folder in folders:
        subprocess.run(["umount", str(folder)], check=True)


def refusal(job: object) -> str:
    try:
        job()  # type: ignore[operator]
    except KgdError as error:
        return f"{error.code} {error}"
    return "none"


def opening(layout: Layout) -> str:
    """Start on the read-only disk: it serves, or reports one clear error."""
    try:
        ws = Workspace.open(layout, publish=False)
    except KgdError as error:
        return f"{error.code} {error}"
    try:
        written = refusal(lambda: ws.submit(change(upsert("new", name="new"))))
        return f"serves {getattr(ws.node(uri('known')), 'name', None)}; {written}; {ws.degraded()}"
    finally:
        ws.close()


if __name__ == "__main__":
    main()
