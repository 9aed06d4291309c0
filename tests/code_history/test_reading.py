"""The history of the code is read once, kept current, and can be deleted at any time."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from kgd.code_history import reading
from kgd.code_history.history import CodeHistory
from kgd.code_history.reading import new_commit, update
from kgd.git import code_log
from kgd.git.discovery import Place, find_place
from kgd.index.commit_index import LISTED, CommitIndex
from tests.code_history.support import BEGIN, DAY, Code, git


def place(code: Code) -> Place:
    found = find_place(code.root)
    assert found is not None
    return found


def subjects(history: CodeHistory, *paths: str) -> list[str]:
    return [one.subject for one in history.lately(paths, 20)]


@pytest.mark.requirement("N3")
def test_commits_are_stored_with_subject_reason_time_and_paths(code: Code) -> None:
    code.commit("Add the session store", "src/session.py")
    tip = code.commit(
        "Rotate keys\n\nKeys leaked in May.\n\nSigned-off-by: Ann <ann@example.org>", "src/keys.py", "a.md"
    )
    [newest, first] = code.history().lately([""], 10)
    assert (newest.id, newest.at, newest.subject, newest.reason) == (
        tip,
        BEGIN + 2 * DAY,
        "Rotate keys",
        "Keys leaked in May.",
    )
    assert (newest.paths, first.paths) == (("a.md", "src/keys.py"), ("src/session.py",))


@pytest.mark.requirement("N3")
def test_no_address_of_a_person_is_stored(code: Code, tmp_path: Path) -> None:
    code.commit("Ask carol@example.com first\n\nSee dave@example.net.\n\nCo-authored-by: Eve <eve@example.org>", "a")
    history = code.history()
    assert subjects(history, "a") == ["Ask first"]
    history.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("history.sqlite*"))
    assert b"Ask" in stored
    assert b"@example" not in stored


def test_a_new_commit_is_in_the_next_answer(code: Code) -> None:
    code.commit("one", "a")
    history = code.history()
    assert subjects(history, "a") == ["one"]
    code.commit("two", "a")
    assert subjects(history, "a") == ["two", "one"]


def test_commits_that_are_no_longer_reachable_are_dropped(code: Code) -> None:
    code.commits([("one", "a"), ("two", "a"), ("three", "a", "b")])
    history = code.history()
    assert subjects(history, "a") == ["three", "two", "one"]
    git(code.root, "reset", "-q", "--hard", "HEAD~2")
    assert subjects(history, "a", "b") == ["one"]
    assert [file.path for file in history.files_for("three", 5)] == []
    git(code.root, "commit", "-q", "--amend", "-m", "one, again")
    assert subjects(history, "a") == ["one, again"]


def test_history_without_any_former_commit_is_read_anew(code: Code) -> None:
    code.commits([("one", "a"), ("two", "a")])
    history = code.history()
    assert subjects(history, "a") == ["two", "one"]
    git(code.root, "checkout", "-q", "--orphan", "fresh")
    git(code.root, "commit", "-q", "-m", "fresh start")
    git(code.root, "branch", "-q", "-D", "main")
    git(code.root, "reflog", "expire", "--expire=now", "--all")
    git(code.root, "gc", "-q", "--prune=now")
    assert subjects(history, "a") == ["fresh start"]


def test_an_interrupted_reading_continues(code: Code, tmp_path: Path) -> None:
    code.commits([(f"commit {number}", "a") for number in range(9)])
    tip = code_log.head(place(code))
    listed = [new_commit(one) for one in code_log.commits(place(code), tip)]
    index = CommitIndex(tmp_path / "history.sqlite")
    index.add(listed[2:5], newer=False)  # then the power failed, and two commits followed
    history = code.history()
    assert subjects(history, "a") == [f"commit {number}" for number in range(8, -1, -1)]
    assert history.is_read


def test_a_stopped_reading_leaves_a_sound_index(code: Code, tmp_path: Path) -> None:
    code.commits([("one", "a"), ("two", "a")])
    stop = Event()
    stop.set()
    history = code.history()
    history.update(stop)
    assert subjects(history, "a") == ["two", "one"]


def test_only_the_newest_commits_are_kept(code: Code, tmp_path: Path) -> None:
    code.commits([(f"commit {number}", "a") for number in range(20)])
    index = CommitIndex(tmp_path / "few.sqlite")
    assert update(index, place(code), code_log.head(place(code)), limit=5) == 5
    assert [row.subject for row in sorted(index.commits(index.touching(["a"], 99)).values())] == [
        f"commit {number}" for number in range(15, 20)
    ]


@pytest.mark.parametrize("damage", [b"", b"no database at all" * 100, None])
def test_a_deleted_or_damaged_index_is_rebuilt(code: Code, tmp_path: Path, damage: bytes | None) -> None:
    code.commits([("one", "a"), ("two", "a")])
    history = code.history()
    assert subjects(history, "a") == ["two", "one"]
    history.close()
    for path in tmp_path.glob("history.sqlite*"):
        path.unlink()
    if damage is not None:
        (tmp_path / "history.sqlite").write_bytes(damage)
    subjects(history, "a")  # this call may meet the damage
    assert subjects(history, "a") == subjects(code.history("other.sqlite"), "a") == ["two", "one"]


def test_a_wide_commit_is_found_by_its_text_and_relates_no_files(code: Code) -> None:
    many = [f"vendor/{number}.js" for number in range(LISTED + 1)]
    code.commit("Vendor the gizmo library", *many)
    code.commit("unrelated", "a")
    history = code.history()
    assert [one.subject for one in history.commits_for("gizmo library")] == ["Vendor the gizmo library"]
    assert history.lately(["vendor/1.js"]) == []
    assert all(not file.commits for file in history.files_for("gizmo library", 5))


def test_a_renamed_file_keeps_its_past(code: Code) -> None:
    text = "".join(f"line {number}\n" for number in range(30))
    code.commit("Add signing of tokens", files={"src/sign.py": text})
    code.commit("Move it", files={"src/sign.py": None, "lib/signing.py": text})
    code.commit("Move and edit it", files={"lib/signing.py": None, "lib/tokens.py": f"{text}more\n"})
    history = code.history()
    assert subjects(history, "lib/tokens.py") == ["Move and edit it", "Move it", "Add signing of tokens"]
    assert history.files_for("signing of tokens", 1)[0].path == "lib/tokens.py"
    assert subjects(history, "src/sign.py") == []


def test_a_rename_after_the_first_reading_is_followed(code: Code) -> None:
    text = "".join(f"line {number}\n" for number in range(30))
    code.commit("Add signing of tokens", files={"src/sign.py": text})
    history = code.history()
    assert subjects(history, "src/sign.py") == ["Add signing of tokens"]
    code.commit("Move it", files={"src/sign.py": None, "lib/signing.py": text})
    assert subjects(history, "lib/signing.py") == ["Move it", "Add signing of tokens"]
    git(code.root, "reset", "-q", "--hard", "HEAD~1")
    assert subjects(history, "src/sign.py") == ["Add signing of tokens"]


def test_code_without_commits_or_repository_has_no_history(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    for root in (tmp_path / "empty", None):
        history = CodeHistory(root, tmp_path / "history.sqlite")
        assert history.lately([""]) == history.commits_for("anything") == []
        assert history.files_for("anything") == []
        assert history.is_current


def test_history_that_git_cannot_read_is_tried_once(code: Code) -> None:
    code.commits([("one", "a"), ("two", "a")])
    history = code.history()
    (code.root / ".git/HEAD").write_text("0" * 39 + "1\n")
    assert history.lately(["a"]) == []
    assert history.is_current
    assert not history.is_read
    (code.root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    assert subjects(history, "a") == ["two", "one"]


def test_merges_are_found_by_their_text_and_touch_nothing(code: Code) -> None:
    code.commit("base", "a")
    git(code.root, "checkout", "-q", "-b", "topic")
    (code.root / "b").write_text("b")
    git(code.root, "add", "b")
    git(code.root, "commit", "-q", "-m", "Teach the parser umlauts")
    git(code.root, "checkout", "-q", "main")
    git(code.root, "merge", "-q", "--no-ff", "topic", "-m", "Merge topic\n\nUmlauts in identifiers are valid.")
    history = code.history()
    assert {one.subject for one in history.commits_for("umlauts")} == {"Merge topic", "Teach the parser umlauts"}
    assert subjects(history, "b") == ["Teach the parser umlauts"]


@pytest.mark.slow
@pytest.mark.requirement("N3")
def test_twenty_thousand_commits_are_read_in_bounded_batches(code: Code, tmp_path: Path) -> None:
    code.commits([(f"change part {number % 97}", f"src/{number % 97}.py") for number in range(20_000)])
    history = code.history()
    history.update()
    assert history.is_read
    assert history.count() == 20_000
    assert history.lately(["src/96.py"], 1)[0].subject == "change part 96"
    assert reading.BATCH <= 1_000
