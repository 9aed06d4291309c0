"""This file is where a repository is read together with objects that nobody has written into it."""

from __future__ import annotations

from collections.abc import Iterable

from kgd.git.objects import Object, ObjectId
from kgd.git.store import READ_LIMIT, ObjectStore


class Unwritten(ObjectStore):
    """The same repository, and these objects as well: for one thread, as long as one computation takes.

    Everything that reads sees them, `tree`, `diff` and `commit` included; `write` and refs know nothing of them.
    """

    def __init__(self, store: ObjectStore, objects: Iterable[Object] = ()) -> None:
        self.__dict__.update(store.__dict__)
        self._unwritten: dict[ObjectId, Object] = {}
        if isinstance(store, Unwritten):
            self._unwritten.update(store._unwritten)
        self.add(objects)

    def add(self, objects: Iterable[Object]) -> None:
        self._unwritten.update((made.id, made) for made in objects)

    def _read(self, id: ObjectId, limit: int = READ_LIMIT) -> tuple[str, bytes]:
        made = self._unwritten.get(id)
        return (made.kind, made.body) if made else super()._read(id, limit)
