"""Problems of the home that both `status` and `doctor` report."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from kgd.daemon.daemon import Daemon
from kgd.errors import KgdError, Unavailable
from kgd.git.discovery import check_configuration


class HomeProblem(NamedTuple):
    """`name` is the part with the problem, `next` the remedy."""

    name: str
    detail: str
    next: str


def found(daemon: Daemon, only: str = "") -> Iterator[HomeProblem]:
    """An unrelated package with the same import name, and registered paths without a workspace that kgd can read: all
    of them, or the path of the workspace `only`."""
    try:
        other = metadata.version("kgd")
    except metadata.PackageNotFoundError:
        pass
    else:
        yield HomeProblem(
            "program",
            f"another package, kgd {other}, is installed over kgd-daemon",
            "Run `pip uninstall kgd`, then install kgd-daemon again: both use the import name kgd.",
        )
    for id, entry in sorted(daemon.registry.current().entries.items()):
        try:
            if entry.path and only in ("", id):
                layout = daemon.places.layout(entry)
                check_configuration(layout.git_dir, layout.work_tree)
        except (KgdError, OSError) as error:
            told = error if isinstance(error, KgdError) else Unavailable(str(error.strerror), at=entry.path)
            yield HomeProblem(id, f"{told.message}: {told.at}", told.next)
