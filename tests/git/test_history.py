from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from kgd.errors import Damaged, NotFound
from kgd.git import creation, history
from kgd.git.history import Versioned
from kgd.git.layout import Layout
from kgd.git.objects import Commit, ObjectId, Signature, make
from kgd.git.store import ObjectStore
from kgd.index.version_cache import VersionFile
from kgd.workspace.answers import Version
from kgd.workspace.derived.version_cache import VersionCache
from kgd.workspace.writing.signing import Seal
from tests.git.support import FIRST_FILES, Pen, git


def person(name: str, when: int) -> Signature:
    return Signature(name, f"{name.lower()}@example.org", when)


def counts(git_dir: Path, tip: ObjectId, since: ObjectId | None = None) -> Counter[str]:
    return Counter({row.path: row.count for row in history.versions(git_dir, tip, since=since)})


@pytest.mark.requirement("E14")
def test_versions_count_commits_and_name_the_first_and_the_last(pen: Pen) -> None:
    first = pen.write({"nodes/a.yaml": b"1\n", "nodes/b.yaml": b"1\n"}, author=person("Ann", 100))
    pen.write({"nodes/a.yaml": b"2\n"}, author=person("Bob", 50))  # a clock that runs behind decides nothing
    last = pen.write({"nodes/a.yaml": b"3\n"}, author=person("Cyd", 300))
    tip = pen.write({"nodes/a.yaml": b"4\n"}, "still true\n\nKgd-Op: verify\n", person("Dan", 400))
    rows = {row.path: row for row in history.versions(pen.layout.git_dir, tip)}
    ann, cyd, dan = (f"{name} <{name.lower()}@example.org>" for name in ("Ann", "Cyd", "Dan"))
    assert rows["nodes/a.yaml"] == Versioned("nodes/a.yaml", 4, 100, ann, 400, dan, tip.hex(), 300, cyd)
    assert rows["nodes/b.yaml"] == Versioned("nodes/b.yaml", 1, 100, ann, 100, ann, first.hex(), 100, ann)
    [row] = [row for row in history.versions(pen.layout.git_dir, tip, since=last) if row.path == "nodes/a.yaml"]
    assert (row.updated_by, row.written_by) == (dan, ""), "the author is known from before"
    assert rows["kgd.yaml"].count == 1


def test_a_merge_counts_where_it_differs_from_every_parent(pen: Pen) -> None:
    base = pen.write({"nodes/a.yaml": b"0\n", "nodes/b.yaml": b"0\n"})
    k, git_dir = pen.layout.work_tree, pen.layout.git_dir
    git(k, "checkout", "-q", "-b", "side", base.hex())
    (k / "nodes/a.yaml").write_text("side\n")
    (k / "nodes/b.yaml").write_text("side\n")
    git(k, "commit", "-qam", "side")
    git(k, "checkout", "-q", "-b", "main", base.hex())
    (k / "nodes/a.yaml").write_text("main\n")
    git(k, "commit", "-qam", "main")
    git(k, "merge", "-q", "side", "-X", "ours", "-m", "merge")
    (k / "nodes/a.yaml").write_text("both\n")
    git(k, "commit", "-qa", "--amend", "--no-edit")
    tip = bytes.fromhex(git(k, "rev-parse", "main").strip())
    found = counts(git_dir, tip)
    assert found["nodes/a.yaml"] == 4, "base, main, side and the merge, which took neither"
    assert found["nodes/b.yaml"] == 2, "the merge took the side's as it was"
    [entry] = history.log(pen.layout.open(), tip, limit=1)
    assert [change.path for change in entry.changes] == ["nodes/a.yaml"]
    assert len(history.log(pen.layout.open(), tip, paths=["nodes/b.yaml"])) == 2


def newest(store: ObjectStore, tip: ObjectId) -> dict[str, str]:
    """The last change of each path, slowly: of the changes that no later one follows, the one of the latest clock."""
    changed: dict[str, list[Commit]] = {}
    for commit in store.history([tip]):
        parents: list[ObjectId | None] = [store.tree_of(parent) for parent in commit.parents] or [None]
        for path in set.intersection(*({d.path for d in store.diff(parent, commit.tree)} for parent in parents)):
            changed.setdefault(path, []).append(commit)
    found = {}
    for path, every in changed.items():
        last = [a for a in every if not any(a is not b and store.is_ancestor(a.id, b.id) for b in every)]
        found[path] = max(last, key=_order).id.hex()
    return found


def _order(one: Commit) -> tuple[int, str, ObjectId]:
    return one.author.time, f"{one.author.name} <{one.author.email}>", one.id


def facts(row: Version | Versioned) -> tuple[int, str, int, str]:
    """The number of changes, the author of the last one, and the last change that is not a verification."""
    written = (row.written_at, row.written_by) if row.written_by else (row.updated_at, row.updated_by)
    return row.count, row.updated_by, *written


def walked(store: ObjectStore, tip: ObjectId) -> Counter[str]:
    """The same, slowly: each commit's tree against each parent's."""
    found: Counter[str] = Counter()
    for commit in store.history([tip]):
        parents: list[ObjectId | None] = [store.tree_of(parent) for parent in commit.parents] or [None]
        differing = [{d.path for d in store.diff(parent, commit.tree)} for parent in parents]
        found.update(set.intersection(*differing))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_versions_agree_with_a_walk_over_random_histories_and_add_up(workspace: Layout, seed: int) -> None:
    pen, rnd = Pen(workspace), random.Random(seed)
    tips = [pen.head]
    for n in range(40):
        parents = rnd.sample(tips, min(len(tips), rnd.choice([1, 1, 2])))
        pen.staging.reset(pen.store.tree_of(parents[0]))
        for _ in range(rnd.randrange(3)):
            pen.staging.put(f"nodes/{rnd.randrange(6)}.yaml", b"%d\n" % rnd.randrange(3))
        new = pen.staging.commit(pen.staging.write_tree(), parents, person("Ann", rnd.randrange(10**9)), f"{n}")
        pen.store.release(pen.store.write(pen.staging.objects))
        tips = [*[tip for tip in tips if tip not in parents or rnd.random() < 0.3][-4:], new]
    tip = tips[-1]
    everything = counts(workspace.git_dir, tip)
    assert everything == walked(pen.store, tip)
    for commit in list(pen.store.history([tip]))[::7]:
        base = counts(workspace.git_dir, commit.id)
        assert base + counts(workspace.git_dir, tip, since=commit.id) == everything


@pytest.mark.parametrize("seed", range(6))
def test_the_last_change_depends_on_the_history_alone(workspace: Layout, seed: int, tmp_path: Path) -> None:
    """Counted from the first commit, or from any earlier one."""
    pen, rnd = Pen(workspace), random.Random(seed)
    tips, clock = [pen.write({f"nodes/{n}.yaml": b"first\n" for n in range(6)}, author=person("Ann", 1))], 10
    for n in range(50):
        parents = rnd.sample(tips, min(len(tips), rnd.choice([1, 1, 2])))
        pen.staging.reset(pen.store.tree_of(parents[0]))
        for _ in range(rnd.randrange(3)):
            pen.staging.put(f"nodes/{rnd.randrange(6)}.yaml", b"%d\n" % rnd.randrange(3))
        clock += rnd.randrange(2)
        by = person(rnd.choice(["Ann", "Bob", "Cyd"]), clock)
        subject = f"{n}\n\nKgd-Op: verify\n" if rnd.random() < 0.3 else f"{n}"
        new = pen.staging.commit(pen.staging.write_tree(), parents, by, subject)
        pen.store.release(pen.store.write(pen.staging.objects))
        tips = [*[tip for tip in tips if tip not in parents or rnd.random() < 0.3][-4:], new]
    tip, expected = tips[-1], newest(pen.store, tips[-1])
    rows = {row.path: row for row in history.versions(workspace.git_dir, tip)}
    assert {path: row.updated_commit for path, row in rows.items()} == expected
    verifications = {one.id.hex() for one in pen.store.history([tip]) if "Kgd-Op: verify" in one.message}
    for number, commit in enumerate(list(pen.store.history([tip]))[::7]):
        file = VersionFile(tmp_path / f"{number}.sqlite")
        cache = VersionCache(
            pen.store, file, lambda: None, Seal(workspace.git_dir), lambda changes: (c.path for c in changes)
        )
        for end in (commit.id, tip):
            cache.count(end)
        found = {path: cache.version(path) for path in rows}
        assert {path: row.updated_commit for path, row in found.items() if row} == expected
        assert {expected[path] for path, row in found.items() if row and row.written_by} <= verifications
        assert {path: facts(row) for path, row in found.items() if row} == {
            path: facts(row) for path, row in rows.items()
        }
        file.close()


@pytest.mark.requirement("E15")
def test_the_log_lists_authors_and_changes_and_continues_after_a_commit(pen: Pen) -> None:
    tips = [
        pen.write({f"nodes/{n % 2}/x.yaml": b"%d\n" % n}, f"change {n}", person("Ann" if n < 4 else "Bob", 1000 + n))
        for n in range(6)
    ]
    store = pen.layout.open()

    def subjects(**asked: object) -> list[str]:
        return [entry.commit.subject for entry in history.log(store, tips[-1], **asked)]  # type: ignore[arg-type]

    assert subjects(limit=2) == ["change 5", "change 4"]
    assert subjects(limit=2, after=tips[4]) == ["change 3", "change 2"]
    assert subjects(paths=["nodes/0"]) == ["change 4", "change 2", "change 0"]
    assert subjects(paths=["nodes/0"], limit=1, after=tips[4]) == ["change 2"]
    assert subjects(author="bob@EXAMPLE") == ["change 5", "change 4"]
    assert subjects(author=".*") == [], "a name is a name and no pattern"
    assert subjects(since=1003, until=1004) == ["change 4", "change 3"]
    assert subjects(paths=["nodes/*"]) == [], "a path is a path and no pattern"
    [entry] = history.log(store, tips[2], limit=1)
    changed = "nodes/0/x.yaml", make("blob", b"0\n").id, make("blob", b"2\n").id
    assert [change[:3] for change in entry.changes] == [changed]
    [created] = history.log(store, tips[0], limit=1)
    assert created.changes[0].old is None
    with pytest.raises(NotFound):
        subjects(after=b"\1" * 20)


def test_paths_that_git_would_quote_come_back_as_they_are(pen: Pen) -> None:
    odd = [
        'nodes/a"b.yaml',
        "nodes/new\nline.yaml",
        "nodes/:colon",
        "nodes/ü.yaml",
        "nodes/caf\udce9",
        "nodes/-rf",
        "\1x",
    ]
    tip = pen.write(dict.fromkeys(odd, b"x\n"))
    assert set(counts(pen.layout.git_dir, tip)) == {*odd, *FIRST_FILES}
    for path in odd:
        assert len(history.log(pen.layout.open(), tip, paths=[path])) == 1


def test_a_history_with_a_hole_is_damaged_not_short(tmp_path: Path) -> None:
    pen = Pen(creation.create_standalone(tmp_path / "w", "demo", FIRST_FILES))
    tip = pen.write({"nodes/a.yaml": b"x\n"})
    first = pen.store.commit(tip).parents[0]
    for idx in pen.store.pack_dir.glob("*.idx"):
        if first in idx.read_bytes():
            idx.unlink()
    with pytest.raises(Damaged):
        list(history.versions(pen.layout.git_dir, tip))
    with pytest.raises(Damaged):
        history.log(pen.layout.open(), tip)


def test_a_time_range_may_begin_before_git_and_end_in_the_far_future(pen: Pen) -> None:
    tip = pen.write({"nodes/a.yaml": b"1\n"}, author=person("Ann", 5_000_000_000))
    everything = history.log(pen.store, tip)
    assert history.log(pen.store, tip, since=-(10**12), until=10**13) == everything
    assert history.log(pen.store, tip, since=0, until=253_402_300_799) == everything
    assert tip not in {entry.commit.id for entry in history.log(pen.store, tip, until=4_999_999_999)}
    assert history.log(pen.store, tip, since=5_000_000_001) == []
