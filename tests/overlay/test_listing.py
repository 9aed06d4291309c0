"""Which entries of a tree belong to it."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgd.model.uri import from_path, parse
from kgd.overlay.listing import NESTED, SPECIAL, TOO_LONG
from kgd.overlay.overlay import Overlay
from tests.overlay.support import WS, file, folder, git, git_files, nodes, paths, repository, scanned, write

NAMES = ["a", "b", "build", "x.o", "y.c", "keep", ".hid", "é", "sp ace", "q*"]
PATTERNS = ["*.o", "build/", "/a", "a/*", "!keep", "**/b", "q\\*", ".*", "!a/keep", "sp ace", "é/", "/a/b/"]


@pytest.mark.requirement("E10")
def test_every_file_and_directory_of_a_repository_is_served(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {"README.md": "# x\n", "src/a.py": "", "src/deep/er/b.py": ""})
    write(root, {"new.txt": "not added yet"})
    (root / "empty").mkdir()
    overlay = scanned(root)
    assert paths(overlay) == {"README.md", "src/a.py", "src/deep/er/b.py", "new.txt"}
    assert paths(overlay, "dir") == {"src", "src/deep", "src/deep/er", "empty"}


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    tracked=st.sets(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join), max_size=8),
    new=st.sets(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join), max_size=8),
    patterns=st.lists(st.sampled_from(PATTERNS), max_size=4),
)
def test_the_files_are_the_ones_git_would_add(tracked: set[str], new: set[str], patterns: list[str]) -> None:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        git(root, "init", "-q")
        _write_what_fits(root, tracked)
        git(root, "add", "-Af")
        (root / ".gitignore").write_text("\n".join(patterns))
        _write_what_fits(root, new)
        for path in sorted(tracked)[::3]:
            (root / path).unlink(missing_ok=True) if (root / path).is_file() else None
        assert paths(scanned(root)) == git_files(root)


def _write_what_fits(root: Path, wanted: set[str]) -> None:
    for path in sorted(wanted):
        try:
            write(root, {path: path})
        except OSError:
            # A file of that name is where a directory would have to be, or the other way round.
            continue


def test_ignored_files_are_left_out_and_tracked_ones_are_not(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {".gitignore": "*.log\nout/\n", "kept.log": ""})
    git(root, "add", "-f", "kept.log")
    git(root, "commit", "-q", "-m", "kept", "--allow-empty")
    write(root, {"noise.log": "", "out/made.c": "", "src/.gitignore": "*.tmp", "src/a.tmp": "", "src/a.c": ""})
    overlay = scanned(root)
    assert paths(overlay) == {".gitignore", "kept.log", "src/.gitignore", "src/a.c"}
    assert overlay.report().ignored == 3
    assert overlay.card(folder("out")) is None


def test_ignored_files_that_appear_during_a_scan_are_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "r", {".gitignore": ".env\nbuild/\n", "a.c": ""})
    overlay = scanned(root)
    answers = [{".env": "password\n", "b.c": ""}, {"sub/.env": "password\n", "build/keys": "", "c.c": ""}, {}]
    followed_by(monkeypatch, tmp_path, root, answers)
    assert overlay.rescan().added == (file("b.c"),)
    assert overlay.rescan().added == (file("c.c"),)


def followed_by(monkeypatch: pytest.MonkeyPatch, place: Path, root: Path, answers: list[dict[str, str]]) -> None:
    """From now on the files of `answers` appear as soon as git has answered for the first time, the second, and so on.

    After the last answer nothing more appears.
    """
    programs = place / "programs"
    programs.mkdir()
    for number, files in enumerate(answers):
        (programs / str(number)).mkdir()
        write(programs / str(number), files)
    (programs / "git").write_text(
        f"""#!/bin/sh
{shutil.which("git")} "$@"
status=$?
for waiting in {programs}/[0-9]*; do
    cp -r $waiting/. {root} && rm -r $waiting
    break
done
exit $status
"""
    )
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


def test_a_persons_own_ignore_file_counts(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {"a.c": "", "a.swp": ""})
    git(root, "rm", "-q", "--cached", "a.swp")
    home = Path(os.environ["HOME"])
    (home / "mine").write_text("*.swp\n")
    git(root, "config", "--global", "core.excludesFile", "~/mine")
    overlay = Overlay(root, WS, environment=dict(os.environ))
    overlay.scan()
    assert paths(overlay) == {"a.c"}
    assert paths(scanned(root)) == {"a.c", "a.swp"}


def test_kgd_and_git_folders_are_never_listed(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {"a": ""})
    write(root, {".kgd/nodes/concept/x.yaml": "uri: x", "sub/.kgd/y": ""})
    assert paths(scanned(root)) == {"a"}
    plain = tmp_path / "plain"
    write(plain, {".kgd/x": "", ".git/config": "not a repository", "a": ""})
    assert paths(scanned(plain)) == {"a"}


@pytest.mark.parametrize("in_repository", [True, False])
def test_nested_repositories_and_submodules_are_directories_without_members(
    tmp_path: Path, in_repository: bool
) -> None:
    root = tmp_path / "r"
    root.mkdir()
    if in_repository:
        repository(root, {"a": ""})
    other = repository(tmp_path / "other", {"inner.txt": "x"})
    if in_repository:
        git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "vendor/lib")
    repository(root / "nested", {"secret.txt": "x"})
    overlay = scanned(root)
    assert not paths(overlay) & {"nested/secret.txt", "vendor/lib/inner.txt"}
    node = overlay.node(folder("nested"))
    assert node is not None
    assert node.data["nested_repository"] is True
    assert not node.relations
    assert overlay.report().skipped[NESTED] == (2 if in_repository else 1)
    assert not overlay.exists(file("nested/secret.txt"))


def test_a_work_tree_of_the_project_is_a_repository_like_the_first(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {".gitignore": "*.o\n", "a": ""})
    git(root, "worktree", "add", "-q", str(tmp_path / "second"), "-b", "other")
    write(tmp_path / "second", {"b": "", "c.o": ""})
    assert paths(scanned(tmp_path / "second")) == {".gitignore", "a", "b"}


def test_a_folder_of_a_repository_is_listed_from_there(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {".gitignore": "*.o\n/top/x\n", "top/sub/a": "", "other": ""})
    write(root, {"top/sub/b.o": "", "top/x": "", "top/y": ""})
    assert paths(scanned(root / "top")) == {"sub/a", "y"}


def test_a_folder_that_a_repository_around_it_ignores_is_a_tree_of_its_own(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {".gitignore": "/scratch/\n"})
    write(root, {"scratch/notes.md": "x", "scratch/node_modules/m.js": ""})
    write(root, {"scratch/deep/er/notes.md": "x"})
    for below, found in (("scratch", {"notes.md", "deep/er/notes.md"}), ("scratch/deep/er", {"notes.md"})):
        overlay = scanned(root / below)
        assert paths(overlay) == found
        assert not overlay.report().repository
        assert overlay.report().reason == ""


def test_a_repository_in_which_everything_is_ignored_shows_nothing(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {})
    write(root, {".gitignore": "*\n", "a": "", "b/c": ""})
    assert paths(scanned(root)) == set()


def test_outside_a_repository_what_programs_made_for_themselves_is_left_out(tmp_path: Path) -> None:
    write(
        tmp_path / "plain",
        {
            "plan.md": "",
            ".env.example": "",
            ".github/workflows/ci.yml": "",
            "node_modules/m/index.js": "",
            "pkg/__pycache__/a.pyc": "",
            "pkg/a.py": "",
            "myenv/pyvenv.cfg": "",
            "myenv/lib/x.py": "",
            "target/CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55",
            "target/x.o": "",
            ".svn/entries": "",
        },
    )
    overlay = scanned(tmp_path / "plain")
    assert paths(overlay) == {"plan.md", ".env.example", ".github/workflows/ci.yml", "pkg/a.py"}
    assert not overlay.report().repository
    for left_out in ("node_modules/m/index.js", "myenv/lib/x.py", "target/x.o"):
        assert not overlay.exists(file(left_out))


def test_symlinks_are_listed_and_not_followed(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {"src/a.py": "x\n"})
    (tmp_path / "outside").write_text("secret\n" * 9)
    (root / "loop").symlink_to(".")
    (root / "src/up").symlink_to("..")
    (root / "out").symlink_to("../outside")
    (root / "gone").symlink_to("nowhere")
    overlay = scanned(root)
    assert paths(overlay) == {"src/a.py", "loop", "src/up", "out", "gone"}
    for name in ("loop", "src/up", "out", "gone"):
        node = overlay.node(file(name))
        assert node is not None
        assert node.data["symlink"] is True
        assert "line_count" not in node.data
        assert overlay.exists(file(name))
    assert not overlay.exists(file("loop/src/a.py"))


def test_fifos_and_sockets_are_skipped_and_block_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "r", {"a": ""})
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("sock")
        overlay = scanned(root)
    assert paths(overlay) == {"a"}
    assert overlay.report().skipped == {SPECIAL: 2}
    assert not overlay.exists(file("pipe"))


def test_paths_without_a_uri_are_counted_and_the_rest_is_served(tmp_path: Path) -> None:
    root = tmp_path / "deep"
    root.mkdir()
    (root / "a").write_text("")
    here = root
    for _ in range(70):
        here = here / "d"
    here.mkdir(parents=True)
    (here / "too-deep").write_text("")
    long = root
    for _ in range(4):
        # Three characters a byte in the URI: 4 x 201 x 3 is over its 2,048.
        long = long / ("\udc80" * 201)
    long.mkdir(parents=True)
    overlay = scanned(root)
    assert overlay.card(file("a"))
    assert overlay.report().skipped == {TOO_LONG: 2}
    assert all(parse(uri) == uri for uri in overlay.uris())


@pytest.mark.slow
@given(st.sets(st.binary(min_size=1, max_size=40), min_size=1, max_size=12))
def test_names_of_any_bytes_are_served_under_their_one_uri(names: set[bytes]) -> None:
    with tempfile.TemporaryDirectory() as made:
        usable = {n.replace(b"/", b"_").replace(b"\0", b"_") for n in names} - {b".", b"..", b".git", b".kgd"}
        for name in usable:
            Path(made, os.fsdecode(name)).write_bytes(b"one line")
        Path(made, "_").mkdir(exist_ok=True) if b"_" not in usable else None
        git(Path(made), "init", "-q")
        overlay = scanned(Path(made))
        found = nodes(overlay)
        assert {from_path("file", WS, name) for name in usable} == {uri for uri in found if uri.startswith("file:")}
        for uri, node in found.items():
            assert parse(uri) == uri
            assert node.data.get("line_count", 1) == 1
            assert overlay.exists(uri)
            assert "\n" not in node.title


def test_an_unreadable_file_or_directory_is_named_and_blocks_nothing() -> None:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        root.chmod(0o755)
        write(root, {"open.txt": "x\n", "shut.txt": "x\n", "closed/inner.txt": "x"})
        (root / "shut.txt").chmod(0)
        (root / "closed").chmod(0)
        seen = _as_somebody_else(root)
    assert seen == [
        "dir://ws/_ directory, 2 files, 4 B",
        "file://ws/open.txt text, 1 line, 2 B",
        "file://ws/shut.txt text, 2 B, cannot be read",
        "dir://ws/closed directory, unreadable",
    ]


def _as_somebody_else(root: Path) -> list[str]:
    """The listing for a user without rights; as root the walk runs as an unprivileged user."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            overlay = scanned(root)
            cards = [overlay.card(uri) for uri in overlay.uris()]
            os.write(writing, "\n".join(f"{card.uri} {card.summary}" for card in cards if card).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as said:
        seen = said.read().splitlines()
    os.waitpid(child, 0)
    return seen


def test_a_repository_that_git_will_not_read_falls_back_and_says_so(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {".gitignore": "out/\n", "a": "", "out/b": ""})
    overlay = scanned(root)
    index = (root / ".git/index").read_bytes()
    (root / ".git/index").write_bytes(b"DIRC garbage")
    write(root, {"new": ""})
    overlay.rescan()
    assert "index" in overlay.report().reason
    assert "new" in paths(overlay)
    assert "out/b" not in paths(overlay), "the last rules stay in force"
    (root / ".git/index").write_bytes(index)
    overlay.rescan()
    assert overlay.report().reason == ""


def test_ignored_files_are_not_served_if_git_cannot_name_them_from_the_start(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {".gitignore": ".env\n", "a": "", ".env": "PASSWORD=x\n"})
    index = (root / ".git/index").read_bytes()
    (root / ".git/index").write_bytes(b"DIRC garbage")
    overlay = scanned(root)
    assert paths(overlay) == set()
    assert (overlay.report().mode, "index" in overlay.report().reason) == ("absent", True)
    (root / ".git/index").write_bytes(index)
    overlay.rescan()
    assert paths(overlay) == {".gitignore", "a"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_the_repository_of_another_user_is_reported_with_the_command_that_trusts_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {"a": ""})
    for path in root, root / ".git":
        os.chown(path, 65534, 65534)
    overlay = scanned(root)
    command = f"`git config --global --add safe.directory {root}`"
    assert overlay.report().reason == f"another user owns the repository; if you trust that user, run {command}"
