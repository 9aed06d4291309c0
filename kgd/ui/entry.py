"""This file is where one address of the pages is described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kgd.ui.asked import Asked, Handled


@dataclass(frozen=True, slots=True)
class Entry:
    """An address below a workspace, and what answers it, in a worker thread.

    `name` is that of the page in the navigation which it belongs to. One that takes POST changes something, and answers
    with `Go`, or with a page where it was refused.
    """

    name: str
    place: str
    handle: Callable[[Asked], Handled]
    methods: tuple[str, ...] = ("GET",)
