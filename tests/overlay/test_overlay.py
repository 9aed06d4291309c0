"""How the overlay follows the tree, and what its readers see meanwhile."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgd.graph.traverse import traverse
from kgd.model.uri import Uri
from kgd.overlay.facts import TEXT, File
from kgd.overlay.overlay import Overlay
from kgd.overlay.tree import Delta, Directory, Tree
from tests.overlay.support import (
    WS,
    file,
    fingerprint,
    folder,
    git,
    git_files,
    nodes,
    paths,
    repository,
    scanned,
    write,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "project", {f"src/p{n % 5}/m{n:02d}.py": f"x = {n}\n" * n for n in range(80)})


@pytest.mark.requirement("E20")
def test_touched_moved_and_deleted_files_are_followed(project: Path) -> None:
    overlay = scanned(project)
    files = sorted(paths(overlay))
    for path in files[:20]:
        write(project, {path: "changed\n"})
    for path in files[20:40]:
        (project / path).rename(project / path.replace(".py", "_moved.py"))
    for path in files[40:60]:
        (project / path).unlink()
    delta = overlay.rescan()
    assert paths(overlay) == git_files(project)
    assert set(delta.added) == {file(path.replace(".py", "_moved.py")) for path in files[20:40]}
    assert set(delta.removed) == {file(path) for path in files[20:60]}
    assert {uri for uri in delta.changed if uri.startswith("file:")} == {file(path) for path in files[:20]}
    assert nodes(overlay) == nodes(scanned(project))
    assert not overlay.rescan()


def test_a_path_is_ignored_with_its_folder(project: Path) -> None:
    write(project, {".gitignore": "/.gitignore\nout/\n*.log\n", "out/a/b.o": "", "src/x.log": "", "kept.log": ""})
    git(project, "add", "-f", "kept.log")
    overlay = scanned(project)
    asked = ["out", "out/a/new.o", "out/.gitignore", ".gitignore", "src/x.log", "src/new.py", "kept.log", "."]
    assert [path for path in asked if overlay.ignores(path)] == ["out/a/new.o", "src/x.log"]


@pytest.mark.requirement("E20")
def test_another_commit_and_another_branch_are_followed(project: Path) -> None:
    first = git(project, "rev-parse", "HEAD").decode().strip()
    git(project, "checkout", "-q", "-b", "other")
    shutil.rmtree(project / "src/p1")
    write(project, {"docs/new.md": "# new\n"})
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "second")
    overlay = scanned(project)
    git(project, "checkout", "-q", "--detach", first)
    delta = overlay.rescan()
    assert folder("src/p1") in delta.added
    assert folder("docs") in delta.removed
    assert paths(overlay) == git_files(project)
    git(project, "checkout", "-q", "other")
    overlay.rescan()
    assert nodes(overlay) == nodes(scanned(project))


def test_a_changed_ignore_file_is_followed(project: Path) -> None:
    write(project, {"out/a.bin": ""})
    overlay = scanned(project)
    write(project, {".gitignore": "out/\n"})
    assert folder("out") in overlay.rescan().removed
    write(project, {".gitignore": ""})
    assert file("out/a.bin") in overlay.rescan().added


@pytest.mark.requirement("E10")
def test_scans_do_not_change_a_byte_of_the_code_repository(project: Path) -> None:
    # An index whose entries are out of date is what a careless `git status` would rewrite.
    for path in project.rglob("*.py"):
        os.utime(path)
    before, head = fingerprint(project / ".git"), (project / ".git").stat().st_mtime_ns
    overlay = scanned(project)
    overlay.rescan()
    overlay.exists(file("not/there.py"))
    write(project, {"new.py": ""})
    assert overlay.exists(file("new.py"))
    assert fingerprint(project / ".git") == before
    assert (project / ".git").stat().st_mtime_ns == head


Step = tuple[str, str, str]
_PATHS = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a", "d/e/f/g", "_", "_/x", "é/ü", "node_modules/m"])
_STEPS = st.tuples(st.sampled_from(["write", "remove", "touch", "move", "mkdir", "link"]), _PATHS, _PATHS)


@pytest.mark.slow
@pytest.mark.requirement("E20")
@settings(max_examples=40)
@given(st.lists(st.lists(_STEPS, max_size=6), min_size=1, max_size=4))
def test_a_rescan_tells_exactly_what_became_different(rounds: list[list[Step]]) -> None:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        write(root, {"keep": "", "d/keep": "1\n"})
        overlay = scanned(root)
        for steps in rounds:
            before = nodes(overlay)
            for number, step in enumerate(steps):
                _take(root, step, number)
            delta = overlay.rescan()
            after = nodes(overlay)
            assert set(delta.added) == after.keys() - before.keys()
            assert set(delta.removed) == before.keys() - after.keys()
            really = {uri for uri in after.keys() & before.keys() if after[uri] != before[uri]}
            assert really <= set(delta.changed) <= after.keys() & before.keys()
            assert after == nodes(scanned(root))
            _is_consistent(overlay)


def _take(root: Path, step: Step, number: int) -> None:
    what, path, other = step
    try:
        if what == "write":
            write(root, {path: "line\n" * number})
        elif what == "touch":
            os.utime(root / path, ns=(number, number * 10**9))
        elif what == "move":
            (root / path).rename(root / other)
        elif what == "mkdir":
            (root / path).mkdir(parents=True)
        elif what == "link":
            (root / path).symlink_to(other)
        elif (root / path).is_dir() and not (root / path).is_symlink():
            shutil.rmtree(root / path)
        else:
            (root / path).unlink()
    except OSError:
        # The step does not fit the tree that the steps before it made.
        return


def _is_consistent(overlay: Overlay) -> None:
    """Relations lead to existing nodes and back, and totals add up the members."""
    tree = overlay.view
    for uri in tree.uris():
        edges = tree.out(uri)
        assert list(edges) == sorted(edges)
        for edge in edges:
            assert tree.card(edge.target) is not None
            assert [back.target for back in tree.into(edge.target)] == [uri]
        found = tree.find(uri)
        if isinstance(found, Directory):
            inside = [tree.find(edge.target) for edge in edges]
            assert found.file_count == sum(f.file_count if isinstance(f, Directory) else 1 for f in inside if f)
            assert found.total_size == sum(f.total_size if isinstance(f, Directory) else f.size for f in inside if f)


def test_readers_see_the_old_state_or_the_new_one_and_never_half(tmp_path: Path) -> None:
    root = tmp_path / "r"
    for number in range(60):
        write(root, {f"d{number % 6}/f{number}": "a"})
    overlay = scanned(root)
    done = threading.Event()
    wrong: list[str] = []

    def read_on() -> None:
        while not done.is_set():
            try:
                _is_consistent(overlay)
            except AssertionError as error:
                wrong.append(str(error))

    reader = threading.Thread(target=read_on)
    reader.start()
    for turn in range(6):
        for number in range(0, 60, 3):
            path = root / f"d{number % 6}" / f"f{number}"
            path.unlink() if path.exists() else path.write_text("b" * turn)
        overlay.rescan()
    done.set()
    reader.join()
    assert not wrong


def test_a_state_that_a_reader_holds_does_not_change(project: Path) -> None:
    overlay = Overlay(project, WS, clock=lambda: 2**62)  # long after: nothing is so fresh that it is read again
    overlay.scan()
    view = overlay.view
    before = {uri: view.node(uri) for uri in view.uris()}
    shutil.rmtree(project / "src/p1")
    overlay.rescan()
    assert {uri: view.node(uri) for uri in view.uris()} == before
    assert overlay.node(folder("src/p1")) is None
    assert overlay.view.root is not None
    assert view.root is not None
    assert overlay.view.root.folders["src"].folders["p2"] is view.root.folders["src"].folders["p2"], "shared"


def test_a_file_is_read_again_only_where_its_stamps_are_new(project: Path) -> None:
    overlay = Overlay(project, WS, clock=lambda: 2**62)
    read: list[int] = []
    overlay.scan(lambda _, total: read.append(total))
    write(project, {"src/p0/m00.py": "changed"})
    overlay.scan(lambda _, total: read.append(total))
    overlay.scan(lambda _, total: read.append(total))
    assert (read[0], read[-2], read[-1]) == (80, 1, 0)


def test_a_file_read_within_the_tick_of_its_last_change_is_read_again(project: Path) -> None:
    moment = [0]
    overlay = Overlay(project, WS, clock=lambda: moment[0])
    totals: list[int] = []
    overlay.scan(lambda _, total: totals.append(total))
    overlay.scan(lambda _, total: totals.append(total))
    moment[0] = 2**62
    overlay.scan(lambda _, total: totals.append(total))
    overlay.scan(lambda _, total: totals.append(total))
    assert totals == [80, 80, 80, 0]


@pytest.mark.requirement("E10")
def test_a_scan_shows_progress_and_can_be_interrupted(tmp_path: Path) -> None:
    for number in range(600):
        write(tmp_path, {f"d{number % 7}/f{number}": "x"})
    overlay = Overlay(tmp_path, WS, clock=lambda: 2**62)
    stop = threading.Event()
    seen: list[tuple[int, int]] = []

    def stop_half_way(done: int, total: int) -> None:
        seen.append((done, total))
        if done > total // 2:
            stop.set()

    assert overlay.scan(stop_half_way, stop) == Delta(complete=False)
    assert overlay.report().mode == "unscanned"
    assert not list(overlay.uris())
    assert seen[0][1] == 600
    delta = overlay.scan(lambda done, total: seen.append((done, total)))
    assert len(delta.added) == 608
    assert seen[-1][0] == seen[-1][1] < 300, "files read before the interruption are not read again"


def test_stopped_before_it_began_a_scan_changes_nothing(project: Path) -> None:
    overlay = scanned(project)
    before = nodes(overlay)
    write(project, {"new.py": ""})
    stop = threading.Event()
    stop.set()
    assert not overlay.scan(stop=stop).complete
    assert nodes(overlay) == before


@pytest.mark.parametrize("leave_empty", [False, True])
def test_a_tree_that_went_away_serves_nothing_says_so_and_comes_back(project: Path, leave_empty: bool) -> None:
    overlay = Overlay(project, WS, clock=lambda: 2**62)
    added = overlay.scan().added
    away = project.with_name("away")
    project.rename(away)
    if leave_empty:
        project.mkdir()
    delta = overlay.rescan()
    assert delta.removed == added
    assert overlay.report().mode == "absent"
    assert "directory" in overlay.report().reason
    assert overlay.node(folder("")) is None
    assert overlay.card(file("src/p1/m01.py")) is None
    assert not overlay.out(folder(""))
    assert not overlay.exists(file("src/p1/m01.py"))
    assert not overlay.rescan()
    if leave_empty:
        project.rmdir()
    away.rename(project)
    totals: list[int] = []
    assert overlay.scan(lambda _, total: totals.append(total)).added == added
    assert totals == [0]
    assert overlay.report().mode == "ready"
    assert overlay.report().reason == ""


def test_a_root_that_is_a_file_or_was_never_there_is_absent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "nowhere"):
        overlay = scanned(root)
        assert overlay.report().mode == "absent"
        assert not list(overlay.uris())


@pytest.mark.requirement("E8")
def test_whether_a_path_exists_is_answered_before_any_scan_saw_it(project: Path) -> None:
    overlay = scanned(project)
    write(project, {"src/new.py": "", ".gitignore": "*.log\n", "x.log": ""})
    assert overlay.exists(file("src/new.py"))
    (project / "empty").mkdir()
    (project / "lit*ral").write_text("")
    assert overlay.exists(folder("src"))
    assert overlay.exists(folder("empty"))
    assert overlay.exists(file("lit*ral"))
    assert not overlay.exists(file("lit*"))
    assert overlay.exists(folder(""))
    (project / "src/p1/m01.py").unlink()
    assert not overlay.exists(file("src/p1/m01.py"))
    for other in ("file://ws/x.log", "file://ws/src", "dir://ws/src/new.py", "file://else/src/new.py"):
        assert not overlay.exists(Uri(other))
    for odd in (
        "concept://ws/src",
        "https://example.org/src",
        "file://ws/.git/HEAD",
        "file://ws/src/%00",
        "file://ws/",
    ):
        assert not overlay.exists(Uri(odd))
    assert Overlay(project, WS).exists(file("src/new.py"))


def test_a_path_has_no_second_uri(tmp_path: Path) -> None:
    write(tmp_path, {"a": "", "b c": "", "_/d": "", "e\u0301": ""})
    overlay = scanned(tmp_path)
    served = ["file://ws/a", "file://ws/b%20c", "dir://ws/_", "dir://ws/%5F", "file://ws/_/d", "file://ws/e%CC%81"]
    assert all(overlay.card(Uri(uri)) for uri in served)
    twins = [
        "file://ws/%61",
        "file://ws/b c",
        "file://ws//a",
        "file://ws/./a",
        "dir://ws/",
        "dir://ws",
        "file://ws/e\u0301",
    ]
    for twin in [*twins, "dir://ws/_/_", "file://ws/%5F/d", "file://ws", "file://ws/\ud800", "file://ws/%zz", "", "a"]:
        assert overlay.card(Uri(twin)) is None
        assert overlay.node(Uri(twin)) is None
        assert not overlay.out(Uri(twin))
        assert not overlay.into(Uri(twin))


def test_a_walk_goes_through_directories_to_files(project: Path) -> None:
    overlay = scanned(project)
    walk = traverse([overlay], folder("src"), max_cost=2, max_nodes=1000)
    assert len(walk.nodes) == 1 + 5 + 80
    up = traverse([overlay], file("src/p1/m01.py"), direction="in", max_cost=None)
    assert [visited.uri for visited in up.nodes] == [
        file("src/p1/m01.py"),
        folder("src/p1"),
        folder("src"),
        folder(""),
    ]


@pytest.mark.slow
def test_a_directory_with_more_members_than_a_node_can_name_is_served() -> None:
    full = Directory(files={f"f{number}": File(0, 0, 0, 0, TEXT, 0, "text") for number in range(10_002)})
    full.add_up()
    tree = Tree(WS, full, "full")
    node = tree.node(folder(""))
    assert node is not None
    assert len(node.relations) == 10_000
    assert node.data["contains_left_out"] == 2
    assert len(tree.out(folder(""))) == 10_002


def test_the_report_counts_what_there_is(project: Path) -> None:
    write(project, {".gitignore": "*.o\n", "a.o": ""})
    (project / "image.png").write_bytes(b"\x89PNG\0")
    (project / "link").symlink_to("src")
    report = scanned(project).report()
    assert (report.mode, report.repository, report.files, report.directories) == ("ready", True, 83, 7)
    assert (report.text, report.binary, report.symlinks, report.ignored) == (81, 1, 1, 1)
    assert report.bytes == sum(p.lstat().st_size for p in project.rglob("*") if _counts(p))


def _counts(path: Path) -> bool:
    return ".git" not in path.parts and path.suffix != ".o" and (path.is_symlink() or path.is_file())


def test_a_path_that_is_newer_than_the_last_scan_is_served_at_once(project: Path) -> None:
    overlay = scanned(project)
    delivered: list[Delta] = []
    overlay.on_change = delivered.append
    assert overlay.catch_up("src/p0/m00.py", 1.0)
    assert overlay.catch_up("src/absent.py", 1.0)
    assert not delivered
    write(
        project, {"src/new/one.py": "x = 1\n", "src/p1/m01.py": "changed = 1\n", ".gitignore": "*.log\n", "a.log": ""}
    )
    assert overlay.catch_up("a.log", 1.0)
    assert not delivered  # an ignored file is no reason for a scan
    assert overlay.catch_up("src/new", 1.0)
    assert delivered.pop().added
    assert file("src/new/one.py") in overlay.uris()
    write(project, {"src/p1/m01.py": "changed = 12\n"})
    assert overlay.catch_up("src/p1/m01.py", 1.0)
    assert file("src/p1/m01.py") in delivered.pop().changed


def test_a_caller_waits_for_a_running_scan_only_as_long_as_it_wants(project: Path) -> None:
    overlay = scanned(project)
    write(project, {"src/new.py": "x = 1\n"})
    with overlay._scanning:
        assert not overlay.catch_up("src/new.py", 0.01)
    assert overlay.catch_up("src/new.py", 0.01)
