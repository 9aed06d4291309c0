"""Moving a work tree from one commit to another, all or nothing.

git writes the index last. Until then a file in the git directory names the new files, so that the next start of kgd can
undo a move that was interrupted. Without it, files that are missing would look as if a person had deleted them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from kgd.errors import Unavailable
from kgd.git import program
from kgd.git.files import replace
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId, raw, text

MARK = "kgd-checkout"


def run(layout: Layout, *arguments: str) -> bytes:
    """Run git in the work tree.

    Raises:
        Unavailable: git failed.
    """
    try:
        return program.run(layout.git_dir, [f"--work-tree={layout.work_tree}", *arguments], cwd=layout.work_tree)
    except program.GitFailed as error:
        raise Unavailable(f"git cannot use the work tree: {error.said}", at=str(layout.work_tree)) from error


def move(layout: Layout, before: ObjectId, after: ObjectId, added: Iterable[str]) -> None:
    """Move index and work tree, which must match `before`. If that fails, both stay as they were.

    Args:
        added: The paths of files that only `after` has.

    Raises:
        Unavailable: git failed; the disk may be full.
        OSError: The disk is full, read-only or broken.
    """
    replace(layout.git_dir / MARK, b"\0".join(map(raw, added)))
    try:
        run(layout, "update-index", "-q", "--refresh")
        run(layout, "read-tree", "-m", "-u", before.hex(), after.hex())
    except Unavailable:
        with contextlib.suppress(Unavailable, OSError):  # the next start repeats it
            settle(layout)
        raise
    (layout.git_dir / MARK).unlink()


def settle(layout: Layout) -> None:
    """After an interrupted move, restore all files from the branch; otherwise do nothing.

    Edits of these files since the interruption are lost.

    Raises:
        Unavailable: git failed.
        OSError: The disk is full, read-only or broken.
    """
    mark = layout.git_dir / MARK
    if not mark.exists():
        return
    (layout.git_dir / "index.lock").unlink(missing_ok=True)
    for path in filter(None, mark.read_bytes().split(b"\0")):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(layout.work_tree / text(path))
    run(layout, "read-tree", "--reset", layout.branch)  # git may have finished after kgd was killed
    run(layout, "checkout-index", "--all", "--force", "--quiet")
    mark.unlink()
