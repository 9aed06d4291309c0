"""This file is where a tool is found by its name: in the file that defines it, imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from kgd.tools.tool import Tool


class Catalogue(Mapping[str, Tool]):
    """Tools by name, in the order given. To know their names costs nothing; the first look at one, some milliseconds.

    A daemon starts a third sooner that imports the tools it is asked for, not all of them.

    Args:
        files: By the name of a tool the file of `kgd.tools` that defines it, as a constant of that name in capitals.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def __getitem__(self, name: str) -> Tool:
        module = import_module(f"kgd.tools.{self._files[name]}")
        found = getattr(module, name.upper())
        assert isinstance(found, Tool)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __or__(self, other: Catalogue) -> Catalogue:
        return Catalogue({**self._files, **other._files})
