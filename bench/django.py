"""A developer's questions to one workspace: Django's documentation, source and release notes.

`python -m bench.django FOLDER` fetches the source distribution that FOLDER lacks. The code is the workspace's code
tree, the documentation is ingested as documents, the release notes as dated messages of one thread. The questions in
`django_questions.tsv` and their answers were written before the first measurement.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import statistics
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.mentions.mentions import Mentions
from kgd.model.uri import path_of
from kgd.tools import call
from kgd.tools.session import Session
from kgd.tools.workspaces import status
from kgd.workspace.workspace import Workspace
from tests.knowing.django.change_sets import fetched

VERSION = "5.2"
QUESTIONS = Path(__file__).with_name("django_questions.tsv")
PATIENCE = 600.0
AT = 5
Hit = dict[str, Any]


class Asked:
    """The workspace, filled."""

    def __init__(self, folder: Path, archive: Path) -> None:
        code, self._docs, self._notes = folder / "django", folder / "docs", folder / "releases"
        with tarfile.open(archive) as packed:
            packed.extractall(folder / "sdist", filter="data")
        top = next((folder / "sdist").iterdir())
        shutil.move(top / "docs/releases", self._notes)
        shutil.move(top / "docs", self._docs)
        code.mkdir()
        shutil.move(top / "django", code / "django")
        subprocess.run(["git", "init", "-q", code], check=True)
        home = Home.at(str(folder / "home"))
        home.prepare()
        self._daemon = Daemon(home, since="2026-01-01T00:00:00Z", locate=locate, open_workspace=Workspace.open)
        self._session = Session(self._daemon, cwd=code, client="bench", context_id=None)
        self.id = call(self._session, "up", {"id": "django"})["workspace"]

    @property
    def ws(self) -> Workspace:
        return self._daemon.workspace(self.id)

    def take_in(self) -> tuple[float, float, str]:
        """Seconds for documents and for release notes, and the tip afterwards."""
        begun = time.monotonic()
        self._ingest({"source": str(self._docs), "kind": "document"})
        between = time.monotonic()
        self._ingest({"source": str(self._notes), "kind": "messages", "uri": f"thread://{self.id}/releases"})
        return between - begun, time.monotonic() - between, self.ws.tip

    def _ingest(self, what: dict[str, Any]) -> None:
        answer = call(self._session, "ingest", what)
        while answer.get("state") in ("waiting", "running"):
            answer = call(self._session, "ingest", what)
        if answer.get("state") == "failed":
            raise SystemExit(answer["failure"])

    def settle(self) -> None:
        """Wait until the code is read, and all texts are scanned and embedded."""
        end = time.monotonic() + PATIENCE
        while (code := status.code(self.ws)) is None or code["state"] != "ready":
            if time.monotonic() > end:
                raise SystemExit(f"the code was not read in time: {code}")
            time.sleep(0.5)
        if not (Mentions.of(self.ws).settle(PATIENCE) and self.ws.meaning.catch_up(PATIENCE)):
            raise SystemExit("not all texts were looked through and embedded in time")

    def ask(self, question: str, *, graph: bool = True) -> list[Hit]:
        arguments = {"query": question, "limit": 10, "budget": 100_000, **({} if graph else {"max_depth": 0})}
        hits: list[Hit] = call(self._session, "search", arguments)["hits"]
        return hits

    def answers(self, hit: Hit, expected: list[str]) -> bool:
        """Whether a hit is expected: `doc:PATH`, `sym:FILE` or `msg:FILE`."""
        uri = hit["uri"]
        if uri.startswith("message://"):
            node = self.ws.node(uri)
            note = str(node.data.get("id", "")) if node else ""
            return any(one.startswith("msg:") and f"/{note}".endswith(f"/{one[4:]}") for one in expected)
        place = f"/{path_of(uri)}/"
        return any(one[:4] in ("doc:", "sym:") and f"/{one[4:]}/" in place for one in expected)

    def close(self) -> None:
        self._daemon.close()


def ranks(asked: Asked, *, graph: bool, show: bool) -> list[int | None]:
    found: list[int | None] = []
    for line in QUESTIONS.read_text().splitlines():
        question, _, expected = line.partition("\t")
        hits = asked.ask(question, graph=graph)
        rank = next((n for n, hit in enumerate(hits, 1) if asked.answers(hit, expected.split())), None)
        found.append(rank)
        if show:
            print(f"{f'{rank:>3}' if rank else '  -'}  {question}  [{expected}]")
            for number, hit in enumerate(hits[:AT], 1):
                by = f"  by {' > '.join(hit['path'])}" if len(hit.get("path", ())) > 1 else ""
                print(f"       {number} {hit['uri']}  ({'; '.join(hit['why'])}){by}")
    return found


def told(what: str, found: list[int | None]) -> str:
    within = sum(rank is not None and rank <= AT for rank in found)
    return f"{what}: {within} of {len(found)} at {AT}, MRR {statistics.fmean(1 / r if r else 0 for r in found):.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.django", description="twenty questions to Django's texts and source")
    parser.add_argument("folder", type=Path, help="where the source distribution is, or comes to be")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    options.folder.mkdir(parents=True, exist_ok=True)
    archive = fetched(VERSION, options.folder)
    with tempfile.TemporaryDirectory(prefix="kgd-bench-", ignore_cleanup_errors=True) as place:
        asked = Asked(Path(place), archive)
        try:
            *first, tip = asked.take_in()
            begun = time.monotonic()
            asked.settle()
            print(
                f"taken in: documents {first[0]:.1f} s, release notes {first[1]:.1f} s; "
                f"then read, indexed and embedded in {time.monotonic() - begun:.0f} s"
            )
            *again, after = asked.take_in()
            same = "nothing changed" if after == tip else "SOMETHING CHANGED"
            print(f"a second time: {sum(again):.1f} s, {sum(again) / sum(first):.3f} of the first; {same}\n")
            with_graph = ranks(asked, graph=True, show=True)
            print("\n" + told("with the graph", with_graph))
            print(told("without", ranks(asked, graph=False, show=False)))
            return int(after != tip)
        finally:
            asked.close()


if __name__ == "__main__":
    raise SystemExit(main())
