"""The program of `make bench`: every row of docs/performance.md, printed when measured, and written as JSON.

Sections run one at a time, since each needs the whole machine. A row whose requirements are missing counts as not
measured. A section that fails or takes too long is named at the end, and the exit code is 1; the other sections are
still measured. The JSON is written after each section, so that a killed run keeps its results.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from bench import (
    MEMORY_SERVER,
    PYTHON_PEERS,
    RESULTS,
    across,
    areas,
    bootstrap,
    bulk,
    client,
    commits,
    corpus,
    disk,
    hub,
    ingesting,
    knowing,
    languages,
    long_history,
    machine,
    mcp_calls,
    meaning,
    memory_server,
    merge,
    pages,
    scale,
    scaling,
    search,
    starting,
    sync,
    traverse,
)
from bench.corpus import Made
from bench.limit import at_most
from bench.peers import measuring as peers
from bench.row import Row, line, table, verdict

log = logging.getLogger("bench")

ROOT = Path(__file__).resolve().parent.parent
SIZES = (1_000, 10_000, 100_000)
MIDDLE = 10_000
"""The size for rows that depend little on it."""
SECTION_SECONDS = 240.0
LONGER = {
    "starts": 360.0,
    "calls": 480.0,
    "memory": 600.0,
    "pages": 900.0,
    "histories": 600.0,
    "trees": 600.0,
    "peers": 7200.0,
}
"""Seconds after which a section is stopped, with exceptions by name: far more than it takes on two quiet cores. In
proportion more above 100,000 nodes."""


class Run:
    """One run in one folder; workspaces are created on first use."""

    def __init__(self, folder: Path, sizes: Sequence[int], corpora: Path | None = None) -> None:
        self.folder, self.sizes, self._corpora = folder, sizes, corpora or folder
        self.middle = min(MIDDLE, max(sizes))
        self._made: dict[int, Made] = {}

    def made(self, nodes: int) -> Made:
        if nodes not in self._made:
            self._made[nodes] = corpus.kept(self._corpora / f"{nodes}", nodes)
        return self._made[nodes]

    def starts(self) -> Iterator[Row]:
        """Runs first: an unopened workspace has no derived files."""
        yield from starting.without_cache(self.made(self.middle).layout.git_dir, self.middle)
        largest = max(self.sizes)
        copied = self.folder / "start"
        shutil.copytree(self.made(largest).layout.git_dir, copied / ".git")
        yield from starting.with_cache(copied / ".git", largest)
        shutil.rmtree(copied)

    def calls(self) -> Iterator[Row]:
        server = MEMORY_SERVER if MEMORY_SERVER.exists() else None
        yield from mcp_calls.rows([self.made(nodes) for nodes in self.sizes], self.folder, server)

    def scale(self) -> Iterator[Row]:
        yield from scale.rows(self.made(max(self.sizes)), self.folder / "scale")

    def memory(self) -> Iterator[Row]:
        yield from memory_server.rows(self.sizes, self.folder, MEMORY_SERVER if MEMORY_SERVER.exists() else None)

    def restarts(self) -> Iterator[Row]:
        for nodes in sorted({self.middle, max(self.sizes)}):
            yield starting.restart(self.folder / f"restart-{nodes}", self.made(nodes))

    def writes(self) -> Iterator[Row]:
        yield from commits.rows(self.made(self.middle), self.folder)

    def walks(self) -> Iterator[Row]:
        yield from traverse.rows(max(self.sizes))

    def searches(self) -> Iterator[Row]:
        yield from search.rows(max(self.sizes))

    def languages(self) -> Iterator[Row]:
        yield from languages.rows(self.folder / "languages")

    def clients(self) -> Iterator[Row]:
        yield from client.rows(self.made(self.middle), self.folder / "client")
        yield from client.load(self.made(self.middle), self.folder / "load")

    def trees(self) -> Iterator[Row]:
        yield from bootstrap.rows()
        yield from bootstrap.growth(self.folder / "trees")

    def merges(self) -> Iterator[Row]:
        yield from merge.rows(self.made(self.middle))

    def parts(self) -> Iterator[Row]:
        yield from bulk.rows(self.folder / "parts")

    def sharing(self) -> Iterator[Row]:
        yield from sync.rows(self.made(self.middle), self.folder / "sharing")

    def hubs(self) -> Iterator[Row]:
        yield from hub.rows(self.made(self.middle), self.folder / "hubs")
        yield from hub.one_node(self.made(self.middle), self.folder / "through")

    def crossing(self) -> Iterator[Row]:
        yield from across.rows(self.folder / "across")

    def knowing(self) -> Iterator[Row]:
        yield from knowing.rows(self.folder / "knowing")

    def histories(self) -> Iterator[Row]:
        yield from areas.rows(self.folder / "histories")
        yield from long_history.rows(self.folder / "long")

    def meanings(self) -> Iterator[Row]:
        yield from meaning.rows([self.made(nodes) for nodes in self.sizes[1:] or self.sizes], self.folder / "meaning")

    def disk(self) -> Iterator[Row]:
        yield from disk.rows(self.middle, self.folder / "disk")

    def documents(self) -> Iterator[Row]:
        yield from ingesting.rows(self.folder / "documents")

    def pages(self) -> Iterator[Row]:
        yield from pages.rows([self.made(nodes) for nodes in self.sizes], self.folder / "pages")

    def peers(self) -> Iterator[Row]:
        yield from peers.rows(self.folder / "peers", self.sizes)

    def scaling(self) -> Iterator[Row]:
        yield from scaling.rows(self.made(min(self.sizes)), self.folder / "scaling")

    def idle(self) -> Iterator[Row]:
        yield from client.idle(self.folder / "idle")


Section = Callable[[Run], Iterator[Row]]
SECTIONS: dict[str, Section] = {
    "starts": Run.starts,
    "scale": Run.scale,
    "calls": Run.calls,
    "memory": Run.memory,
    "restarts": Run.restarts,
    "writes": Run.writes,
    "walks": Run.walks,
    "searches": Run.searches,
    "languages": Run.languages,
    "clients": Run.clients,
    "trees": Run.trees,
    "merges": Run.merges,
    "parts": Run.parts,
    "sharing": Run.sharing,
    "hubs": Run.hubs,
    "crossing": Run.crossing,
    "knowing": Run.knowing,
    "histories": Run.histories,
    "meaning": Run.meanings,
    "disk": Run.disk,
    "documents": Run.documents,
    "pages": Run.pages,
    "idle": Run.idle,
}
ON_REQUEST: dict[str, Section] = {"peers": Run.peers, "scaling": Run.scaling}
"""Sections that run only if they are named."""


def main() -> int:
    options = _options()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    RESULTS.mkdir(exist_ok=True)
    sys.path.append(str(PYTHON_PEERS))
    wanted = {name: (SECTIONS | ON_REQUEST)[name] for name in options.sections or SECTIONS}
    subprocess.run([ROOT / "bench/install_peers.sh", sys.executable, *(ON_REQUEST.keys() & wanted.keys())], check=False)
    began = time.monotonic()
    now = datetime.datetime.now(datetime.UTC)
    file = RESULTS / f"{now:%Y-%m-%d-%H%M}.json"
    with tempfile.TemporaryDirectory(prefix="kgd-bench-", ignore_cleanup_errors=True) as folder:
        about = machine.describe(Path(folder))
        print(orjson.dumps(about, option=orjson.OPT_INDENT_2).decode(), flush=True)
        result: dict[str, Any] = {"at": now, "machine": about, "sizes": options.sizes, "rows": [], "failed": {}}
        run = Run(Path(folder), options.sizes, options.corpora)
        for rows, failed in measured(run, wanted):
            result["rows"] += rows
            result["failed"] |= failed
            result["seconds"] = round(time.monotonic() - began)
            file.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2) + b"\n")
    file.with_suffix(".md").write_text(table(result["rows"]) + peers.table(result["rows"]))
    print("\n".join(summary(result["rows"], result["failed"])))
    print(f"\n{result['seconds']} s; {file.relative_to(ROOT)}")
    return 1 if result["failed"] else 0


def measured(
    run: Run, sections: Mapping[str, Section], seconds: float | None = None
) -> Iterator[tuple[list[Row], dict[str, str]]]:
    """The rows of all sections, printed as they come, and the reasons of failed sections by name.

    Rows before a failure count.
    """
    for name, section in sections.items():
        begun = time.monotonic()
        rows: list[Row] = []
        failed: dict[str, str] = {}
        print(f"\n{name}", flush=True)
        try:
            with at_most(seconds or LONGER.get(name, SECTION_SECONDS) * max(1.0, max(run.sizes) / max(SIZES))):
                for row in section(run):
                    rows.append({"section": name, **row, "verdict": verdict(row)})
                    print(line(row), flush=True)
        except Exception as error:
            failed[name] = "; ".join(_reasons(error))
            log.exception("section %s failed", name)
            print(f"  {'FAILED':12}  {failed[name]}", flush=True)
        print(f"  ({time.monotonic() - begun:.0f} s)", flush=True)
        yield rows, failed


def summary(rows: Sequence[Row], failed: dict[str, str]) -> Iterator[str]:
    """The summary: the number of rows of each verdict, the missed rows, the failed sections."""
    yield ""
    for word in ("missed", "not measured"):
        found = [f"{row['section']:10} {line(row)[16:]}" for row in rows if row["verdict"] == word]
        yield from [f"{word}:", *(f"  {one}" for one in found), ""] if found else []
    yield from (f"section failed: {name}: {why}" for name, why in failed.items())
    counts = {word: sum(row["verdict"] == word for row in rows) for word in ("met", "missed", "not measured")}
    yield f"{', '.join(f'{count} {word}' for word, count in counts.items())}; {len(failed)} sections failed"


def _reasons(error: BaseException) -> Iterator[str]:
    """The errors as text, also those within exception groups of tasks."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _reasons(one)
    else:
        yield f"{type(error).__name__}: {error}"[:300]


def _options() -> argparse.Namespace:
    def numbers(text: str) -> tuple[int, ...]:  # argparse names the type in its message
        return tuple(map(int, text.split(",")))

    parser = argparse.ArgumentParser(prog="python -m bench", description="The rows of docs/performance.md.")
    known = [*SECTIONS, *ON_REQUEST]
    parser.add_argument("sections", nargs="*", metavar="section", help=f"only these: {', '.join(known)}")
    parser.add_argument(
        "--sizes",
        type=numbers,
        default=SIZES,
        help="nodes, with commas (default: 1000,10000,100000)",
    )
    parser.add_argument("--corpora", type=Path, metavar="DIR", help="keep the generated workspaces there")
    options = parser.parse_args()
    if unknown := set(options.sections) - set(known):
        parser.error(f"there is no section {', '.join(sorted(unknown))}; the sections are {', '.join(known)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
