"""Disk space of derived data: the files below `.git/kgd`, and their tables.

Measured after the daemon has indexed all texts, embedded them and searched them for names.
`python -m bench.disk [nodes]` also prints the bytes of each table and index.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import corpus
from bench.house import House
from bench.row import Row, compare, line, value
from kgd.index.database import LOG_KEPT

MB = 1e6
SMALL = 10_000
"""Files with fewer bytes are not listed."""
TARGET_MB = {10_000: 9.3}
"""A third of the derived data that version b3bbd519 keeps for the same nodes, 27.8 MB."""


def rows(nodes: int, folder: Path) -> Iterator[Row]:
    """A new workspace of this size, opened for the first time."""
    made = corpus.build(folder / "made", nodes)
    derived = made.layout.git_dir / "kgd"
    with House(folder / "home") as house:
        house.up(made)
        house.settle()
        most = sum(files(derived).values())
        wait_until_idle(derived)
        running = sum(files(derived).values())
    sizes = files(derived)
    whole = sum(sizes.values())
    yield value("derived data on disk", "mb", whole / MB, TARGET_MB.get(nodes), nodes=nodes)
    objects = sum(files(made.layout.git_dir / "objects").values())
    yield compare("derived data on disk", "git's objects", "mb", whole / MB, objects / MB, None, nodes=nodes)
    yield value("derived data on disk, right after the first indexing", "mb", most / MB, nodes=nodes)
    yield value("derived data on disk, while the daemon is idle", "mb", running / MB, nodes=nodes)
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        if size > SMALL:
            yield value(f"derived data on disk: {name}", "mb", size / MB, nodes=nodes)


def wait_until_idle(folder: Path) -> None:
    """Wait until the write-ahead logs are emptied, which takes some idle seconds; at most half a minute."""
    deadline = time.monotonic() + 30
    while max(path.stat().st_size for path in folder.glob("*-wal")) > LOG_KEPT and time.monotonic() < deadline:
        time.sleep(0.5)


def files(folder: Path) -> dict[str, int]:
    """Bytes of each file below a folder."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_size for path in found}


def tables(file: Path) -> list[tuple[str, int]]:
    """Bytes of each table and index of a SQLite file, largest first; at the end, unused pages and the list of pages.

    Raises:
        sqlite3.OperationalError: SQLite was built without its `dbstat` table.
    """
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
    try:
        sql = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC, 1"
        found = [(name, size) for name, size in connection.execute(sql)]
        return [*found, ("other pages", file.stat().st_size - sum(size for _, size in found))]
    finally:
        connection.close()


def main(nodes: int) -> None:
    with tempfile.TemporaryDirectory(prefix="kgd-disk-") as name:
        folder = Path(name)
        for row in rows(nodes, folder):
            print(line(row), flush=True)
        for file in sorted((folder / "made/.git/kgd").glob("*.sqlite")):
            print(f"\n{file.name}")
            for table, size in tables(file):
                print(f"  {size / nodes:10.1f} B per node  {table}")


if __name__ == "__main__":
    options = argparse.ArgumentParser(prog="python -m bench.disk", description="Bytes of each file and table.")
    options.add_argument("nodes", type=int, nargs="?", default=10_000, help="size of the workspace (default: 10000)")
    main(options.parse_args().nodes)
