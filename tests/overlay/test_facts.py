"""What a file or directory says about itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kgd.overlay.facts import HEAD_BYTES, UNREADABLE, language_of, mime_type_of, read, readable_size, unread, utc
from tests.overlay.support import file, folder, scanned, write


def data(root: Path, name: str) -> dict[str, object]:
    node = scanned(root).node(file(name))
    assert node is not None
    return dict(node.data)


@pytest.mark.requirement("E10")
def test_a_file_has_all_the_named_facts(tmp_path: Path) -> None:
    write(tmp_path, {"src/main.py": "import os\n\nprint(os.name)\n"})
    os.utime(tmp_path / "src/main.py", ns=(0, 1_700_000_000_999_999_999))
    node = scanned(tmp_path).node(file("src/main.py"))
    assert node is not None
    assert node.type == "resource"
    assert node.name == "main.py"
    assert node.summary == "python, 3 lines, 26 B"
    assert node.data == {
        "file_type": "python",
        "extension": ".py",
        "size_bytes": 26,
        "line_count": 3,
        "mime_type": "text/x-python",
        "last_modified": "2023-11-14T22:13:20Z",
    }


@pytest.mark.requirement("E10")
def test_a_directory_has_all_the_named_facts_and_contains_its_members(tmp_path: Path) -> None:
    write(tmp_path, {"src/a.py": "12345", "src/deep/b.py": "123", "src/deep/er/c.py": ""})
    node = scanned(tmp_path).node(folder("src"))
    assert node is not None
    assert node.type == "concept"
    assert node.data == {"node_type": "directory", "file_count": 3, "total_size": 8, "depth": 1}
    assert [(r.type, r.target, r.weight) for r in node.relations] == [
        ("contains", folder("src/deep"), 1.0),
        ("contains", file("src/a.py"), 1.0),
    ]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"a", 1),
        (b"a\nb", 2),
        (b"a\r\nb\r\n", 2),
        (b"x\n" * 300_000, 300_000),
        (b"\xff\xfe\n", 1),
    ],
)
def test_lines_are_counted_as_an_editor_shows_them(tmp_path: Path, content: bytes, lines: int) -> None:
    (tmp_path / "f.txt").write_bytes(content)
    assert data(tmp_path, "f.txt")["line_count"] == lines


def test_a_binary_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_bytes(b"x\n" * 100 + b"\0")
    facts = data(tmp_path, "module.py")
    assert "line_count" not in facts
    assert facts["binary"] is True
    assert facts["file_type"] == "binary"
    (tmp_path / "late.py").write_bytes(b"x\n" * HEAD_BYTES + b"\0")
    assert data(tmp_path, "late.py")["line_count"] == HEAD_BYTES + 1


def test_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    for name, head in (("disk.img", b"\0"), ("huge.log", b"text\n" * 2000)):
        with open(tmp_path / name, "wb") as big:
            big.write(head)
            big.truncate(1 << 30)
    begun = time.process_time()
    overlay = scanned(tmp_path)
    assert time.process_time() - begun < 5
    log = overlay.node(file("huge.log"))
    assert log is not None
    assert log.data["line_count_skipped"] == "larger than 8 MiB"
    assert log.data["size_bytes"] == 1 << 30
    assert overlay.report().large == 1
    assert overlay.report().binary == 1


def test_a_replacement_of_a_file_after_the_listing_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    listed = unread(os.lstat(tmp_path / "f"))
    (tmp_path / "f").unlink()
    assert read(str(tmp_path / "f"), "f", listed, 0).content == UNREADABLE
    os.mkfifo(tmp_path / "f")
    assert read(str(tmp_path / "f"), "f", listed, 0).content == UNREADABLE
    (tmp_path / "f").unlink()
    (tmp_path / "f").symlink_to("/etc/passwd")
    assert read(str(tmp_path / "f"), "f", listed, 0).content == UNREADABLE


@pytest.mark.parametrize(
    ("name", "head", "language", "mime"),
    [
        ("a.py", b"", "python", "text/x-python"),
        ("A.PY", b"", "python", "text/x-python"),
        ("a.js", b"", "javascript", "text/javascript"),
        ("a.tsx", b"", "typescript", "text/x-typescript"),
        ("README.md", b"", "markdown", "text/markdown"),
        ("README", b"", "text", "text/plain"),
        ("Makefile", b"", "makefile", "text/x-makefile"),
        ("Dockerfile.test", b"", "dockerfile", "text/x-dockerfile"),
        ("LICENSE-MIT", b"", "text", "text/plain"),
        (".gitignore", b"", "gitignore", "text/x-gitignore"),
        ("CMakeLists.txt", b"", "cmake", "text/x-cmake"),
        ("a.yml", b"", "yaml", "application/yaml"),
        ("a.json", b"", "json", "application/json"),
        ("a.svg", b"<svg", "svg", "image/svg+xml"),
        ("manage", b"#!/usr/bin/env python3\n", "python", "text/x-python"),
        ("run", b"#! /bin/bash -e\n", "shell", "application/x-sh"),
        ("run", b"#!/usr/bin/env -S node --x\n", "javascript", "text/javascript"),
        ("django.po", b"", "gettext", "text/x-gettext"),
        ("odd.xyz", b"", "text", "text/plain"),
        ("image.png", b"\x89PNG\0", "image", "image/png"),
        ("a.tar.gz", b"\x1f\x8b\0", "archive", "application/gzip"),
        ("font.woff2", b"wOF2\0", "font", "font/woff2"),
        ("paper.pdf", b"%PDF\0", "pdf", "application/pdf"),
        ("prog", b"\x7fELF\0", "binary", "application/octet-stream"),
        ("clip.ts", b"G\0", "binary", "application/octet-stream"),
    ],
)
def test_languages_and_mime_types_are_those_a_person_would_name(
    name: str, head: bytes, language: str, mime: str
) -> None:
    binary = b"\0" in head
    assert language_of(name, head, binary=binary) == language
    assert mime_type_of(name, language, binary=binary) == mime


@pytest.mark.parametrize(
    ("name", "extension"), [(".env", ""), ("a.", ""), ("a.tar.gz", ".gz"), ("..x", ""), ("a.PY", ".PY"), ("a", "")]
)
def test_an_extension_is_what_follows_the_last_dot_of_a_name(tmp_path: Path, name: str, extension: str) -> None:
    (tmp_path / name).write_text("")
    assert data(tmp_path, name)["extension"] == extension


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_700, "1.0 MB"), (41_616_426, "42 MB")]
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert readable_size(size) == text


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (10**30, "9999-12-31T23:59:59Z"),
        (-(10**30), "0001-01-01T00:00:00Z"),
    ],
)
def test_times_are_utc_for_any_value_of_the_file_system(moment: int, text: str) -> None:
    assert utc(moment) == text
