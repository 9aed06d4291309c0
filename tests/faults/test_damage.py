"""Damaged bytes: never a hang, never a wrong answer, and the damaged node is named."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kgd.git.layout import Layout
from tests.faults.damage import KINDS, WORDS, copy, derived_files, make_template, ref_files, spoil, stored
from tests.faults.nursery import Child
from tests.faults.readers import look

pytestmark = pytest.mark.slow

DEADLINE = 30.0
ANSWERS = ("nodes", "versions", "edges", "aliases", "broken", "found", "history", "invalid", "tip")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return make_template(tmp_path_factory.mktemp("template") / "knowledge")


@pytest.fixture(scope="module")
def truth(template: Layout, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    seen = looked_at(copy(template, tmp_path_factory.mktemp("truth") / "knowledge"))
    assert (seen["check"], seen["degraded"], seen["repeated"]) == ([], [], True), seen
    return seen


def looked_at(layout: Layout) -> dict[str, Any]:
    with Child(look, str(layout.work_tree), WORDS) as child:
        seen: dict[str, Any] = child.hear(DEADLINE)
        return seen


def differences(seen: dict[str, Any], truth: dict[str, Any]) -> list[str]:
    return [name for name in ANSWERS if seen.get(name) != truth[name]]


def test_all_derived_files_may_be_deleted(template: Layout, truth: dict[str, Any], tmp_path: Path) -> None:
    layout = copy(template, tmp_path / "knowledge")
    shutil.rmtree(layout.derived_dir)
    seen = looked_at(layout)
    assert differences(seen, truth) == []
    assert (seen["check"], seen["degraded"], seen["repeated"]) == ([], [], True)


def hit_derived(template: Layout, truth: dict[str, Any], place: Path, seed: int) -> str:
    dice = random.Random(seed)
    layout = copy(template, place)
    files = [path for path in derived_files(layout) if path.name in ("index.sqlite", "graph.snapshot")]
    files += derived_files(layout)
    path, kind = dice.choice(files), dice.choice(KINDS)
    spoil(path, kind, dice, quietly=bool(seed % 2))
    seen = looked_at(layout)
    case = f"seed {seed}: {path.name} {kind.__name__}"
    assert not seen.keys() & {"defect", "refused"}, f"{case}: {seen}"
    assert differences(seen, truth) == [], case
    assert seen["repeated"] is True, case
    assert seen["check"] == [], case
    shutil.rmtree(place)
    return path.name


def hit_stored(template: Layout, truth: dict[str, Any], place: Path, seed: int) -> str:
    """Answers are true, or refused as damaged, or the last good value with a line in the list of invalid files."""
    dice = random.Random(seed)
    layout = copy(template, place)
    if seed % 3 == 0:
        shutil.rmtree(layout.derived_dir)
    path, kind = dice.choice(stored(layout)), dice.choice(KINDS)
    before = path.read_bytes()
    spoil(path, kind, dice, quietly=bool(seed % 2))
    case = f"seed {seed}: {path.relative_to(layout.git_dir)} {kind.__name__}"
    seen = looked_at(layout)
    assert "defect" not in seen, f"{case}: {seen}"
    if "refused" in seen:
        assert seen["refused"].startswith(("DAMAGED", "UNAVAILABLE", "LIMIT")), f"{case}: {seen}"
        result = "refused"
    else:
        result = "the same" if not differences(seen, truth) else "named"
        untrue = {
            one: node for one, node in seen["nodes"].items() if node != truth["nodes"].get(one) and not named(one, seen)
        }
        assert untrue == {}, f"{case}: {untrue} {seen['invalid']} {seen['degraded']}"
        missing = [one for one in truth["nodes"] if one not in seen["nodes"] and not named(one, seen)]
        assert missing == [], f"{case}: {missing} {seen['invalid']} {seen['degraded']}"
        wrong = [one for one, row in seen["versions"].items() if row != truth["versions"].get(one) and is_said(row)]
        assert wrong == [], f"{case}: versions of {wrong}"
        if path.read_bytes() != before if path.exists() else True:
            assert result == "the same" or seen["check"] or seen["degraded"], f"{case}: no report of it"
    shutil.rmtree(place)
    return result


def named(one: str, seen: dict[str, Any]) -> bool:
    """Whether the damage of this node is reported: in its answer, or in the list of unreadable files.

    Damaged bytes may read as a size above the limit; then the size is refused.
    """
    answer, name = seen["nodes"].get(one), one.rpartition("/")[2]
    return (isinstance(answer, str) and answer.startswith(("DAMAGED", "LIMIT"))) or any(
        name in path for path, _ in seen["invalid"]
    )


def is_said(row: Any) -> bool:
    return row is not None and not isinstance(row, str)


def hit_ref(template: Layout, truth: dict[str, Any], place: Path, seed: int) -> str:
    """The last good value comes back from the reflog, with a line in `kgd status`; or the workspace refuses."""
    dice = random.Random(seed)
    layout = copy(template, place)
    path, kind = dice.choice(ref_files(layout)), dice.choice(KINDS)
    spoil(path, kind, dice, quietly=False)
    case = f"seed {seed}: {path.relative_to(layout.git_dir)} {kind.__name__}"
    seen = looked_at(layout)
    assert "defect" not in seen, f"{case}: {seen}"
    if "refused" in seen:
        result = f"{path.name} refused"
        assert path.name == "HEAD" or seen["refused"].startswith(("DAMAGED", "UNAVAILABLE")), f"{case}: {seen}"
    else:
        result = "the same"
        assert differences(seen, truth) == [], case
    shutil.rmtree(place)
    return result


HITS = {"derived": hit_derived, "stored": hit_stored, "ref": hit_ref}


@pytest.mark.requirement("B2")
@pytest.mark.parametrize("what", HITS)
def test_damage_is_healed_or_named_and_never_served(
    template: Layout, truth: dict[str, Any], tmp_path: Path, what: str
) -> None:
    for seed in range(6):
        HITS[what](template, truth, tmp_path / str(seed), seed)


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("share", [0.4, pytest.param(1, marks=pytest.mark.large)])
@pytest.mark.parametrize("what", HITS)
def test_damage_is_healed_or_named_and_never_served_in_a_hundred_and_fifty_repositories(
    template: Layout, truth: dict[str, Any], tmp_path: Path, what: str, share: float
) -> None:
    first, count = 1000, int(share * {"derived": 40, "stored": 80, "ref": 30}[what])
    results = Counter(HITS[what](template, truth, tmp_path / str(s), s) for s in range(first, first + count))
    print(what, dict(results))
