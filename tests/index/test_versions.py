"""Cached history, served versions and repeated requests."""

from __future__ import annotations

import contextlib

import pytest

from kgd.index.database import Database
from kgd.index.version_cache import VersionRow, Versions
from kgd.model.uri import Uri

A = Uri("concept://w/a")


def row(count: int) -> VersionRow:
    return VersionRow(count, 100, "Ada", 100 + count, "Grace", f"{count:040x}")


@pytest.fixture
def versions(database: Database) -> Versions:
    return Versions(database)


def test_versions_are_kept_by_path_together_with_the_commit_they_reflect(versions: Versions) -> None:
    assert (versions.head(), versions.version("nodes/a.yaml")) == (None, None)
    versions.bump([("nodes/a.yaml", row(1)), ("nodes/b.yaml", row(1)), ("nodes/\udcff.yaml", row(3))], head="c1")
    versions.bump([("nodes/a.yaml", row(2))], head="c2", removed=["nodes/b.yaml", "nodes/never.yaml"])
    assert versions.head() == "c2"
    assert versions.versions(["nodes/a.yaml", "nodes/b.yaml", "nodes/\udcff.yaml"]) == {
        "nodes/a.yaml": row(2),
        "nodes/\udcff.yaml": row(3),
    }
    versions.replace([("nodes/c.yaml", row(7))], head="c3")
    assert (versions.version("nodes/a.yaml"), versions.version("nodes/c.yaml")) == (None, row(7))


def test_many_paths_are_asked_for_at_once(versions: Versions) -> None:
    paths = [f"nodes/{n}.yaml" for n in range(1300)]
    versions.bump([(path, row(1)) for path in paths], head="c")
    assert len(versions.versions(paths)) == 1300


def test_a_failed_transaction_moves_neither_rows_nor_head(versions: Versions, database: Database) -> None:
    versions.bump([("a", row(1))], head="c1")
    with contextlib.suppress(ZeroDivisionError), database.write():
        versions.bump([("a", row(2))], head="c2")
        raise ZeroDivisionError
    assert (versions.version("a"), versions.head()) == (row(1), "c1")


@pytest.mark.requirement("A9")
def test_a_version_means_the_blob_that_was_served_last_under_it(versions: Versions) -> None:
    versions.serve([(A, 5, b"x" * 20), (A, 4, b"w" * 20)])
    assert (versions.served(A, 5), versions.served(A, 6)) == (b"x" * 20, None)
    versions.serve([(A, 5, b"y" * 20)])
    assert versions.served(A, 5) == b"y" * 20


def test_a_request_is_answered_as_the_first_time_also_after_a_restart(versions: Versions, database: Database) -> None:
    versions.remember("r1", "aaa")
    versions.remember("r1", "bbb")
    database.close()
    again = Versions(Database(database.path))
    assert (again.request("r1"), again.request("r2")) == ("aaa", None)
    again._database.close()
