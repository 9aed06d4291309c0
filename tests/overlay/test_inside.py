"""Symbols and documents of the code tree, as everybody who asks sees them."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kgd.config import Home
from kgd.daemon import code_index_process
from kgd.daemon.daemon import Daemon
from kgd.daemon.watch import Watch
from kgd.git.layout import locate
from kgd.index import code_index
from kgd.model.access import Principal, Scope
from kgd.overlay.overlay import FileParts
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.waiting import until

FIXTURE = Path(__file__).parents[1] / "symbols" / "fixtures" / "python"
GUIDE = """# Guide

How a shop is run.

## Orders

An order is placed with `place`, and then it is validated by a person who knows what a **kumquat** is.

## Money

Amounts are in cents.
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    shutil.copytree(FIXTURE, root)
    (root / "docs").mkdir()
    (root / "docs" / "guide.md").write_text(GUIDE)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home whose daemon has no periodic scan, which would find what the watch misses before a test gives up."""
    monkeypatch.setattr(Watch, "_interval", lambda *_: 600.0)
    home = Home.at(str(tmp_path / "home"))
    home.prepare()
    return home


@pytest.fixture
def start(home: Home, code: Path) -> Iterator[Callable[[], Session]]:
    """Starts a daemon, and gives a caller in the code tree; the tree is read by then."""
    started: list[Daemon] = []

    def begin() -> Session:
        for daemon in started:
            daemon.close()
        daemon = Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)
        started.append(daemon)
        session = Session(daemon, cwd=code, client="test-client 1.0", context_id="test")
        call(session, "up")
        settled(session)
        return session

    yield begin
    for daemon in started:
        daemon.close()


def inside_of(session: Session) -> FileParts:
    inside: FileParts | None = workspace_of(session).overlay.inside  # type: ignore[union-attr]
    assert inside is not None
    return inside


def workspace_of(session: Session) -> Workspace:
    return session.daemon.workspace("shop")


def settled(session: Session) -> None:
    until(lambda: inside_of(session).report()["state"] == "ready", 60)


def get(session: Session, uri: str) -> dict[str, Any]:
    answer = call(session, "get", {"uris": [uri]})
    assert answer["missing"] == []
    return dict(answer["nodes"][0])


def is_there(session: Session, uri: str) -> bool:
    return not call(session, "get", {"uris": [uri]})["missing"]


def relations(session: Session, uri: str) -> set[tuple[str, str]]:
    return {(one["type"], one["target"]) for one in get(session, uri).get("relations", ())}


def hits(session: Session, query: str) -> list[str]:
    return [hit["uri"] for hit in call(session, "search", {"query": query})["code"]]


def reader(session: Session) -> Any:
    """Of how many files something was done, since the daemon started."""
    return inside_of(session).report.__self__  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.requirement("U11")
def test_symbols_and_documents_are_nodes_with_edges_and_follow_the_tree(
    start: Callable[[], Session], code: Path
) -> None:
    session = start()
    order = get(session, "symbol://shop/shop/orders.py/Order.validate")
    assert (order["type"], order["name"], order["version"]) == ("symbol", "Order.validate", 0)
    assert order["data"]["kind"] == "method"
    assert order["data"]["line"] == 21
    assert ("calls", "symbol://shop/shop/store/base.py/Record.validate") in relations(session, order["uri"])
    file = relations(session, "file://shop/shop/orders.py")
    assert {("defines", "symbol://shop/shop/orders.py/Order"), ("imports", "file://shop/shop/money.py")} <= file
    assert hits(session, "Order.validate")[0] == order["uri"]

    # A document of the tree is found by its words, and its chunks lead on to each other.
    assert "chunk://shop/docs/guide.md/0001" in {end for _, end in relations(session, "file://shop/docs/guide.md")}
    found = hits(session, "kumquat")[0]
    assert found.startswith("chunk://shop/docs/guide.md/")
    assert "kumquat" in get(session, found)["content"]

    # A walk from a symbol finds who calls it, across files.
    walked = call(session, "traverse", {"start": "symbol://shop/shop/money.py/Money.zero", "direction": "in"})
    assert "symbol://shop/app.py/main" in {node["uri"] for node in walked["nodes"]}

    # Nothing of this is stored until a user adds to it; then only the addition is.
    workspace = workspace_of(session)
    assert len(workspace.graph) == 0
    uri = "symbol://shop/shop/money.py/parse"
    word = {"op": "upsert", "uri": uri, "summary": "Reads what a customer typed."}
    relation = {"op": "relate", "source": order["uri"], "type": "see", "target": uri}
    call(session, "put", {"changes": [word, relation]})
    assert sorted(workspace.graph.uris()) == sorted([uri, order["uri"]])
    added = get(session, uri)
    assert added["summary"] == "Reads what a customer typed."
    assert added["data"]["kind"] == "function"
    assert ("calls", "symbol://shop/shop/money.py/Money") in {(r["type"], r["target"]) for r in added["relations"]}

    # An edit inside of a function: one file is read and followed, no other.
    counts = reader(session)
    before = counts.read_count, counts.followed_count
    text = (code / "shop/money.py").read_text()
    (code / "shop/money.py").write_text(
        text.replace("whole = decimal.Decimal(text)", "whole = decimal.Decimal(text) + zero()")
    )
    until(lambda: counts.read_count > before[0])
    settled(session)
    assert (counts.read_count, counts.followed_count) == (before[0] + 1, before[1] + 1)

    # A name that is gone takes the edges of others to it along; the new name is found.
    text = (code / "shop/store/base.py").read_text()
    (code / "shop/store/base.py").write_text(text.replace("def validate", "def examine"))
    until(lambda: is_there(session, "symbol://shop/shop/store/base.py/Record.examine"))
    settled(session)
    assert not is_there(session, "symbol://shop/shop/store/base.py/Record.validate")
    assert not {end for _, end in relations(session, order["uri"])} & {
        "symbol://shop/shop/store/base.py/Record.validate"
    }
    until(lambda: "symbol://shop/shop/store/base.py/Record.examine" in hits(session, "examine"))

    # A renamed file, and a deleted file.
    (code / "shop/audit.py").rename(code / "shop/review.py")
    (code / "docs/guide.md").unlink()
    until(lambda: is_there(session, "symbol://shop/shop/review.py/note"))
    until(lambda: not is_there(session, "chunk://shop/docs/guide.md/0001"))
    settled(session)
    assert not is_there(session, "symbol://shop/shop/audit.py/note")
    assert "file://shop/shop/audit.py" not in {end for _, end in relations(session, "file://shop/shop/orders.py")}
    assert not any("guide.md" in hit for hit in hits(session, "kumquat"))

    # A file that an explicit scan finds before the watcher does.
    (code / "late.py").write_text("def latecomer():\n    pass\n")
    call(session, "ingest", {"source": "."})
    until(lambda: "symbol://shop/late.py/latecomer" in hits(session, "latecomer"))

    # The next start reads nothing again.
    session = start()
    assert is_there(session, "symbol://shop/shop/review.py/note")
    assert reader(session).read_count == 0


VAN = """def load(basket):
    if basket.weight > 9:
        raise ValueError("the van may not carry a marquetry basket")
    token = "ghp_a1B2%s"
"""


@pytest.mark.slow
@pytest.mark.requirement("U11", "N2")
def test_a_file_is_found_by_an_error_message_inside_of_a_function(start: Callable[[], Session], code: Path) -> None:
    (code / "shop" / "van.py").write_text(VAN % ("c3D4" * 8))
    session = start()
    found = hits(session, "ValueError: the van may not carry a marquetry basket")
    assert "shop/van.py" in found[0]
    assert any("shop/van.py" in hit for hit in hits(session, "marquetry")[:1])
    assert call(session, "recall", {"query": "marquetry"})["hits"] == []

    # The whole text may say more than a restricted caller can read.
    principal = Principal("tok00001", "agent", "agent", (Scope.of("shop", ["read"], ["/shop/**"]),))
    restricted = Session(session.daemon, client="claude", principal=principal)
    assert not any("van.py" in hit for hit in hits(restricted, "marquetry"))  # others may be near by meaning
    assert any("shop/van.py" in hit for hit in hits(restricted, "van.py")[:1])

    # Its secrets are neither searched nor kept.
    assert not any("van.py" in hit for hit in hits(session, f"ghp_a1B2{'c3D4' * 8}"))
    with closing(sqlite3.connect(workspace_of(session).derived_dir / "code.sqlite")) as index:
        kept = b"".join(zlib.decompress(body) for (body,) in index.execute("SELECT body FROM bodies"))
    assert b"marquetry" in kept
    assert b"c3d4" not in kept.lower()

    (code / "shop" / "van.py").write_text(VAN.replace("marquetry", "plain") % "")
    until(lambda: not hits(session, "marquetry"))


@pytest.mark.slow
def test_files_that_quote_the_question_come_first_with_their_source_before_a_test(
    start: Callable[[], Session], code: Path
) -> None:
    said = "The lease of the broker has expired"
    (code / "shop" / "pump.py").write_text(f"def run():\n    raise ValueError({said!r})\n\n{'rate = 1' + chr(10)}" * 40)
    (code / "tests").mkdir(exist_ok=True)
    (code / "tests" / "test_lease.py").write_text(f"def test_lease_broker_expired():\n    assert {said!r}\n")
    (code / "shop" / "broker.py").write_text("def lease_expired(broker, lease): return broker.lease.has(lease)\n" * 9)
    (code / "shop" / "keys.py").write_text(
        "CODES = {'ERR_VAN_TOO_LARGE': 'Van {} was not unloaded at the ramp {}'}\n" + "# other lines\n" * 90
    )
    (code / "shop" / "van_large.py").write_text("def too_large(van): return van.large  # ramp 7, unloaded\n" * 9)
    session = start()
    until(lambda: hits(session, said) and hits(session, "ERR_VAN_TOO_LARGE"))

    def files(query: str) -> list[str]:
        found = [uri.partition("://shop/")[2] for uri in hits(session, query)]
        return list(dict.fromkeys(uri[: uri.index(".py") + 3] for uri in found if ".py" in uri))

    assert files(said)[:2] == ["shop/pump.py", "tests/test_lease.py"]
    assert files(f"ERROR 7: {said}")[:2] == ["shop/pump.py", "tests/test_lease.py"]
    assert files("ERR_VAN_TOO_LARGE")[0] == files("err-van-too-large")[0] == "shop/keys.py"
    assert files("Van https://a.example/vans/7 was not unloaded at the ramp /srv/ramps/b2/front")[0] == "shop/keys.py"
    first = call(session, "search", {"query": said})["code"][0]
    assert (first["uri"], first["line"]) == ("symbol://shop/shop/pump.py/run", 2)
    assert (first["why"][0], first["snippet"]) == ("quoted text", f"raise ValueError({said!r})")
    code_of_context = call(session, "context", {"question": said})["code"][0]
    assert (code_of_context["uri"], code_of_context["line"]) == ("symbol://shop/shop/pump.py/run", 2)
    (code / "guide.md").write_text("# Vans\n\n" + "More.\n" * 9 + "\nUnload each van at the northern ramp.\n")
    until(lambda: any("guide.md" in one for one in hits(session, "Unload each van at the northern ramp")))
    guide = call(session, "search", {"query": "Unload each van at the northern ramp"})["code"][0]
    assert "guide.md" in guide["uri"], "a document is stored by chunks, which know no lines"
    assert "line" not in guide
    quoting = {hit.path for hit in workspace_of(session).files_with("the has of the expired", 9)[0] if hit.quoted}
    assert quoting == set(), "no file has these words in a row"


MESSAGES = """def charge(amount, van, ramp):
    if amount < 0:
        raise ValueError("negative charge %d is refused" % amount)
    if van.full:
        raise ValueError(f"van {van.name!r} misses ramp {ramp.number} today")
    raise ValueError("basket {} overdue".format(van))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("negative charge -5 is refused", 3),
        ("ValueError: negative charge -5 is refused", 3),
        ("van 'N-1' misses ramp 12 today", 5),
    ],
)
def test_a_message_is_found_by_the_words_around_its_values(
    start: Callable[[], Session], code: Path, query: str, line: int
) -> None:
    (code / "shop" / "charge.py").write_text(MESSAGES)
    (code / "shop" / "other.py").write_text(f"# negative charge\n{'# other words' + chr(10)}" * 9 + "# is refused\n")
    session = start()
    until(lambda: hits(session, "negative charge"))
    first = call(session, "search", {"query": query})["code"][0]
    assert (first["uri"], first.get("line")) == ("symbol://shop/shop/charge.py/charge", line)
    assert first["why"][0] == "quoted text"


@pytest.mark.slow
def test_the_parts_of_a_message_are_close_to_each_other(start: Callable[[], Session], code: Path) -> None:
    (code / "shop" / "far.py").write_text("# negative charge\n# other words here\n# and one\n# is refused\n" * 2)
    workspace = workspace_of(start())
    until(lambda: workspace.files_with("negative charge", 9)[0])
    assert not [hit for hit in workspace.files_with("negative charge -5 is refused", 9)[0] if hit.quoted and hit.quote]


@pytest.mark.slow
def test_the_shown_part_of_a_long_line_has_the_quote(start: Callable[[], Session], code: Path) -> None:
    row = ", ".join(f"'word{number}'" for number in range(90))
    (code / "shop" / "long.py").write_text(f"ROWS = [{row}, 'the broker lease has lapsed', {row}]\n")
    session = start()
    until(lambda: hits(session, "broker lease has lapsed"))
    first = call(session, "search", {"query": "broker lease has lapsed"})["code"][0]
    assert first["snippet"].startswith("…")
    assert "the broker lease has lapsed" in first["snippet"]
    assert len(first["snippet"]) <= 200


@pytest.mark.slow
def test_in_a_large_tree_a_quoted_run_has_a_word_that_few_files_have(
    start: Callable[[], Session], code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = code / "parts"
    parts.mkdir()
    for number in range(20):
        (parts / f"part{number}.py").write_text("# gauge, hose, valve, pump\n")
    (parts / "run.py").write_text("# pump valve hose gauge\n")
    (parts / "begun.py").write_text("# marquetry pump valve hose, and no gauge\n")
    (parts / "whole.py").write_text("# marquetry pump valve hose gauge pump valve hose gauge\n")
    workspace = workspace_of(start())
    run = "pump valve hose gauge"

    def quoting(query: str) -> set[str]:
        return {hit.path for hit in workspace.files_with(query, 9)[0] if hit.quoted}

    until(lambda: quoting(run) == {"parts/run.py", "parts/whole.py"})
    monkeypatch.setattr(code_index, "FEWEST_LOOKED_AT", 4)
    assert quoting(run) == set(), "nearly all files have these words"
    assert quoting(f"marquetry {run} {run}") == {"parts/whole.py"}, "the other one ends after four words"


@pytest.mark.slow
def test_a_word_that_the_code_has_only_in_another_spelling_is_found_and_counts_as_missing(
    start: Callable[[], Session], code: Path
) -> None:
    (code / "shop" / "paint.py").write_text("# The color of a van, and its behaviour.\n")
    workspace = workspace_of(start())
    until(lambda: workspace.files_with("colour behaviour", 5)[0])
    found, known = workspace.files_with("colour behaviour", 5)
    assert [hit.path for hit in found][:1] == ["shop/paint.py"]
    assert known == {"behaviour"}


@pytest.mark.slow
def test_an_unreadable_file_is_reported_and_affects_no_other(start: Callable[[], Session], code: Path) -> None:
    (code / "broken.py").write_text("def f(:\n")
    (code / "generated.py").write_text("# Code generated by a tool. DO NOT EDIT.\nclass Made: pass\n")
    (code / "deep.js").write_text("(" * 50_000 + ")" * 50_000)
    (code / "deep.py").write_text("x = " + "-" * 9_000 + "1\n")
    (code / "small.js").write_text("function f(){" + "a();" * 4_000 + "}")
    (code / "secret.py").write_text('TOKEN = "ghp_' + "a1B2" * 9 + 'c3"\n')
    (code / "twice.py").write_text("class A:\n    def f(self): pass\n    def f(self, x): pass\n")
    (code / "main.zig").write_text("pub fn main() void {}\n")
    os.symlink(code, code / "loop")
    session = start()
    report = call(session, "status")["code"]
    assert report["left_out"]["it is not valid Python"] == 2
    assert report["left_out"]["generated"] == 1
    assert report["left_out"]["minified"] >= 1
    assert report["missing"] == [{"language": "zig", "files": 1, "install": "tree-sitter tree-sitter-zig"}]
    assert report["languages"]["python"]["symbols"] > 30
    assert is_there(session, "symbol://shop/twice.py/A.f~2")
    assert not is_there(session, "symbol://shop/broken.py/f")
    assert get(session, "symbol://shop/secret.py/TOKEN")["content"] == "TOKEN\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "left_out"),
    [
        ("os.abort()", {"its parser crashed": 1}),
        ("[None for _ in iter(int, 1)]", {"it took too long": 1}),
        ("time.sleep(3.5)", {}),  # as on a busy machine: the limit is one of processor time
    ],
)
def test_a_file_that_ends_the_process_is_left_out_and_all_others_are_read(
    start: Callable[[], Session], code: Path, monkeypatch: pytest.MonkeyPatch, action: str, left_out: dict[str, int]
) -> None:
    program = code.parent / "program.py"  # the real process, with one more thing in it
    program.write_text(
        "import os, sys, time\n"
        "from kgd.daemon import code_index_process\n"
        "from kgd.overlay import code_reader\n"
        "before = code_reader.extract\n"
        "def extract(path, data, language):\n"
        "    if path.endswith('money.py'):\n"
        f"        {action}\n"
        "    return before(path, data, language)\n"
        "code_reader.extract = extract\n"
        "code_index_process.FILE_SECONDS = 3.0\n"
        "sys.exit(code_index_process.main(sys.argv[1:]))\n"
    )
    monkeypatch.setattr("kgd.daemon.code_index_process.PROGRAM", (str(program),))
    session = start()
    assert call(session, "status")["code"]["left_out"] == left_out
    assert is_there(session, "symbol://shop/shop/orders.py/Order")
    assert is_there(session, "symbol://shop/shop/money.py/Money") == (not left_out)


@pytest.mark.parametrize(
    ("program", "state", "blocker"),
    [
        ("import time; time.sleep(60)", "waiting", "files left to read"),
        ("import sys; sys.exit(3)", "degraded", "its parser crashed"),
    ],
)
def test_status_reports_that_the_code_is_not_read(
    home: Home, code: Path, monkeypatch: pytest.MonkeyPatch, program: str, state: str, blocker: str
) -> None:
    (code.parent / "program.py").write_text(program)
    monkeypatch.setattr("kgd.daemon.code_index_process.PROGRAM", (str(code.parent / "program.py"),))
    with closing(Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)) as daemon:
        session = Session(daemon, cwd=code, client="test-client 1.0", context_id="test")
        call(session, "up")

        def stage() -> dict[str, Any]:
            return next(one for one in call(session, "status")["stages"] if one["name"] == "code")

        until(lambda: (stage()["state"], blocker in stage().get("blocker", "")) == (state, True), say=stage)
        assert call(session, "status")["health"] == state


@pytest.mark.slow
def test_context_says_that_the_code_is_still_being_read(
    home: Home, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code.parent / "program.py").write_text("import time; time.sleep(60)")
    monkeypatch.setattr("kgd.daemon.code_index_process.PROGRAM", (str(code.parent / "program.py"),))
    for number in range(20):
        (code / f"more{number}.py").write_text(f"def f{number}(): pass\n")
    with closing(Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)) as daemon:
        session = Session(daemon, cwd=code, client="test-client 1.0", context_id="test")
        call(session, "up")
        for asked in ("Order", "shop/orders.py", "how are orders made?"):
            answer = call(session, "context", {"paths": [asked]})
            assert "the code is still being read: ask again in a moment" in answer["notes"]
            assert "The code has no" not in str(answer)


@pytest.mark.slow
def test_an_index_that_is_damaged_is_made_again(start: Callable[[], Session], code: Path) -> None:
    session = start()
    path = workspace_of(session).derived_dir / "code.sqlite"
    session.daemon.close()
    path.write_bytes(b"not a database" * 1_000)
    session = start()
    assert is_there(session, "symbol://shop/shop/orders.py/Order")


def test_a_document_of_the_tree_has_the_chunks_of_an_ingested_one() -> None:
    cut = code_index_process.Chunker()
    pieces = cut("docs/guide.md", GUIDE.encode())
    assert pieces[0][0] == "Guide"
    assert "kumquat" in "".join(text for _, text in pieces)
    secret = "ghp_" + "a1B2" * 9 + "c3"
    pieces = cut("docs/guide.md", GUIDE.replace("Amounts", f"With {secret}\nAmounts").encode())
    assert secret not in "".join(text for _, text in pieces)
    assert "Amounts are in cents." in "".join(text for _, text in pieces)
    with pytest.raises(ValueError, match="binary"):
        cut("docs/guide.md", b"\0\1\2" * 100)


@pytest.mark.slow
def test_stored_memories_and_the_code_itself_are_two_lists(start: Callable[[], Session]) -> None:
    session = start()
    for fact in ("Whoever validates an order has to look at its currency as well.", "Bread is baked at night."):
        call(session, "remember", {"text": fact, "about": ["shop/orders.py"]})
    found = call(session, "search", {"query": "Order validate"})
    assert found["hits"][0]["name"].startswith("Whoever validates")
    assert {one["type"] for one in found["hits"]} == {"insight"}
    assert found["code"][0]["uri"] == "symbol://shop/shop/orders.py/Order.validate"
    assert call(session, "recall", {"query": "Order validate"})["hits"] == found["hits"]


@pytest.mark.parametrize(
    ("name", "text", "warns"),
    [
        ("package.json", '{"name": "shop", "version": "1.0.0"}', True),
        ("package.json", '{"name": "shop", "private": true}', False),
        ("package.json", '{"name": "shop", "files": ["dist"]}', False),
        ("Dockerfile", "FROM scratch\nCOPY . /app\n", True),
        ("Dockerfile", "FROM scratch\nCOPY shop ./\n", False),
        ("MANIFEST.in", "graft .\n", True),
        ("MANIFEST.in", "include README.md\n", False),
    ],
)
def test_up_warns_of_a_build_that_ships_every_file(
    home: Home, code: Path, name: str, text: str, *, warns: bool
) -> None:
    (code / name).write_text(text)
    with closing(Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)) as daemon:
        told = call(Session(daemon, cwd=code, client="test-client 1.0", context_id="test"), "up")["warnings"]
    assert [name in one for one in told if "may ship" in one] == [True] * warns
