"""A workspace with a conflict in it, and clients that have a model, or something that says it is one."""

from __future__ import annotations

from tests.surfaces.conftest import Ask, code, daemon, session, upsert, ws

__all__ = ["code", "daemon", "session", "ws"]


def disagree(ask: Ask, name: str, field: str = "summary", values: tuple[object, ...] = ("one", "two", "three")) -> str:
    """An open conflict over one field, and its id: a change is reverted after another one went over it."""
    second = [
        ask.put(changes=upsert(name, **{field: value}, **({"expect_version": n} if n else {})))["commit"]
        for n, value in enumerate(values[:2])
    ][1]
    ask.put(changes=upsert(name, **{field: values[2]}, expect_version=2))
    ask.revert(commit=second)
    (found,) = ask.conflicts(uri=name)["conflicts"]
    return str(found["id"])
