from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.errors import Damaged
from kgd.git.objects import (
    FILE,
    FOLDER,
    Commit,
    Signature,
    commit_body,
    make,
    object_id,
    parse_commit,
    parse_tree,
    signature,
    text,
    trailers,
    tree_body,
    with_trailers,
)
from kgd.model.change import Author
from tests.git.support import git

names = st.binary(min_size=1, max_size=12).filter(lambda n: b"/" not in n and b"\0" not in n)
entries = st.dictionaries(names, st.tuples(st.sampled_from([FILE, FOLDER]), st.binary(min_size=20, max_size=20)))


@pytest.mark.slow
@given(entries)
def test_a_tree_read_back_is_the_tree_that_was_written(tree: dict[bytes, tuple[bytes, bytes]]) -> None:
    body = tree_body(tree)
    assert parse_tree(body) == tree
    assert tree_body(parse_tree(body)) == body


def test_a_tree_is_ordered_as_git_orders_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in ("a", "a.b", "a-b", "ab", "a0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("x")
        (tmp_path / f"{name}.yaml").write_text("y")
    git(tmp_path, "add", ".")
    id = git(tmp_path, "write-tree").strip()
    body = subprocess.run(["git", "-C", str(tmp_path), "cat-file", "tree", id], capture_output=True, check=True).stdout
    shuffled = dict(sorted(parse_tree(body).items(), key=lambda item: item[1]))
    assert object_id("tree", tree_body(shuffled)).hex() == id


@pytest.mark.parametrize("body", [b"100644 a", b"100644 a\0short", b"\0" * 30, b"100644  \0" + b"x" * 5])
def test_a_malformed_tree_is_damaged_and_nothing_else(body: bytes) -> None:
    with pytest.raises(Damaged):
        parse_tree(body)


def test_git_reads_our_commits_with_any_names_and_message(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    who = Signature("  <Ann>\n\0 Other.", "ann @example.org>\n", -5)
    body = commit_body(bytes.fromhex("4b825dc642cb6eb9a060e54bf8d69288fbee4904"), [], who, who, "one\0two\n\n\udce9\n")
    git(tmp_path, "hash-object", "-t", "tree", "-w", "/dev/null")
    written = subprocess.run(
        ["git", "-C", str(tmp_path), "hash-object", "-t", "commit", "-w", "--stdin"], input=body, capture_output=True
    )
    assert written.stdout.decode().strip() == object_id("commit", body).hex(), written.stderr
    assert git(tmp_path, "fsck", "--strict") == f"dangling commit {object_id('commit', body).hex()}\n"
    commit = parse_commit(object_id("commit", body), body)
    assert (commit.author.name, commit.author.email, commit.author.time) == ("Ann    Other", "ann@example.org", 0)
    assert commit.message == "one\ufffdtwo\n\n\ufffd\n"


def test_commits_of_other_programs_are_read_as_far_as_possible() -> None:
    body = (
        b"tree " + b"a" * 40 + b"\nparent " + b"b" * 40 + b"\nparent " + b"c" * 40 + b"\n"
        b"author J\xf6rg <> 12 +0230\ncommitter nonsense\nencoding latin1\ngpgsig -----BEGIN\n tree x\n -----END\n\nhi"
    )
    commit = parse_commit(b"i" * 20, body)
    assert [p.hex() for p in commit.parents] == ["b" * 40, "c" * 40]
    assert commit.author == ("Jörg", "", 12, "+0230")
    assert commit.committer == ("nonsense", "", 0, "+0000")
    assert commit.subject == "hi"


def a_commit(author: bytes, encoding: bytes = b"", message: bytes = b"m") -> Commit:
    header = b"encoding " + encoding + b"\n" if encoding else b""
    identity = b"author " + author + b"\ncommitter " + author + b"\n"
    return parse_commit(b"i" * 20, b"tree " + b"a" * 40 + b"\n" + identity + header + b"\n" + message)


@pytest.mark.parametrize(
    ("encoding", "name", "read"),
    [
        (b"", b"J\xfcrgen", "J\ufffdrgen"),
        (b"", b"\xff\xfe", "\ufffd\ufffd"),
        (b"", b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"ISO-8859-1", b"J\xfcrgen", "Jürgen"),
        (b"windows-1252", b"\x80", "€"),
        (b"euc-jp", b"\xc6\xfc", "日"),
        (b"euc-jp", b"\xff", "\ufffd"),
        (b"no-such", b"J\xfc", "J\ufffd"),
        (b"unicode_escape", b"\\ud800", "\\ud800"),
        (b"utf-7", b"+2AA-", "+2AA-"),
        (b"\xff", b"a", "a"),
        (b"iso8859-99", b"\xfc", "\ufffd"),
    ],
)
def test_names_and_messages_in_any_encoding_become_text(encoding: bytes, name: bytes, read: str) -> None:
    commit = a_commit(name + b" <" + name + b"> 7 +0000", encoding, name)
    assert (commit.author.name, commit.author.email, commit.message) == (read, read, read)
    assert commit.committer == commit.author
    str.encode(commit.author.name + commit.message)  # no half of a surrogate pair


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"253402300799", 253_402_300_799),
        (b"253402300800", 253_402_300_799),
        (b"9" * 40, 253_402_300_799),
        (b"1" * 5000, 253_402_300_799),
        (b"0" * 30 + b"17", 17),
        (b"-5", 0),
        (b"-" + b"9" * 30, 0),
        (b"0", 0),
    ],
)
def test_times_are_valid_calendar_times(written: bytes, read: int) -> None:
    assert a_commit(b"x <x@y> " + written + b" +9999").author.time == read


@pytest.mark.parametrize("body", [b"", b"parent " + b"a" * 40 + b"\n\nx", b"tree xyz\n\n", b"tree " + b"g" * 40])
def test_a_commit_without_a_tree_is_damaged(body: bytes) -> None:
    with pytest.raises(Damaged):
        parse_commit(b"i" * 20, body)


def test_an_author_is_written_with_the_client(tmp_path: Path) -> None:
    assert signature(Author("Ann", "ann@x", "claude-code 2.1"), 7) == ("Ann (claude-code 2.1)", "ann@x", 7, "+0000")
    assert signature(Author("Ann", "ann@x"), 7).name == "Ann"


@pytest.mark.requirement("B3")
def test_trailers_come_back_and_a_caller_cannot_forge_them() -> None:
    message = with_trailers("subject\n\nKgd-Request: forged", [("Kgd-Op", "put"), ("Kgd-Nodes", "a\nb: c")])
    assert trailers(message) == [("Kgd-Op", "put"), ("Kgd-Nodes", "a b: c")]
    assert trailers("Kgd-Op: only a subject") == []
    assert trailers("s\n\nbody\nKgd-Op: put\n\n\n") == [("Kgd-Op", "put")]


@given(st.binary(max_size=200))
def test_any_bytes_of_a_commit_are_a_commit_or_damaged(tail: bytes) -> None:
    body = b"tree " + b"a" * 40 + b"\n" + tail
    try:
        commit = parse_commit(make("commit", body).id, body)
    except Damaged:
        return
    assert isinstance(text(body), str)
    trailers(commit.message)
