"""An unreadable tip: the error says what to do, and doing it works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.errors import Damaged
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert, uri


def git(place: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(place), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(params=["commit", "tree", "folder"])
def damaged(request: pytest.FixtureRequest, reopen: Callable[[], Workspace], tmp_path: Path) -> tuple[Path, Path]:
    """A workspace whose newest change has lost an object, and an intact copy of it."""
    ws = reopen()
    for number in range(3):
        ws.submit(change(upsert(f"notes/{number}", name=f"Note {number}")))
    ws.close()
    place, copy = ws.layout.git_dir, tmp_path / "copy.git"
    packs = place / "objects" / "pack"
    packed = [shutil.move(file, tmp_path / file.name) for file in packs.iterdir()]
    for file in packed:
        if str(file).endswith(".pack"):
            with open(file, "rb") as stream:
                subprocess.run(["git", "-C", str(place), "unpack-objects", "-q"], stdin=stream, check=True)
    shutil.copytree(place, copy)
    git(copy, "update-ref", ws.layout.branch, ws.tip)  # as publication leaves it
    what = {"commit": ws.tip, "tree": f"{ws.tip}^{{tree}}", "folder": f"{ws.tip}:nodes/concept/notes"}
    lost = git(place, "rev-parse", what[request.param])
    os.unlink(place / "objects" / lost[:2] / lost[2:])
    for file in ws.layout.derived_dir.glob("*.snapshot"):
        file.unlink()
    return place, copy


def test_a_copy_brings_the_newest_change_back(damaged: tuple[Path, Path], reopen: Callable[[], Workspace]) -> None:
    place, copy = damaged
    with pytest.raises(Damaged) as refused:
        reopen()
    assert str(place) in refused.value.next
    command = re.search(r"`git (fetch --refetch COPY \S+)`", refused.value.next)
    assert command, refused.value.next
    git(place, *command[1].replace("COPY", str(copy)).split())
    assert reopen().exists(uri("notes/2"))


def test_without_a_copy_one_command_returns_to_the_newest_intact_change(
    damaged: tuple[Path, Path], reopen: Callable[[], Workspace]
) -> None:
    place, _ = damaged
    with pytest.raises(Damaged) as refused:
        reopen()
    command = re.search(r"`git (update-ref refs/kgd/head [0-9a-f]{40})`", refused.value.next)
    assert command, refused.value.next
    git(place, *command[1].split())
    ws = reopen()
    assert [ws.exists(uri(f"notes/{number}")) for number in range(3)] == [True, True, False]
    ws.submit(change(upsert("notes/3", name="Note 3")))
    assert ws.exists(uri("notes/3"))
