"""Cached history and repeated requests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.index.version_cache import VersionFile, VersionRow


def row(count: int) -> VersionRow:
    return VersionRow(count, 100, "Ada", 100 + count, "Grace", f"{count:040x}")


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[VersionFile]:
    file = VersionFile(tmp_path / "versions.sqlite")
    yield file
    file.close()


def test_versions_are_kept_by_path_together_with_the_commit_they_reflect(versions: VersionFile) -> None:
    assert (versions.head(), versions.version("nodes/a.yaml")) == (None, None)
    versions.bump([("nodes/a.yaml", row(1)), ("nodes/b.yaml", row(1)), ("nodes/\udcff.yaml", row(3))], head="c1")
    versions.bump([("nodes/a.yaml", row(2))], head="c2")
    assert versions.head() == "c2"
    assert versions.versions(["nodes/a.yaml", "nodes/b.yaml", "nodes/\udcff.yaml"]) == {
        "nodes/a.yaml": row(2),
        "nodes/b.yaml": row(1),
        "nodes/\udcff.yaml": row(3),
    }
    versions.replace([("nodes/c.yaml", row(7))], head="c3")
    assert (versions.version("nodes/a.yaml"), versions.version("nodes/c.yaml")) == (None, row(7))


def test_many_paths_are_looked_up_in_one_call(versions: VersionFile) -> None:
    paths = [f"nodes/{n}.yaml" for n in range(1300)]
    versions.bump([(path, row(1)) for path in paths], head="c")
    assert len(versions.versions(paths)) == 1300


def test_a_failed_transaction_moves_neither_rows_nor_head(versions: VersionFile) -> None:
    versions.bump([("a", row(1))], head="c1")
    with contextlib.suppress(ZeroDivisionError), versions.write():
        versions.bump([("a", row(2))], head="c2")
        raise ZeroDivisionError
    assert (versions.version("a"), versions.head()) == (row(1), "c1")


def test_a_request_is_answered_as_the_first_time_also_after_a_restart(versions: VersionFile) -> None:
    versions.remember("r1", "aaa")
    versions.remember("r1", "bbb")
    versions.close()
    again = VersionFile(versions.path)
    assert (again.request("r1"), again.request("r2")) == ("aaa", None)
    again.close()
