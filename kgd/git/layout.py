"""This file is where a workspace's repository lives: how one is made and found again (`kgd.git.removal` lets it go).

On its own it is an ordinary repository. In a code repository it is a repository of its own inside the code's common git
directory (``.git/kgd``), so that every worktree of the project finds the same one; its work tree is ``.kgd/`` beside,
tied by relative links both ways, as absorbed submodules are. So it can be moved, and a copied folder is independent.
Of the code repository only ``info/exclude`` gets a line.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pygit2

from kgd.errors import InvariantViolation, KgdError, NotFound, Unavailable
from kgd.git import pack, refs
from kgd.git.files import is_cut, replace, sync_file_system, sync_folder, write_new
from kgd.git.objects import FILE, PLAIN, Object, Signature, commit_body, make, tree_body
from kgd.git.place import Place, find_place, is_workspace, setting
from kgd.git.store import ObjectStore

FORMAT = 1
WORK_TREE = ".kgd"
CODE_BRANCH = "refs/heads/kgd"
OWN_BRANCH = "refs/heads/main"
FIRST_TIME = 1_700_000_000
"""The first commit is a pure function of id, format and sharding, so that copies made apart share a base."""

RETIRED = "kgd.removed"
"""What the git directory of a workspace in a code repository is called once it was let go."""
EXCLUDE = "/.kgd/"
"""The line in ``info/exclude`` of the code repository."""

_GIT_DIR = "kgd"
_HALF = re.compile(r"(?:\.git|kgd)\.new-(\d{1,9})").fullmatch
"""The name of a git directory in the making, with the pid of the process that makes it."""
_REMAINS = {_GIT_DIR, "refs", "logs", "HEAD", "index"}
"""What a daemon may write into the git directory of a workspace that is being deleted under it."""
_MARK_LIMIT = 1 << 16
_MARKS = re.compile(rb"(?ms)^format:.*^workspace:|^workspace:.*^format:").search
"""What the settings of a workspace have, and no other file of that name by chance."""
_SETTINGS = {
    "core.filemode": "false",
    "core.autocrlf": "false",
    "core.eol": "lf",
    "core.logAllRefUpdates": "always",  # our undo log; the default leaves out refs/kgd/*
    "core.fsync": "all",  # a person's own commits; git's default leaves loose objects to luck
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.splitIndex": "false",  # libgit2 reads neither this
    "index.sparse": "false",  # nor this
    "gc.auto": "0",  # maintenance is ours: a gc at a bad moment costs the person a refused write
    "maintenance.auto": "false",
    "receive.autogc": "false",
    "kgd.format": str(FORMAT),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one workspace's repository lives. Equal for every worktree of the same code repository.

    `code_tree` is the main work tree of the code; None for a workspace on its own, and where the code repository is
    bare. `branch` is the full name of the branch that people see.
    """

    git_dir: Path
    work_tree: Path
    code_tree: Path | None
    branch: str

    @property
    def derived_dir(self) -> Path:
        """What can be rebuilt, beside the objects: index, snapshot, locks, intents."""
        return self.git_dir / "kgd"

    @property
    def in_code(self) -> bool:
        """Whether it lives in a code repository."""
        return self.work_tree != self.git_dir.parent

    def open(self) -> ObjectStore:
        """The open repository. After `kgd.git.integrity.recover` only: libgit2 hangs on a cut loose object."""
        return ObjectStore(self.git_dir, self.work_tree)


def locate(directory: Path) -> Layout | None:
    """The workspace that a directory belongs to: any folder of the code, of any worktree, or of ``.kgd`` itself.

    None where there is no workspace. Costs some file look-ups; nothing of the environment has a say.
    """
    place = find_place(directory)
    if place is None:
        return None
    inside = place.common_dir / _GIT_DIR
    if is_workspace(inside):
        return code_layout(place)
    if not is_workspace(place.common_dir):
        return None
    if place.common_dir.name == _GIT_DIR:
        outer = find_place(place.common_dir.parent)
        if outer and outer.common_dir == place.common_dir.parent:
            return code_layout(outer)
    return _on_its_own(place)


def code_root(directory: Path) -> Path | None:
    """The top of the work tree that holds the directory, None outside of any repository."""
    place = find_place(directory)
    return place.top if place else None


def create_in_code_repository(directory: Path, workspace_id: str, first_files: Mapping[str, bytes]) -> Layout:
    """Make the workspace of the code repository that holds `directory`, with its first commit, or find the one there.

    Either the repository is there whole or not at all; the work tree and the exclude line may lack after a crash, and
    a second call completes them. A workspace that was removed earlier comes back with its knowledge.

    Raises:
        NotFound: There is no git repository.
        InvariantViolation: ``.kgd`` is there and is not ours, or the code repository tracks it.
    """
    place = find_place(directory)
    if place is None:
        raise NotFound("there is no git repository here", at=str(directory), next="Run `git init` first.")
    layout = code_layout(place)
    if not is_workspace(layout.git_dir):
        refuse_foreign(place, layout)
        build_repository(layout, lambda half: write_first_commit(half, layout.branch, workspace_id, first_files))
    finish(place, layout)
    return layout


def finish(place: Place, layout: Layout) -> None:
    """The work tree, the line in ``info/exclude`` and the files, where they lack."""
    link_work_tree(layout)
    _exclude(place, layout)
    fill_work_tree(layout)


def create_standalone(directory: Path, workspace_id: str, first_files: Mapping[str, bytes]) -> Layout:
    """Make a workspace of its own in `directory`, or make one of the clone of a workspace that is there.

    Raises:
        InvariantViolation: There are files already that are no workspace.
    """
    directory = directory.resolve()
    git_dir = directory / ".git"
    layout = Layout(git_dir, directory, None, OWN_BRANCH)
    if is_workspace(git_dir):
        return _on_its_own(Place(directory, git_dir, git_dir, directory))
    if git_dir.is_dir():
        return _take_clone(layout)
    if directory.exists() and any(not _HALF(file.name) for file in directory.iterdir()):
        raise InvariantViolation(
            "there are files here already, and no git repository", at=str(directory),
            next="Run `git init` first, or run this in an empty directory.",
        )  # fmt: skip
    directory.mkdir(parents=True, exist_ok=True)
    build_repository(layout, lambda half: write_first_commit(half, layout.branch, workspace_id, first_files))
    fill_work_tree(layout)
    return layout


def first_commit(workspace_id: str, first_files: Mapping[str, bytes]) -> list[Object]:
    """The objects of the first commit, the commit last: a pure function of its arguments. Files lie at the top."""
    blobs = {name.encode(): make("blob", data) for name, data in sorted(first_files.items())}
    tree = make("tree", tree_body({name: (FILE, blob.id) for name, blob in blobs.items()}))
    who = Signature("kgd", "kgd@kgd.invalid", FIRST_TIME)
    body = commit_body(tree.id, [], who, who, f"workspace {workspace_id}\n\nKgd-Op: init\n")
    return [*blobs.values(), tree, make("commit", body)]


def build_repository(layout: Layout, fill: Callable[[Path], None]) -> None:
    """Make the git directory aside, let `fill` give it refs and objects, and put it in place by one rename.

    By hand, not by ``git init``: the format (sha1, files) has to be the same whatever a person's or git's defaults are.
    """
    retired = removed(layout)
    if retired:
        _tie(retired, layout)
        retired.rename(layout.git_dir)
        return
    half = layout.git_dir.with_name(f"{layout.git_dir.name}.new-{os.getpid()}")
    for left in layout.git_dir.parent.glob(f"{layout.git_dir.name}.new-*"):  # by a process that was killed in this
        if (made_by := _HALF(left.name)) and (left == half or not _is_alive(int(made_by[1]))):
            shutil.rmtree(left, ignore_errors=True)
    try:
        _skeleton(half, layout)
        fill(half)
        half.rename(layout.git_dir)
    except OSError as error:
        if not is_workspace(layout.git_dir):  # else somebody was faster, which is as good
            raise Unavailable(f"the repository cannot be made: {error.strerror}", at=str(layout.git_dir)) from error
    finally:
        shutil.rmtree(half, ignore_errors=True)
    sync_folder(layout.git_dir.parent)


def write_first_commit(git_dir: Path, branch: str, workspace_id: str, first_files: Mapping[str, bytes]) -> None:
    tip = first_commit(workspace_id, first_files)
    pack.release(pack.write(git_dir / "objects" / "pack", tip))
    for name in (refs.HEAD, branch):
        refs.move_ref(git_dir, git_dir / "kgd", name, None, tip[-1].id, note="kgd: first commit")


def link_work_tree(layout: Layout) -> bool:
    """Make the work tree's folder and its relative ``.git`` file where they lack; whether something was made.

    Raises:
        InvariantViolation: Something that is no folder has taken its place.
    """
    if not layout.in_code:
        return False
    if os.path.lexists(layout.work_tree) and (layout.work_tree.is_symlink() or not layout.work_tree.is_dir()):
        raise InvariantViolation(".kgd is no folder", at=str(layout.work_tree), next="Move it away.")
    made = not layout.work_tree.exists()
    layout.work_tree.mkdir(exist_ok=True)
    link = layout.work_tree / ".git"
    if link.exists():
        return made
    write_new(link, f"gitdir: {_relative(layout.git_dir, layout.work_tree)}\n".encode())
    return True


def fill_work_tree(layout: Layout) -> list[str]:
    """Write the branch's files into an empty work tree, with an index to match; the paths that were left out.

    By hand, not by a checkout: only plain files are written, through folders that are folders, never through a link.
    Does nothing where an index is there already: then it is the publication's business. The files are flushed before
    the index appears, so what a power cut took of them is written again.
    """
    index_path = layout.git_dir / "index"
    tip = refs.read_ref(layout.git_dir, layout.branch)
    if index_path.exists() or tip is None:
        return []
    store = layout.open()
    index, skipped = pygit2.Index(str(index_path)), []
    for path, mode, id in store.files(store.tree_of(tip)):
        if not mode.startswith(PLAIN) or not _place_new(layout.work_tree, path, store.read(id)):
            skipped.append(path)
        else:
            kind = pygit2.enums.FileMode.BLOB if mode == FILE else pygit2.enums.FileMode.BLOB_EXECUTABLE
            index.add(pygit2.IndexEntry(path, pygit2.Oid(raw=id), kind))
    sync_file_system(layout.work_tree)
    index.write()
    return skipped


def removed(layout: Layout) -> Path | None:
    """The repository that an earlier `remove` kept here, and that comes back if a workspace is made."""
    kept = layout.git_dir.with_name(RETIRED)
    return kept if layout.in_code and is_workspace(kept) else None


def code_layout(place: Place) -> Layout:
    """Where the workspace of this code repository lives, whether it is there or not."""
    git_dir = place.common_dir / _GIT_DIR
    # A bare repository has no main work tree to put it beside, and linked worktrees come and go.
    above = place.main_tree or place.common_dir
    return Layout(git_dir, above / WORK_TREE, place.main_tree, CODE_BRANCH)


def refuse_foreign(place: Place, layout: Layout) -> None:
    """Stop before something that is not ours.

    Raises:
        InvariantViolation: ``.kgd`` or ``kgd`` in the git directory is somebody else's, or the code tracks ``.kgd``.
    """
    tree, next_step = layout.work_tree, "Move it away and run `kgd up` again."
    if os.path.lexists(tree) and (tree.is_symlink() or not tree.is_dir() or any(tree.iterdir())) and not _tied(layout):
        raise InvariantViolation(".kgd is there already and is not kgd's", at=str(tree), next=next_step)
    if os.path.lexists(layout.git_dir) and not _clear_remains(layout.git_dir):
        raise InvariantViolation("the git directory holds another kgd", at=str(layout.git_dir), next=next_step)
    index = place.git_dir / "index"
    try:
        tracked = index.exists() and any(entry.path.startswith(".kgd/") for entry in pygit2.Index(str(index)))
    except (pygit2.GitError, OSError):
        tracked = False  # split or sparse: libgit2 cannot read it
    if tracked:
        raise InvariantViolation("the code repository tracks files in .kgd", at=str(tree), next=next_step)


# ---- inside


def _clear_remains(git_dir: Path) -> bool:
    """Remove the locks, refs and logs that a daemon wrote while the repository was being deleted; whether all is gone.

    Without objects they are worth nothing. Anything else is left alone.
    """
    if git_dir.is_symlink() or not git_dir.is_dir() or {one.name for one in git_dir.iterdir()} - _REMAINS:
        return False
    shutil.rmtree(git_dir)
    return True


def _tied(layout: Layout) -> bool:
    """Whether the work tree says that it is of this git directory: `remove` leaves one with unsaved work so."""
    try:
        named = (layout.work_tree / ".git").read_text().strip().removeprefix("gitdir: ")
    except (OSError, UnicodeDecodeError):
        return False
    return os.path.normpath(layout.work_tree / named) == os.path.normpath(layout.git_dir)


def _on_its_own(place: Place) -> Layout:
    branch = setting(place.common_dir, "kgd.branch") or OWN_BRANCH
    return Layout(place.common_dir, place.main_tree or place.common_dir, None, branch)


def _skeleton(git_dir: Path, layout: Layout) -> None:
    for folder in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "refs/kgd", "hooks", "info", "kgd"):
        (git_dir / folder).mkdir(parents=True)
    settings = {"core.repositoryformatversion": "0", "core.bare": "false", "kgd.branch": layout.branch}
    if layout.in_code:
        settings["core.worktree"] = _relative(layout.work_tree, layout.git_dir)
    write_new(git_dir / "config", _config_text({**settings, **_SETTINGS}))
    write_new(git_dir / "HEAD", f"ref: {layout.branch}\n".encode())
    for folder in ("refs/heads", "refs/kgd", "refs", "objects", "."):
        sync_folder(git_dir / folder)


def _tie(git_dir: Path, layout: Layout) -> None:
    config = pygit2.Config(str(git_dir / "config"))
    config["core.bare"] = False
    config["core.worktree"] = _relative(layout.work_tree, layout.git_dir)


def _config_text(settings: Mapping[str, str]) -> bytes:
    sections: dict[str, list[str]] = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(f"\t{name} = {value}\n")
    return "".join(f"[{section}]\n{''.join(lines)}" for section, lines in sections.items()).encode()


def is_clone(place: Place) -> bool:
    """Whether what is checked out there is a workspace on its own, rather than code: made by a plain ``git clone``."""
    branch = refs.checked_out(place.common_dir)
    tip = refs.read_ref(place.common_dir, branch) if branch and place.top == place.main_tree else None
    if tip is None:
        return False
    try:
        store = ObjectStore(place.common_dir)
        top = store.tree(store.tree_of(tip))
        data = store.read(top[b"kgd.yaml"][1], _MARK_LIMIT) if b"kgd.yaml" in top else b""
    except KgdError:
        return False
    return b".gitattributes" in top and _MARKS(data) is not None


def _take_clone(layout: Layout) -> Layout:
    """A clone of a workspace on its own: mark it and start `refs/kgd/head` at what is checked out."""
    branch = refs.checked_out(layout.git_dir)
    tip = refs.read_ref(layout.git_dir, branch) if branch else None
    store = ObjectStore(layout.git_dir)
    if branch is None or tip is None or store.entry(store.tree_of(tip), "kgd.yaml") is None:
        raise InvariantViolation(
            "this git repository is no workspace",
            at=str(layout.work_tree),
            next="Run `kgd up` in it to give it one, or name an empty directory.",
        )
    layout = Layout(layout.git_dir, layout.work_tree, None, branch)
    layout.derived_dir.mkdir(exist_ok=True)
    if refs.read_ref(layout.git_dir, refs.HEAD) is None:
        refs.move_ref(layout.git_dir, layout.derived_dir, refs.HEAD, None, tip, note="kgd: clone")
    config = pygit2.Config(str(layout.git_dir / "config"))
    for key, value in {"kgd.branch": branch, **_SETTINGS}.items():
        config[key] = value
    return layout


def _exclude(place: Place, layout: Layout) -> None:
    if place.main_tree is None:
        return
    path = place.common_dir / "info" / "exclude"
    path.parent.mkdir(exist_ok=True)
    content = path.read_bytes() if path.exists() else b""
    if EXCLUDE.encode() in content.split(b"\n"):
        return
    gap = b"" if not content or content.endswith(b"\n") else b"\n"
    with open(path, "ab") as file:
        file.write(gap + EXCLUDE.encode() + b"\n")


def _place_new(work_tree: Path, path: str, data: bytes) -> bool:
    target = work_tree / path
    for above in reversed(target.relative_to(work_tree).parents[:-1]):
        folder = work_tree / above
        if folder.is_symlink():
            return False
        folder.mkdir(exist_ok=True)
    try:
        write_new(target, data, flush=False)
    except FileExistsError:
        if target.is_symlink() or not target.is_file():
            return False
        if target.stat().st_size <= len(data) and (there := target.read_bytes()) != data and is_cut(there, data):
            replace(target, data, flush=False)
    return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno != errno.ESRCH
    return True


def _relative(target: Path, start: Path) -> str:
    return os.path.relpath(target, start)
