"""An ingest from the disk is a job: it continues without its caller and over a restart, and is done once."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kgd.config import Home
from kgd.daemon import ingestion
from kgd.daemon.daemon import Daemon
from kgd.daemon.ingestion import Report, Request, TakingIn
from kgd.errors import Forbidden, Invalid, NotFound
from kgd.git.layout import locate
from kgd.model.access import Principal, Scope, Verb
from kgd.model.globs import Glob
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "library"
    made.mkdir()
    for number in range(30):
        (made / f"{number:02}.md").write_text(f"# Part {number}\n\nWhat part {number} says is this.\n")
    return made


@pytest.mark.slow
def test_two_ingests_of_one_source_at_once_are_one_job_and_each_document_is_there_once(
    ask: Ask, ws: Workspace, folder: Path
) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ask.ingest(source=str(folder)), range(4)))
    assert sum(answer["counts"].get("documents_new", 0) for answer in {a["job"]: a for a in answers}.values()) == 30
    assert len(ws.text().by_source("file")) == 60
    (listed, *_) = ask.status()["jobs"]
    assert (listed["state"], listed["done"], listed["total"]) == ("done", 30, 30)
    assert ask.job(id=answers[0]["job"])["counts"]["documents_new"] == 30
    assert "mentions" in [stage["name"] for stage in ask.status()["stages"]], "names are searched early"
    with pytest.raises(NotFound):
        ask.job(id="nothing")


@pytest.mark.slow
def test_a_job_that_was_cut_off_goes_on_when_the_workspace_is_opened_and_nothing_is_double(
    session: Session, folder: Path, tmp_path: Path
) -> None:
    ws, daemon = session.daemon.workspace("shop"), session.daemon
    (folder / "cover.png").write_bytes(b"nothing to read")
    cut = threading.Event()
    ws.on_commit(lambda uris: cut.set() if any("/09.md" in uri for uri in uris) else None)

    def leave() -> None:
        cut.wait(30)
        daemon.close()

    leaving = threading.Thread(target=leave)
    leaving.start()
    answer = call(session, "ingest", {"source": str(folder)})
    leaving.join()
    assert answer["state"] == "running"
    assert "continues in the background" in answer["next"]

    again = Daemon(Home.at(str(tmp_path / "home")), since="", locate=locate, open_workspace=Workspace.open)
    try:
        opened = again.workspace("shop")
        job = again.jobs(opened).wait(answer["job"], 60)
        assert (job.state, job.done, job.counts["documents_new"]) == ("done", 30, 30)
        assert "documents_unchanged" not in job.counts
        assert (job.counts["left"], len(job.trouble)) == (1, 1), "told once, though it was looked through twice"
        found = opened.text().by_source("file")
        assert len(found) == len(set(found)) == 60
        assert all(entry.subject.startswith("ingest library/") for entry in opened.history.entries(limit=30))
        assert len({entry.subject for entry in opened.history.entries(limit=30)}) == 30
    finally:
        again.close()


def test_files_that_are_none_or_too_large_or_never_at_rest_cost_a_line_each(
    ask: Ask, ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "good.md").write_text("These words are good.\n")
    os.mkfifo(folder / "pipe.md")
    (folder / "huge.md").touch()
    os.truncate(folder / "huge.md", 1 << 30)
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "binary.md").write_bytes(b"\x7fELF\0\0")
    os.mkdir(os.fsencode(folder) + b"/caf\xe9")
    (folder / os.fsdecode(b"caf\xe9") / "x.md").write_text("Not reachable by a name that text can hold.\n")
    (folder / ("n" * 250 + ".md")).write_text("A long name.\n")
    answer = ask.ingest(source=str(folder))
    assert answer["counts"]["documents_new"] == 2, answer
    told = "\n".join(answer["trouble"])
    for why in ("1,024 MiB, more than", "pipe, socket or device", "symbolic link", "binary", "not valid UTF-8"):
        assert why in told, told
    for single, error in (("pipe.md", Invalid), ("huge.md", Invalid), ("loop.md", Invalid), ("none.md", NotFound)):
        with pytest.raises(error):
            ask.ingest(source=str(folder / single))
    with pytest.raises(Invalid):
        ask.ingest(source="/dev/zero")

    with open(ask.session.daemon.home.registry, "a") as registry:
        registry.write("settings:\n  document_mb: 1\n")
    (folder / "medium.md").write_text("word " * 300_000)
    with pytest.raises(Invalid, match="more than 1 MiB"):
        ask.ingest(source=str(folder / "medium.md"), dry_run=True)

    (folder / "busy.md").write_text("a")

    real = os.fstat

    def growing(fd: int) -> os.stat_result:
        with open(folder / "busy.md", "a") as file:
            file.write("more\n")
        return real(fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", growing)
        with pytest.raises(Invalid, match="changed twice while it was being read"):
            ingestion.read_file(folder / "busy.md", 1 << 20)
    assert ingestion.read_file(folder / "busy.md", 1 << 20).startswith(b"amore")


def test_a_folder_with_too_many_files_is_truncated_and_reported(
    ws: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("MOST_FILES", "MOST_LOOKED_AT"):
        with monkeypatch.context() as patched:
            patched.setattr(ingestion, limit, 20)
            report = Report()
            TakingIn(ws, Request(str(folder)), None, report).run()
            assert report.counts["documents_new"] == 20
            assert any("the others were skipped" in line for line in report.trouble)


def test_a_token_ingests_texts_where_it_may_write_and_no_files_of_the_disk(ask: Ask, folder: Path) -> None:
    scope = Scope(frozenset({Verb.READ, Verb.WRITE}), "shop", (Glob("/mine/**"),))
    bot = Principal("tok", "Bot", "agent", (scope,))
    holder = Session(ask.session.daemon, client="t", principal=bot)
    for source in (str(folder), "README.md", None):
        with pytest.raises(Forbidden):
            call(holder, "ingest", {"source": source, "workspace": "shop"})
    taken = call(holder, "ingest", {"text": "# Mine\n\nWords of `src/checkout.py`.\n", "uri": "document://shop/mine/a"})
    assert taken["counts"]["documents_new"] == 1
    (chunk,) = ask.get(uris="chunk://shop/mine/a/0001", include=["relations"])["nodes"]
    assert "links_to" not in {relation["type"] for relation in chunk["relations"]}  # it may not know of that file
    with pytest.raises(Forbidden):
        call(holder, "ingest", {"text": "# Mine\n\nWords.\n", "uri": "document://shop/theirs/a"})
    assert ask.get(uris="document://shop/theirs/a")["missing"]
