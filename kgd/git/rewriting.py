"""Rewriting of a whole history: each object that contains a text is replaced by one without the text.

Objects without the text keep their ids, and so does every commit that has no rewritten ancestor. A rewritten commit
keeps its author, times and message, but loses its signature, which covered other bytes. The result depends only on the
history and the edit, so an interrupted rewriting can be repeated.

The removed commits must not come back. The file `forgotten_commits` at the top of the workspace has a line for each
removed commit whose parents were kept: every copy of the old history contains one of them. Only an administrator may
change the file, as with `kgd.yaml`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count
from pathlib import Path

from kgd.errors import Damaged, Forbidden, Unavailable
from kgd.git import pack, program
from kgd.git.files import replace
from kgd.git.objects import FOLDER, Entry, Object, ObjectId, make, parse_id, signed_parts, text, tree_body
from kgd.git.refs import list_refs
from kgd.git.store import ObjectStore

Edit = Callable[[bytes], bytes]
DEADLINE = 3_600.0
"""Longest time in seconds for each git command that reads or packs the whole repository."""
BATCH_BYTES, BATCH_OBJECTS = 32 << 20, 5_000
"""Size of a pack of new objects."""
BODY_LIMIT = 256 << 20
SUBMODULE = b"160000"
FORGOTTEN = "forgotten_commits"
_HEADER = b"# Commits removed by `kgd forget`. kgd refuses histories that contain one of them.\n"
_LINE = re.compile(rb"^([0-9a-f]{40})(?: |$)", re.MULTILINE)


class Rewriting:
    """The new objects of one history, in memory until `write`.

    Args:
        edit: Returns an object's bytes without the text. Applied to blobs, file names, messages and authors.
        finish: Completes a rewritten commit, from the old commit's id and the new bytes.
    """

    def __init__(
        self, store: ObjectStore, edit: Edit, finish: Callable[[ObjectId, bytes], bytes] = lambda id, body: body
    ) -> None:
        self._store, self._edit, self._finish = store, edit, finish
        self._same = dict[ObjectId, ObjectId]()
        self._made = dict[ObjectId, Object]()
        self.commits = dict[ObjectId, ObjectId]()
        """The rewritten commits, old to new, parents first."""
        self.first = list[ObjectId]()
        """The rewritten commits whose parents kept their ids: every copy of the old history contains one of them."""
        self.paths = set[str]()
        """Files whose content or name contained the text."""

    def of_commits(self, commits: Iterable[ObjectId], progress: Callable[[int], object] = lambda done: None) -> None:
        """Rewrite these commits. Parents must come before children. Takes about 0.1 ms per commit and 0.05 ms for each
        different file.

        Raises:
            Damaged: An object cannot be read.
        """
        for number, id in enumerate(commits, 1):
            self._of_commit(id)
            if number % 500 == 0:
                progress(number)

    def new(self, id: ObjectId) -> ObjectId:
        """The object that replaces a commit, tree, blob or annotated tag; the same id if nothing changed.

        Raises:
            Damaged: The object cannot be read.
        """
        if id in self.commits:
            return self.commits[id]
        kind = (self._store.kind_and_size(id) or ("", 0))[0]
        if kind == "tag":
            return self._of_tag(id)
        return {"tree": lambda: self._of_tree(id, ""), "blob": lambda: self._of_blob(id, "")}.get(kind, lambda: id)()

    def write(self) -> None:
        """Make all new objects durable. They stay protected from gc until `scrub`.

        Raises:
            OSError: The disk is full, read-only or broken.
        """
        batch, size = list[Object](), 0
        for made in self._made.values():
            batch.append(made)
            size += len(made.body)
            if size > BATCH_BYTES or len(batch) == BATCH_OBJECTS:
                self._store.write(batch)
                batch, size = [], 0
        if batch:
            self._store.write(batch)

    # ---- inside

    def _of_commit(self, id: ObjectId) -> None:
        body = self._store.read(id, BODY_LIMIT)
        covered, _ = signed_parts(body)
        head, _, message = covered.partition(b"\n\n")
        lines, is_first = list[bytes](), True
        for line in head.split(b"\n"):
            key, _, value = line.partition(b" ")
            if key == b"tree":
                line = b"tree " + self._of_tree(parse_id(value), "").hex().encode()
            elif key == b"parent":
                parent = parse_id(value)
                is_first = is_first and parent not in self.commits
                line = b"parent " + self.commits.get(parent, parent).hex().encode()
            else:
                line = self._edit(line)
            lines.append(line)
        changed = b"\n".join(lines) + b"\n\n" + self._edit(message)
        if changed != covered:
            self.commits[id] = self._keep(make("commit", self._finish(id, changed)))
            if is_first:
                self.first.append(id)

    def _of_tree(self, id: ObjectId, folder: str) -> ObjectId:
        if (known := self._same.get(id)) is not None:
            return known
        entries = self._store.tree(id)
        changed = dict[bytes, Entry]()
        names = self._names(entries)
        for name, (mode, child) in entries.items():
            path, to = folder + text(name), names[name]
            if mode == FOLDER:
                child = self._of_tree(child, path + "/")
            elif mode != SUBMODULE:
                child = self._of_blob(child, path)
            if to != name:
                self.paths.add(path)
            changed[to] = (mode, child)
        made = id if changed == entries else self._keep(make("tree", tree_body(changed)))
        self._same[id] = made
        return made

    def _names(self, entries: Iterable[bytes]) -> dict[bytes, bytes]:
        """The new name of each entry of a folder. Names that would become equal get a number."""
        names = {name: self._edit(name) for name in entries}
        taken = {name for name, to in names.items() if name == to}
        for name, to in names.items():
            if name != to:
                stem, dot, suffix = to.partition(b".")
                numbered = (b"%b-%d%b%b" % (stem, number, dot, suffix) for number in count(2))
                names[name] = next(one for one in chain([to], numbered) if one not in taken)
                taken.add(names[name])
        return names

    def _of_blob(self, id: ObjectId, path: str) -> ObjectId:
        if (known := self._same.get(id)) is None:
            body = self._store.read(id, BODY_LIMIT)
            changed = self._edit(body)
            known = self._same[id] = id if changed == body else self._keep(make("blob", changed))
        if known != id:
            self.paths.add(path)
        return known

    def _of_tag(self, id: ObjectId) -> ObjectId:
        body = self._store.read(id, BODY_LIMIT)
        head, _, rest = body.partition(b"\n")
        target = parse_id(head.removeprefix(b"object "))
        unsigned = rest.partition(b"-----BEGIN ")[0]
        changed = b"object " + self.new(target).hex().encode() + b"\n" + self._edit(unsigned)
        return id if changed == head + b"\n" + unsigned else self._keep(make("tag", changed))

    def _keep(self, made: Object) -> ObjectId:
        self._made[made.id] = made
        return made.id


def commits_of(store: ObjectStore, leaving_out: Iterable[str] = ()) -> Iterator[ObjectId]:
    """All commits reachable from refs, parents before children.

    Raises:
        Damaged: The history has a hole.
    """
    arguments = ["rev-list", "--topo-order", "--reverse", *(f"--exclude={name}" for name in leaving_out), "--all"]
    try:
        for line in program.stream(store.git_dir, arguments, separator=b"\n", deadline=DEADLINE):
            yield bytes.fromhex(line.decode())
    except program.GitFailed as error:
        raise Damaged(f"history cannot be read: {error.said}", next="Run `kgd fsck`.") from error


def logs(git_dir: Path) -> list[Path]:
    """The files of all reflogs."""
    return [path for path in sorted((git_dir / "logs").rglob("*")) if path.is_file()]


def edit_logs(git_dir: Path, kept: tuple[str, ...], edit: Edit) -> None:
    """Edit the lines of reflogs whose refs begin with `kept`, and remove all other reflogs. Old values are replaced by
    the ref's own.

    Raises:
        OSError: The disk is full, read-only or broken.
    """
    values = list_refs(git_dir)
    for path in logs(git_dir):
        name = path.relative_to(git_dir / "logs").as_posix()
        if name not in values or not name.startswith(kept):
            path.unlink()
            continue
        value = values[name].hex().encode()
        lines = (line.split(b" ", 2) for line in path.read_bytes().splitlines(keepends=True))
        replace(path, b"".join(b"%b %b %b" % (value, value, edit(line[2])) for line in lines if len(line) == 3))


def scrub(git_dir: Path) -> None:
    """Remove every unreachable object, and the files in which git records earlier commits.

    No other process may use the repository.

    Raises:
        Unavailable: git could not write the packs; nothing reachable was removed.
    """
    for name in ("ORIG_HEAD", "FETCH_HEAD", "AUTO_MERGE", "COMMIT_EDITMSG", "MERGE_MSG", "SQUASH_MSG"):
        (git_dir / name).unlink(missing_ok=True)
    objects = git_dir / "objects"
    (objects / "pack" / "multi-pack-index").unlink(missing_ok=True)
    (objects / "info" / "commit-graph").unlink(missing_ok=True)
    shutil.rmtree(objects / "info" / "commit-graphs", ignore_errors=True)
    for stem in pack.stems(objects / "pack"):
        stem.with_suffix(".keep").unlink(missing_ok=True)
    bounds = program.Bounds(DEADLINE, DEADLINE)
    try:
        program.run(git_dir, ["repack", "-a", "-d", "-f", "-q"], bounds=bounds)
        program.run(git_dir, ["prune", "--expire=now"], bounds=bounds)
    except program.GitFailed as error:
        raise Unavailable(f"the old objects cannot be removed: {error.said}", next="Repeat the command.") from error


def containing(store: ObjectStore, has: Callable[[bytes], object]) -> list[ObjectId]:
    """All objects, reachable or not, for whose bytes `has` returns true. Reads every object.

    Raises:
        Damaged: An object cannot be read.
    """
    listing = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]
    lines = program.stream(store.git_dir, listing, separator=b"\n", deadline=DEADLINE)
    return [id for id in map(bytes.fromhex, map(bytes.decode, lines)) if has(store.read(id, BODY_LIMIT))]


def forgotten_in(store: ObjectStore, commit: ObjectId) -> list[ObjectId]:
    """The removed commits that a commit's tree lists.

    Raises:
        Damaged: The tree cannot be read.
    """
    blob = store.entry(store.tree_of(commit), FORGOTTEN)
    return [bytes.fromhex(digits.decode()) for digits in _LINE.findall(store.read(blob))] if blob else []


def with_forgotten(before: bytes | None, commits: Iterable[ObjectId], note: str) -> bytes:
    """The file `forgotten_commits` with a line for each commit, followed by a note of one line."""
    lines = b"".join(b"%s %s\n" % (id.hex().encode(), note.encode()) for id in commits)
    return (before or _HEADER) + lines


def brought_back(store: ObjectStore, listing: ObjectId, *tips: ObjectId) -> ObjectId | None:
    """A commit in the history of one of these tips that the tree of `listing` lists as removed.

    Costs a look-up in that tree; the history is searched only if the repository still holds a removed commit.
    """
    kept = filter(store.exists, forgotten_in(store, listing))
    return next((id for id in kept if any(store.is_ancestor(id, tip) for tip in tips)), None)


def refuse_forgotten(store: ObjectStore, *tips: ObjectId) -> None:
    """Check that no tip's history contains a commit that another tip, or the tip itself, lists as removed.

    Raises:
        Forbidden: It does.
        Damaged: A tip cannot be read.
    """
    for listing in tips:
        if id := brought_back(store, listing, *tips):
            raise Forbidden(
                f"this history contains commit {id.hex()[:10]}, which `kgd forget` removed because of a secret",
                at=id.hex(),
                next="Replace the copy that it comes from: `kgd sync` there shows the command (docs/forget.md). "
                "Nothing was merged.",
            )
