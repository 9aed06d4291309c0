"""Facts are kept over a restart, and never believed further than their files' stamps."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgd.overlay.overlay import Overlay
from kgd.overlay.tree import load_facts
from tests.overlay.support import WS, file, nodes, repository, write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = repository(tmp_path / "project", {f"d{n % 4}/f{n}.py": "x\n" * n for n in range(40)})
    write(root, {"caf\udce9/\udcff\n": "odd"})
    return root


def scan(root: Path, cache: Path) -> tuple[Overlay, int]:
    """An overlay as after a restart, and how many files it read."""
    overlay = Overlay(root, WS, cache=cache, clock=lambda: 2**62)
    totals = [0]
    overlay.scan(lambda _, total: totals.append(total))
    return overlay, totals[-1]


def test_a_restart_reads_only_changed_files(project: Path, tmp_path: Path) -> None:
    cache = tmp_path / "derived" / "facts"
    first, read = scan(project, cache)
    assert read == 41
    again, read = scan(project, cache)
    assert read == 0
    assert nodes(again) == nodes(first)
    write(project, {"d0/f0.py": "while it was down\n", "new": ""})
    (project / "d1/f1.py").unlink()
    later, read = scan(project, cache)
    assert read == 2
    assert nodes(later) == nodes(Overlay(project, WS)) | nodes(scan(project, tmp_path / "none")[0])


def test_a_rescan_is_kept_when_asked(project: Path, tmp_path: Path) -> None:
    overlay, _ = scan(project, tmp_path / "facts")
    write(project, {"new": "x"})
    overlay.rescan()
    overlay.save()
    assert scan(project, tmp_path / "facts")[1] == 0


@pytest.mark.parametrize("at", [0, 5, 14, 60, 200, -1])
def test_a_damaged_cache_is_no_cache(project: Path, tmp_path: Path, at: int) -> None:
    cache = tmp_path / "facts"
    scan(project, cache)
    data = bytearray(cache.read_bytes())
    data[at] ^= 1
    cache.write_bytes(data)
    assert load_facts(cache) is None
    overlay, read = scan(project, cache)
    assert read == 41
    assert overlay.card(file("d1/f1.py"))
    assert scan(project, cache)[1] == 0


@pytest.mark.parametrize("content", [b"", b"\n", b"\0" * 100, b"kgd-facts 1 \n[]"])
def test_another_file_in_its_place_is_no_cache(project: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "facts").write_bytes(content)
    assert load_facts(tmp_path / "facts") is None
    assert scan(project, tmp_path / "facts")[1] == 41


def test_a_cache_of_another_tree_gives_no_wrong_facts(project: Path, tmp_path: Path) -> None:
    scan(project, tmp_path / "facts")
    other = repository(tmp_path / "other", {"d0/f0.py": "1\n2\n3\n"})
    overlay, read = scan(other, tmp_path / "facts")
    assert read == 1
    node = overlay.node(file("d0/f0.py"))
    assert node is not None
    assert node.data["line_count"] == 3


def test_where_the_cache_cannot_be_written_the_overlay_works(
    project: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "facts").mkdir()
    overlay, _ = scan(project, tmp_path / "facts")
    assert overlay.card(file("d1/f1.py"))
    assert "could not be written" in caplog.text
    assert not list(tmp_path.glob("*.new"))
