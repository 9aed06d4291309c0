"""The quality of search: `make bench-retrieval DATA=DIR`.

Every ``*.jsonl`` or ``*.jsonl.gz`` file of the folder is a set: an ``about`` row, ``document`` rows (`id`, `group`,
`text`, maybe `title`, `speaker`, `session`, `date`) and ``query`` rows (`id`, `group`, `text`, `relevant`, `category`).
Documents go in through `ingest`: rows with a speaker are messages of a thread, all others are documents. Questions go
through `search` with its defaults, within their group: recall is the share of the relevant documents among the first
5, 10 or 20, MRR the mean of one through the place of the first. Nothing here or in kgd knows any set.
"""

from __future__ import annotations

import argparse
import gzip
import logging
import re
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.mentions.mentions import Mentions
from kgd.model.uri import Uri, build, namespace_of, path_of, scheme_of
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

DEPTHS = (5, 10, 20)
LIMIT = 25
ENOUGH = 1_000_000
"""Tokens of an answer: enough for a complete one."""
EMBEDDING = 300.0
"""Seconds for a set to be embedded or scanned."""
_WORD = re.compile(r"\w+")

Row = dict[str, Any]
Ask = Callable[[Row], list[str]]
"""The ids of documents for a question, best first."""


@dataclass(slots=True)
class Set:
    """One file of the folder."""

    name: str
    documents: list[Row] = field(default_factory=list)
    questions: list[Row] = field(default_factory=list)


class Kgd:
    """One set in a workspace of its own, filled by `ingest`, asked by `search`."""

    def __init__(self, folder: Path, found: Set, embedder: str) -> None:
        code = folder / "workspace"
        code.mkdir(parents=True)
        home = Home.at(str(folder / "home"))
        home.prepare()
        Path(home.registry).write_text(f"settings:\n  embedder: {embedder}\n")
        self._daemon = Daemon(home, since="2026-01-01T00:00:00Z", locate=locate, open_workspace=Workspace.open)
        self._session = Session(self._daemon, cwd=code, client="bench", context_id=None)
        self._workspace = call(self._session, "up", {"standalone": True, "id": "bench"})["workspace"]
        self._row_of: dict[str, str] = {}
        self._namespace: dict[str, str] = {}
        self._fill(folder, found)

    @property
    def _ws(self) -> Workspace:
        return self._daemon.workspace(self._workspace)

    def _fill(self, folder: Path, found: Set) -> None:
        plain = [row for row in found.documents if not row.get("speaker")]
        for row in found.documents:
            self._namespace[row["group"]] = _slug(row["group"]) if row.get("speaker") else f"set/{_slug(row['group'])}"
        names: dict[str, str] = {}
        for row in plain:
            place = _free(f"set/{_slug(row['group'])}/{_slug(row.get('title') or row['id'])}", names)
            title = row.get("title") or ""
            path = folder / f"{place}.{'md' if title else 'txt'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            text = row["text"].removeprefix(title).lstrip()
            path.write_text(f"# {title}\n\n{text}\n" if title else row["text"])
            self._row_of[f"{place}{path.suffix}"] = self._row_of[place] = row["id"]
        if plain:
            answer = call(self._session, "ingest", {"source": str(folder / "set"), "kind": "document"})
            while answer.get("state") == "running" or answer.get("state") == "waiting":
                time.sleep(0.5)
                answer = call(self._session, "ingest", {"source": str(folder / "set"), "kind": "document"})
        threads: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in found.documents:
            if row.get("speaker"):
                threads[row["group"], str(row.get("session") or row["group"])].append(row)
        for (group, session), rows in threads.items():
            self._converse(group, session, rows)

    def _converse(self, group: str, session: str, rows: Sequence[Row]) -> None:
        thread = build("thread", self._workspace, [_slug(group).encode(), _slug(session).encode()])
        lines = [
            orjson.dumps(
                {
                    "id": row["id"],
                    "sender": row["speaker"],
                    "role": "user",
                    "content": row["text"].removeprefix(f"{row['speaker']}: "),
                    "date": row.get("date"),
                }
            ).decode()
            for row in rows
        ]
        call(self._session, "ingest", {"text": "\n".join(lines), "kind": "conversation", "uri": thread})

    def settle(self, *, embedded: bool) -> None:
        """Wait for the daemon's background work after a large import."""
        ws = self._ws
        if not Mentions.of(ws).settle(EMBEDDING):
            raise SystemExit("the texts were not looked through in time")
        if embedded and not ws.meaning.catch_up(EMBEDDING):
            raise SystemExit(f"the texts were not embedded in time: {ws.meaning.stage()}")
        for uri in ws.graph.uris(scheme="message"):
            node = ws.node(uri)
            if node is not None and (id := node.data.get("id")):
                self._row_of[path_of(uri)] = str(id)

    def ask(self, *, graph: bool) -> Ask:
        def found(question: Row) -> list[str]:
            arguments: Row = {"query": question["text"], "limit": LIMIT, "budget": ENOUGH}
            arguments["namespace"] = self._namespace.get(question["group"], _slug(question["group"]))
            if not graph:
                arguments["max_depth"] = 0
            hits = call(self._session, "search", arguments)["hits"]
            return list(dict.fromkeys(row for hit in hits if (row := self._row(hit["uri"]))))

        return found

    def _row(self, uri: Uri) -> str | None:
        place = namespace_of(uri) if scheme_of(uri) == "chunk" else path_of(uri)
        return self._row_of.get(place)

    def close(self) -> None:
        self._daemon.close()


def plain_fts5(found: Set) -> Ask:
    """FTS5 alone: a table of the texts, all words of the question, any of them."""
    table = sqlite3.connect(":memory:")
    table.execute("CREATE VIRTUAL TABLE t USING fts5 (text, tokenize = 'porter unicode61')")
    table.executemany(
        "INSERT INTO t (rowid, text) VALUES (?, ?)", [(n, d["text"]) for n, d in enumerate(found.documents)]
    )

    def ask(question: Row) -> list[str]:
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(_WORD.findall(question["text"])))
        rows = table.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank", (match,)) if match else ()
        documents = (found.documents[number] for (number,) in rows)
        return [row["id"] for row in documents if row["group"] == question["group"]][: DEPTHS[-1]]

    return ask


def scan(found: Set) -> Ask:
    """As with grep: the texts with most of the words, in the order of the set."""
    texts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in found.documents:
        texts[row["group"]].append((row["id"], row["text"].casefold()))

    def ask(question: Row) -> list[str]:
        asked = {word for word in _WORD.findall(question["text"].casefold()) if len(word) > 3}
        counted = [(-sum(word in text for word in asked), id) for id, text in texts[question["group"]]]
        return [id for count, id in sorted(counted, key=lambda one: one[0])[: DEPTHS[-1]] if count]

    return ask


def measured(found: Set, ask: Ask) -> dict[str, Row]:
    """The figures over all questions and for each category; CPU time of the process, in ms a question."""
    rows: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    begun = time.process_time()
    asked = [question for question in found.questions if question["relevant"]]
    for question in asked:
        ranked, gold = ask(question), set(question["relevant"])
        recall = [len(gold.intersection(ranked[:depth])) / len(gold) for depth in DEPTHS]
        first = next((1 / place for place, id in enumerate(ranked, 1) if id in gold), 0.0)
        for of in ("", str(question.get("category") or "none")):
            rows[of].append((*recall, first))
    taken = (time.process_time() - begun) / max(1, len(asked)) * 1000
    names = [*(f"recall@{depth}" for depth in DEPTHS), "mrr"]
    return {
        of: {"questions": len(figures), **_means(names, figures), **({"cpu_ms": round(taken, 1)} if not of else {})}
        for of, figures in sorted(rows.items())
    }


def sets(folder: Path) -> Iterator[Set]:
    for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")]):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        found = Set(path.name.partition(".jsonl")[0])
        for line in data.splitlines():
            row = orjson.loads(line) if line.strip() else {}
            if row.get("kind") == "document":
                found.documents.append({"group": "all", **row, "id": str(row["id"])})
            elif row.get("kind") == "query":
                found.questions.append({"group": "all", **row, "relevant": [str(id) for id in row["relevant"]]})
        if found.documents and found.questions:
            yield found


def run(found: Set, embedders: Sequence[str]) -> Iterator[tuple[str, dict[str, Row]]]:
    yield "grep-like scan", measured(found, scan(found))
    yield "FTS5 alone", measured(found, plain_fts5(found))
    for embedder in embedders:
        with tempfile.TemporaryDirectory(prefix="kgd-bench-") as folder:
            kgd = Kgd(Path(folder), found, embedder)
            try:
                kgd.settle(embedded=embedder != "off")
                for graph in (False, True):
                    label = f"kgd, embedder {embedder}, graph {'on' if graph else 'off'}"
                    yield label, measured(found, kgd.ask(graph=graph))
            finally:
                kgd.close()


def _means(names: Sequence[str], figures: Sequence[tuple[float, ...]]) -> Row:
    return {name: round(sum(f[at] for f in figures) / len(figures), 3) for at, name in enumerate(names)}


def _slug(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip("-.")[:80] or "x"


def _free(place: str, taken: dict[str, str]) -> str:
    """The place, numbered if taken: names that differ only by case are equal on some disks."""
    number, tried = 1, place
    while tried.casefold() in taken:
        number += 1
        tried = f"{place}-{number}"
    taken[tried.casefold()] = place
    return tried


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.retrieval", description="how well search finds, on sets in a folder")
    parser.add_argument("data", nargs="?", default="", help="a folder of sets")
    parser.add_argument("--embedder", default="both", help="both (builtin and off), or the setting `embedder`")
    parser.add_argument("--json", help="write all figures there too")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    if not options.data:
        print("skipped: `make bench-retrieval DATA=DIR` takes a folder of .jsonl or .jsonl.gz files (docs/ranking.md).")
        return 0
    found = list(sets(Path(options.data)))
    if not found:
        parser.error(f"{options.data} has no .jsonl or .jsonl.gz files of documents and queries (docs/ranking.md)")
    embedders = ("off", "builtin") if options.embedder == "both" else (options.embedder,)
    kept = []
    for one in found:
        print(f"\n{one.name}: {len(one.documents):,} documents, {len(one.questions):,} questions", flush=True)
        print(f"  {'':44} {'R@5':>6} {'R@10':>6} {'R@20':>6} {'MRR':>6} {'CPU ms':>7}")
        for label, figures in run(one, embedders):
            for of, row in figures.items():
                kept.append({"set": one.name, "system": label, "category": of, **row})
                name = f"    {of} ({row['questions']})" if of else f"  {label}"
                shown = " ".join(f"{row[key]:6.3f}" for key in ("recall@5", "recall@10", "recall@20", "mrr"))
                print(f"{name:46} {shown} {row.get('cpu_ms', ''):>7}", flush=True)
    if options.json:
        Path(options.json).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
