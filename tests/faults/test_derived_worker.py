"""Derived data is written by child processes, and killing them costs only time."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kgd.config import Home
from kgd.index.database import IndexDamaged
from kgd.model.uri import Uri
from kgd.tools import call
from kgd.tools.read.search import INDEXING, PARTIAL
from kgd.tools.session import Session
from kgd.workspace import child_process
from kgd.workspace.child_process import CHILDREN, ChildProcess
from kgd.workspace.derived import derived, indexed_text
from kgd.workspace.workspace import Workspace
from tests.builders import change, new_layout, upsert
from tests.cli.conftest import Kgd
from tests.conftest import ROOT
from tests.daemon.conftest import end_daemon
from tests.faults.derived_work import PROGRAMS, answers, children, killing, settled, working, write
from tests.waiting import until

MANY = 400
VECTORS, TEXTS = "kgd.workspace.derived.vector_writer", "kgd.workspace.derived.indexed_text"
PARSER = "kgd.daemon.code_index_process"


def killed_while_deriving(place: Path, kills: int, seed: int) -> dict[str, int]:
    """Kill so many children, at least one of each program, and compare the answers with those of a rebuild."""
    dice, turn = random.Random(seed), 0
    with working(place) as session:
        with killing(dice) as killed:
            while (sum(killed.values()) < kills or not all(killed.values())) and turn < 2 * kills:
                write(session, turn := turn + 1, dice)
                goal = sum(killed.values()) + 4
                until(lambda goal=goal: sum(killed.values()) >= goal or not children())  # type: ignore[misc]
        write(session, 0, dice)
        settled(session)
        found = answers(session)
        call(session, "reindex")
        settled(session)
        assert answers(session) == found, seed
    assert children() == {}
    assert sum(killed.values()) >= kills, killed
    assert all(killed.values()), killed
    return killed


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_child_never_replaces_a_file_that_it_cannot_use(tmp_path: Path, program: str) -> None:
    """A daemon of another version, or one that found damage, may have replaced it before the child opened it."""
    layout = new_layout(tmp_path / "w")
    Workspace.open(layout).close()
    index, own = layout.derived_dir / "index.sqlite", tmp_path / "own.sqlite"
    place = str(layout.git_dir), str(layout.work_tree)
    arguments = {
        TEXTS: (*place, str(own), "ticket"),
        PARSER: (str(own), str(tmp_path)),
    }.get(program, (*place, str(index), str(own), "ticket"))
    for content in (b"torn" * 2_000, b""):
        own.write_bytes(content)
        child = ChildProcess(("-m", program, *arguments), program, 60)
        with pytest.raises(IndexDamaged):
            child.ask({"any": "order"})
        child.end()
        assert own.read_bytes() == content


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_children_change_no_answer(tmp_path: Path) -> None:
    killed_while_deriving(tmp_path, 12, 1)


@pytest.mark.slow
def test_search_finds_words_while_texts_are_embedded(tmp_path: Path) -> None:
    with working(tmp_path) as session:
        ws = session.daemon.workspace("shop")
        for turn in range(3):
            write(session, turn, random.Random(turn))
        until(lambda: VECTORS in children().values() and ws.meaning.is_partial)
        [child] = [pid for pid, program in children().items() if program == VECTORS]
        os.kill(child, signal.SIGSTOP)
        call(session, "put", {"changes": [{"op": "upsert", "uri": "concept:late", "content": "A zebra.\n"}]})
        answer = call(session, "search", {"query": "zebra"})
        assert [hit["uri"] for hit in answer["hits"]] == ["concept://shop/late"]
        assert answer["hint"] == PARTIAL
        assert PARTIAL in call(session, "context", {"question": "where is the zebra?"})["notes"]
        assert (
            ws.health()["embedding"].blocker
            == "texts are being embedded; until this is done, search finds them only by words"
        )
        os.kill(child, signal.SIGCONT)
        assert ws.meaning.catch_up(60)
        assert "hint" not in call(session, "search", {"query": "zebra"})
        assert Uri("concept://shop/late") in dict(ws.meaning.nearest("zebra", 5).hits)
    assert children() == {}


@pytest.mark.slow
def test_the_daemon_writes_the_index_itself_when_no_child_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "AGAIN_AFTER", 0.0)
    ws = Workspace.open(new_layout(tmp_path), publish=False)
    with monkeypatch.context() as patch:
        patch.setattr(indexed_text, "PROGRAM", ("-c", "raise SystemExit(3)"))
        ws.submit(change(*(upsert(f"note-{number}", content="Lease.\n") for number in range(MANY))))
        assert len(ws.text().search("lease", limit=MANY + 1)) == MANY
    said = "derived data: the daemon writes the text index itself (the process for derived data crashed)"
    assert said in ws.degraded()
    ws.submit(change(*(upsert(f"later-{number}", content="Lease.\n") for number in range(MANY))))
    assert len(ws.text().search("lease", limit=2 * MANY + 1)) == 2 * MANY
    assert said not in ws.degraded()
    ws.close()


@pytest.mark.slow
def test_many_workspaces_share_few_children(tmp_path: Path) -> None:
    opened = [Workspace.open(new_layout(tmp_path / f"{number}"), publish=False) for number in range(CHILDREN + 2)]
    for ws in opened:
        ws.submit(change(*(upsert(f"note-{number}", content="Lease.\n") for number in range(MANY))))
        assert len(ws.text().search("lease", limit=MANY + 1)) == MANY
    assert 1 <= len(children()) <= CHILDREN
    for ws in opened:
        ws.close()
    assert children() == {}


def test_the_child_of_a_first_build_ends_with_it(tmp_path: Path) -> None:
    """The embedding and the mentions of a large workspace then start children of their own."""
    ws = Workspace.open(new_layout(tmp_path), publish=False)
    ws.submit(change(*(upsert(f"note-{number}", content="Lease.\n") for number in range(MANY))))
    ws.close()
    (ws.layout.derived_dir / "index.sqlite").unlink()
    ws = Workspace.open(ws.layout, publish=False)
    assert len(ws.text().search("lease", limit=MANY + 1)) == MANY
    assert TEXTS not in children().values()
    ws.close()


@pytest.mark.slow
def test_a_child_ends_when_there_is_nothing_to_do(tmp_path: Path) -> None:
    ws = Workspace.open(new_layout(tmp_path), publish=False)
    ws.submit(change(*(upsert(f"note-{number}", content="Lease.\n") for number in range(MANY))))
    ws.text()
    assert list(children().values()) == [TEXTS]
    until(lambda: not children())
    ws.submit(change(upsert("late", content="A kumquat.\n")))
    assert [hit.uri for hit in ws.text().search("kumquat")] == ["concept://ws/late"]
    assert children() == {}
    ws.close()


@pytest.mark.slow
def test_no_child_outlives_a_killed_daemon(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from kgd.workspace.workspace import Workspace\n"
        "from tests.builders import change, new_layout, upsert\n"
        "ws = Workspace.open(new_layout(Path(sys.argv[1])), publish=False)\n"
        f"ws.submit(change(*(upsert(f'note-{{number}}', content='Lease.\\n') for number in range({MANY}))))\n"
        "ws.text()\n"
        "print('written', flush=True)\n"
        "sys.stdin.read()\n"
    )
    daemon = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "written\n"
        [child] = children(daemon.pid)
        daemon.kill()
    until(lambda: not Path(f"/proc/{child}").exists())


def ages(session: Session) -> set[str]:
    """The classes of age of all nodes."""
    answer = call(session, "graph_view", {"group": "namespace", "colour": "age"})
    return {age for group in answer["groups"] for age in group["tones"]}


@pytest.mark.slow
def test_search_answers_from_some_texts_while_a_long_index_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    waits = (
        f"import runpy; open({str(gate)!r}).close(); runpy.run_module({TEXTS!r}, run_name='__main__', alter_sys=True)"
    )
    with working(tmp_path) as session:
        write(session, 1, random.Random(1))
        settled(session)
        assert call(session, "search", {"query": "lease"})["hits"]
        monkeypatch.setattr(derived, "PARTIAL_AFTER", 0.0)
        usual = indexed_text.PROGRAM
        monkeypatch.setattr(indexed_text, "PROGRAM", ("-c", waits))
        rebuild = threading.Thread(target=call, args=(session, "reindex"))
        rebuild.start()
        until(lambda: session.daemon.workspace("shop").is_text_partial)
        answer = call(session, "search", {"query": "lease"})
        assert (answer["hits"], answer["hint"]) == ([], INDEXING)
        assert ages(session) == {"unknown"}
        monkeypatch.setattr(indexed_text, "PROGRAM", usual)  # the child of the build ends with it
        gate.open("w").close()
        rebuild.join()
        assert ages(session) == {"week"}
        answer = call(session, "search", {"query": "lease"})
        assert answer["hits"]
        assert "hint" not in answer


@pytest.mark.slow
def test_a_stop_in_the_middle_of_indexing_leaves_no_process_and_the_next_start_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "shop"
    code.mkdir()
    for number in range(800):
        text = "".join(f"def count_{number}_{part}():\n    return {part}\n\n" for part in range(20))
        (code / f"m{number}.py").write_text(text)
    subprocess.run(["git", "init", "-q", str(code)], check=True)
    monkeypatch.setenv("KGD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    kgd = Kgd(code, Home.find())
    subprocess.run([sys.executable, "-P", "-m", "kgd.cli", "up", "--quiet"], cwd=code, check=True)  # a daemon unforked
    try:
        daemon = kgd.json("status")["daemon"]["pid"]
        until(lambda: PARSER in children(daemon).values())
        running = [daemon, *children(daemon)]
        kgd("down")
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in running))
        assert "Traceback" not in (Path(kgd.home.logs) / "daemon.log").read_text()
        assert kgd.json("status")["code"]["state"] != "ready"
        until(lambda: kgd.json("status")["code"]["state"] == "ready")
        assert kgd.json("status")["code"]["symbols"] == 800 * 20
        assert kgd.json("fsck")["ok"]
    finally:
        end_daemon(kgd.home)
