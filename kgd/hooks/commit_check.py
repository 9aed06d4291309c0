"""The check of node files before a commit, for the hooks `pre-commit` and `pre-merge-commit`.

Only changed staged files are read, through the index that git names: for ``git commit -a``, this is not the index in
the git directory. Faults in files from the other side of a merge are reported and do not block the commit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kgd.codec import documents, paths
from kgd.codec.settings import PATH, Settings, decode_settings, misspelt_settings
from kgd.errors import Invalid, KgdError, Limit, NotFound, whole
from kgd.git import program
from kgd.git.objects import EMPTY_TREE, ObjectId
from kgd.hooks.clone import Clone, of_command
from kgd.model.fields import misspelt
from kgd.workspace.memory_files import Home
from kgd.workspace.merging import files
from kgd.workspace.parts import FILE_LIMIT, misspelt_keys
from kgd.workspace.publishing.work_tree import OWNED_FOLDERS
from kgd.workspace.writing.admission import check, twins_among

_PLAIN = "100644"
_AT_ONCE = 200
"""Number of blobs per run of git; their sizes are already known."""


class Staged(NamedTuple):
    """A path whose file in the index differs from HEAD's; ids in hex, all zeros for absence."""

    path: str
    mode: str
    old: str
    new: str


@dataclass(slots=True)
class Findings:
    """Faults in files that this commit changes, faults in files from the other side of a merge, and doubtful keys."""

    own: list[KgdError] = field(default_factory=list)
    inherited: list[KgdError] = field(default_factory=list)
    misspelt: list[str] = field(default_factory=list)
    """Sentences about unknown keys that are probably misspelt fields."""


def check_index(cwd: Path, variables: Mapping[str, str]) -> Findings:
    """Check the files that a commit would change. The cost depends on the number of these files.

    Args:
        variables: The environment that git sets for a hook.

    Raises:
        NotFound: This is not a clone of a workspace.
        KgdError, GitFailed: The check failed.
    """
    index = _Index(of_command(cwd, variables), variables)
    head = index.ask("rev-parse", "--verify", "-q", "HEAD", missing_is="").strip() or EMPTY_TREE.hex()
    changed = [one for one in index.changed(head) if _is_ours(one.path) and one.new.strip("0")]
    settings = index.settings(head)
    elsewhere = {(one.path, one.new) for side in _other_sides(index, variables) for one in index.changed(head, side)}
    found = Findings()
    twins = _twins(index, changed, head, settings)
    home = Home(settings.workspace, settings.sharded, index.file)
    blobs = index.read([id for one in changed for id in (one.new, one.old) if id.strip("0")])
    for one in changed:
        try:
            if one.path in twins:
                raise twins[one.path]
            _check(one, blobs, home)
            found.misspelt += [f"{one.path}: {said}" for said in _misspelt(one.path, blobs[one.new])]
        except KgdError as refusal:
            if not refusal.at.startswith(one.path):
                refusal.at = f"{one.path}:1"
            (found.inherited if (one.path, one.new) in elsewhere else found.own).append(refusal)
    return found


def _check(one: Staged, blobs: Mapping[str, bytes | int], home: Home) -> None:
    if one.mode != _PLAIN:
        raise Invalid("only plain files belong here, not links or programs", at=f"{one.path}:1", next=_mode_help(one))
    data, base = blobs[one.new], blobs.get(one.old)
    if isinstance(data, int):
        said = f"files here may be at most {FILE_LIMIT >> 10} KiB; this one is {whole(data, 1024)} KiB"
        raise Limit(said, at=f"{one.path}:1")
    check(one.path, data, base if isinstance(base, bytes) else None, home)


def _misspelt(path: str, data: bytes | int) -> Iterator[str]:
    if not isinstance(data, bytes):
        return iter(())
    if path == PATH:
        return misspelt_settings(decode_settings(data))
    if paths.is_part_path(path):
        return misspelt_keys(data, path)
    return misspelt(documents.decode(data)) if paths.is_node_path(path) else iter(())


def _mode_help(one: Staged) -> str:
    return "Run `git update-index --chmod=-x` on it." if one.mode == "100755" else "Remove it from the commit."


def _is_ours(path: str) -> bool:
    return path == PATH or path.partition("/")[0] in (*OWNED_FOLDERS, "log")


def _other_sides(index: _Index, variables: Mapping[str, str]) -> Iterator[str]:
    """The commits that are being merged, from a merge hook's environment or MERGE_HEAD."""
    named = [name.removeprefix("GITHEAD_") for name in variables if name.startswith("GITHEAD_")]
    with contextlib.suppress(FileNotFoundError):
        named += (index.clone.git_dir / "MERGE_HEAD").read_text().split()
    yield from sorted(set(named))


def _twins(index: _Index, changed: Sequence[Staged], head: str, settings: Settings) -> dict[str, KgdError]:
    """New nodes, by path, whose file name equals another file's name on some file systems."""
    added = [one.path for one in changed if not one.old.strip("0") and paths.is_node_path(one.path)]
    if not added:
        return {}
    before, staged = index.trees(head)
    store = index.clone.open()
    found = files.colliding(
        store,
        (before, staged, staged),
        (added, []),
        {},
        settings.sharded,
        lambda _, record: store.entry(staged, record) is not None,
    )
    return {one.at.rpartition(":")[0]: one for one in twins_among(found, store, before, settings.sharded)}


class _Index:
    """The hook's git index and its objects."""

    def __init__(self, clone: Clone, variables: Mapping[str, str]) -> None:
        self.clone = clone
        top = clone.top or clone.git_dir
        named = variables.get("GIT_INDEX_FILE")
        self._person = program.without_user({"GIT_INDEX_FILE": str(top / named)} if named else {})

    def run(self, *arguments: str, input: bytes | None = None) -> bytes:
        where = self.clone.top or self.clone.git_dir
        words = [f"--work-tree={where}", *arguments]
        return program.run(self.clone.git_dir, words, input=input, cwd=where, environment=self._person)

    def ask(self, *arguments: str, missing_is: str | None = None) -> str:
        try:
            return self.run(*arguments).decode("utf-8", "surrogateescape")
        except program.GitFailed:
            if missing_is is None:
                raise
            return missing_is

    def changed(self, head: str, other: str = "") -> Iterator[Staged]:
        """The changes from `head` to the index or, if given, to the commit `other`."""
        how = ["diff-tree", "-r", head, other] if other else ["diff-index", "--cached", head]
        words = self.ask(how[0], "--raw", "-z", "--no-renames", "--full-index", *how[1:]).split("\0")[:-1]
        for facts, path in zip(words[::2], words[1::2], strict=True):
            _, mode, old, new, _ = facts.lstrip(":").split(" ")
            yield Staged(path, mode, old, new)

    def file(self, path: str) -> bytes | None:
        """The staged file, or None."""
        try:
            return self.run("cat-file", "blob", f":{path}")
        except program.GitFailed:
            return None

    def trees(self, head: str) -> tuple[ObjectId, ObjectId]:
        """The trees of HEAD and of the index; git writes the second one for the commit anyway."""
        before = self.ask("rev-parse", f"{head}^{{tree}}").strip()
        return bytes.fromhex(before), bytes.fromhex(self.ask("write-tree").strip())

    def settings(self, head: str) -> Settings:
        """The workspace's settings before this commit or, for a first commit, in it."""
        reason: KgdError = NotFound("this repository is not a workspace")
        for place in (f"{head}:{PATH}", f":{PATH}"):
            text = self.ask("cat-file", "blob", place, missing_is="")
            try:
                if text:
                    return decode_settings(text.encode("utf-8", "surrogateescape"), newer=True)
            except KgdError as refusal:
                reason = refusal  # a commit that repairs the settings must be possible
        raise reason

    def read(self, ids: Sequence[str]) -> dict[str, bytes | int]:
        """Read the blobs; a blob above the limit is replaced by its size."""
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            return {}
        listed = self.run("cat-file", "--batch-check=%(objectname) %(objectsize)", input="\n".join(wanted).encode())
        sizes = {line.split()[0]: int(line.split()[1]) for line in listed.decode().splitlines()}
        found: dict[str, bytes | int] = {id: size for id, size in sizes.items() if size > FILE_LIMIT}
        small = [id for id in wanted if id not in found]
        for at in range(0, len(small), _AT_ONCE):
            found.update(self._bodies(small[at : at + _AT_ONCE]))
        return found

    def _bodies(self, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        said = self.run("cat-file", "--batch=%(objectsize)", input="\n".join(ids).encode())
        at = 0
        for id in ids:
            end = said.index(b"\n", at)
            size = int(said[at:end])
            yield id, said[end + 1 : end + 1 + size]
            at = end + 1 + size + 1
