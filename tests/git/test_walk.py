"""Walks over the differences of two trees."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from kgd.errors import Damaged
from kgd.git.objects import FILE, FOLDER, LINK, Entry, ObjectId, make, parse_tree, tree_body
from kgd.git.walk import ENTRY_BUDGET, Change, Changes, changes_of, differences

LIKE_ENTRIES = [(text * 20)[:20] for text in (b"100644 a\0", b"\0", b"40000 b", b"644 c\0x")]


def _compared(objects: Mapping[ObjectId, bytes], old: ObjectId | None, new: ObjectId | None) -> Changes:
    found = differences(lambda id: parse_tree(objects[id]), old, new, ENTRY_BUDGET)
    return {path: Change(was, now) for path, was, now in found}


@pytest.mark.parametrize("seed", range(60))
def test_changes_are_found_at_every_place_in_a_folder(seed: int) -> None:
    chance = random.Random(seed)
    objects: dict[ObjectId, bytes] = {}

    def folder(depth: int) -> dict[bytes, Entry]:
        names = {b"%x" % chance.randrange(40) * chance.randrange(1, 5) for _ in range(chance.choice((0, 1, 3, 30)))}
        return {name: entry(depth) for name in names}

    def entry(depth: int) -> Entry:
        if depth and chance.random() < 0.3:
            return FOLDER, written(folder(depth - 1))
        id = chance.choice(LIKE_ENTRIES) if chance.random() < 0.5 else chance.randbytes(20)
        return chance.choice((FILE, b"100755", LINK)), id

    def edited(entries: dict[bytes, Entry], depth: int) -> dict[bytes, Entry]:
        made = {name: one for name, one in entries.items() if chance.random() < 0.9}
        for name, (mode, id) in list(made.items()):
            if mode == FOLDER and chance.random() < 0.8:
                made[name] = mode, written(edited(parse_tree(objects[id]), depth - 1))
            elif chance.random() < 0.1:
                made[name] = entry(depth)
        return made | ({b"new": entry(depth)} if chance.random() < 0.2 else {})

    def written(entries: dict[bytes, Entry]) -> ObjectId:
        made = make("tree", tree_body(entries))
        objects[made.id] = made.body
        return made.id

    before = folder(3)
    old, new = written(before), written(edited(before, 3))
    for one, other in ((old, new), (new, old), (old, None), (None, new)):
        assert changes_of(objects.__getitem__, one, other) == _compared(objects, one, other)


def test_a_changed_folder_with_a_wrong_name_is_damaged() -> None:
    good, bad = (make("tree", b"100644 %s\0%s" % (name, b"1" * 20)) for name in (b"a", b"a/b"))
    read = {made.id: made.body for made in (good, bad)}.__getitem__
    for sides in ((good.id, bad.id), (bad.id, good.id)):
        with pytest.raises(Damaged):
            changes_of(read, *sides)


def test_an_id_that_ends_like_the_start_of_an_entry_is_still_an_id() -> None:
    for length in range(1, 200):  # some of them end the compared span inside that id
        start, end = b"100644 0\0", b"100644 " + b"x" * length + b"\0" + b"3" * 20
        old = make("tree", start + b"1" * 20 + b"100644 " + end)
        new = make("tree", start + b"1" * 13 + b"100644 " + end)
        read = {made.id: made.body for made in (old, new)}
        found = changes_of(read.__getitem__, old.id, new.id)
        assert found == _compared(read, old.id, new.id)
        assert len(found) == 3
