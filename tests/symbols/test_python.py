"""Python's own parser, which other threads use too."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager

from kgd.symbols import python

SOURCE = "\n".join(f"def f{n}(a, b=[1, (2, {{3: 4}})]):\n    return a.b.c(d)[e:f]" for n in range(40))


@contextmanager
def parsed_meanwhile() -> Iterator[None]:
    """Something else is parsed during each collection of garbage, as by a thread that a finalizer lets run."""

    def parse(*_: object) -> None:
        ast.parse("x")

    before = gc.get_threshold()
    gc.set_threshold(1)
    gc.callbacks.append(parse)
    try:
        yield
    finally:
        gc.callbacks.remove(parse)
        gc.set_threshold(*before)


def test_a_module_is_read_while_something_else_uses_the_parser() -> None:
    with parsed_meanwhile():
        found = python.extract(SOURCE.encode())
    assert len(found.symbols) == 40
    assert gc.isenabled()
