"""Registered paths and the workspaces that they hold.

An entry whose path holds a workspace with another id is an error; no workspace is read or written through it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kgd.config.registry import Entry, RegistryFile
from kgd.errors import InvariantViolation, KgdError, Unavailable
from kgd.git.layout import check_configuration
from kgd.workspace.tip import settings

if TYPE_CHECKING:
    from kgd.git.layout import Layout


class Places:
    """The paths in a registry. Safe for threads.

    Args:
        locate: Returns the layout of the workspace that a directory belongs to, or None.
    """

    def __init__(self, registry: RegistryFile, locate: Callable[[Path], Layout | None]) -> None:
        self._registry, self._locate = registry, locate
        self._ids: dict[tuple[Path, int], str] = {}

    def layout(self, entry: Entry) -> Layout:
        """The layout of an entry's workspace.

        Raises:
            Unavailable: It is not at its path.
            Damaged: Its configuration cannot be read.
        """
        if (found := self.find(entry)) is not None:
            return found
        if entry.remote:
            raise Unavailable(
                f"workspace '{entry.id}' is not cloned yet",
                at=entry.path,
                next=f"`kgd clone {entry.id}` clones it from {entry.remote}.",
            )
        check_configuration(Path(entry.path))
        raise Unavailable(
            f"workspace '{entry.id}' is not at its registered path",
            at=entry.path,
            next="Run `kgd up` in its new folder, or remove it from workspaces.yaml.",
        )

    def find(self, entry: Entry) -> Layout | None:
        """The layout of the workspace at an entry's path, which may have another id; None if there is none."""
        layout = self._locate(Path(entry.path)) if entry.path else None
        return _with_code(layout, entry) if layout is not None else None

    def around(self, directory: Path) -> Layout | None:
        """The workspace that a directory belongs to, or a registered workspace about the code there.

        Raises:
            Damaged: The configuration of the directory's repository cannot be read.
        """
        entries = [one for one in self._registry.current().entries.values() if one.path and one.code]
        if (layout := self._locate(directory)) is None:
            inside = (one for one in entries if directory.resolve().is_relative_to(Path(one.code).resolve()))
            found = next((found for one in inside if (found := self.find(one)) is not None), None)
            if found is None:
                check_configuration(directory)
            return found
        for one in entries:
            if self._locate(Path(one.path)) == layout:
                return _with_code(layout, one)
        return layout

    def id_at(self, entry: Entry) -> str | None:
        """The id of the workspace at an entry's path, or None. Does not open it.

        Raises:
            KgdError: The workspace cannot be read.
        """
        layout = self.find(entry)
        if layout is None:
            return None
        key = layout.git_dir, layout.git_dir.stat().st_ino
        if key not in self._ids:
            self._ids[key] = settings.read(layout, layout.open()).workspace
        return self._ids[key]

    def is_there(self, entry: Entry) -> bool:
        """Whether the workspace of an entry is at its path, or cannot be read. Does not open it."""
        try:
            return self.id_at(entry) == entry.id
        except (KgdError, OSError):
            return True

    def problems(self) -> list[str]:
        """Entries whose path holds another workspace, one sentence each."""
        found = []
        for entry in self._registry.current().entries.values():
            try:
                if (id := self.id_at(entry)) not in (None, entry.id):
                    found.append(f"'{entry.id}': its path {entry.path} holds the workspace '{id}'")
            except (KgdError, OSError):
                continue  # opening it raises the reason
        return found


def misnamed(entry: Entry, id: str) -> InvariantViolation:
    """The error for an entry whose path holds the workspace `id`."""
    return InvariantViolation(
        f"workspaces.yaml has '{entry.id}' at a path that holds the workspace '{id}'",
        at=entry.path,
        next=f"Name the entry '{id}', or give it the path of '{entry.id}'. Nothing was read or written.",
    )


def _with_code(layout: Layout, entry: Entry) -> Layout:
    """The layout with the registry's code tree, if it has none itself."""
    return layout if layout.code_tree or not entry.code else replace(layout, code_tree=Path(entry.code))
