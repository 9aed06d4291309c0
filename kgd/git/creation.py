"""Creation, adoption and removal of a workspace's repository.

`kgd up` looks for a teammate's workspace on the code's remotes before it creates one. The code repository is not
changed: fetched objects go straight into the workspace's own repository.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pygit2

from kgd.errors import Damaged, InvariantViolation, KgdError, Limit, Refused, Unavailable
from kgd.git import pack, program, refs
from kgd.git.discovery import Place, config_files, find_place, is_workspace, repository_of
from kgd.git.files import is_cut, replace, sync_file_system, sync_folder, write_new
from kgd.git.layout import (
    CODE_BRANCH,
    FORMAT,
    RETIRED,
    Layout,
    code_layout,
    locate,
    own_layout,
    removed,
    standalone_layout,
)
from kgd.git.objects import FILE, PLAIN, Object, ObjectId, Signature, commit_body, make, tree_body
from kgd.git.store import ObjectStore

FIRST_TIME = 1_700_000_000
"""Time of the first commit. That commit is a pure function of id, format and sharding, so separate copies share a
base."""
EXCLUDE = "/.kgd/"
"""The line in ``info/exclude`` of the code repository."""
_HALF = re.compile(r"(?:\.git|kgd)\.new-(\d{1,9})").fullmatch
"""The name of an unfinished git directory, with the pid of its process."""
_REMAINS = {"kgd", "refs", "logs", "HEAD", "index"}
"""Names that a daemon may write into the git directory of a workspace while it is being deleted."""
_SETTINGS = {
    "core.filemode": "false",
    "core.autocrlf": "false",
    "core.eol": "lf",
    "core.logAllRefUpdates": "always",  # kgd's undo log; by default git logs no refs/kgd/*
    "core.fsync": "all",  # for the user's own commits: git does not flush loose objects by default
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.splitIndex": "false",  # libgit2 cannot read a split index
    "index.sparse": "false",  # nor a sparse one
    "gc.auto": "0",  # kgd does its own maintenance: a concurrent gc could make a write fail
    "maintenance.auto": "false",
    "receive.autogc": "false",
    "kgd.format": str(FORMAT),
}


def create_in_code_repository(directory: Path, workspace_id: str, first_files: Mapping[str, bytes]) -> Layout:
    """Create the workspace of the code repository that holds `directory`, with its first commit, or find the existing
    one.

    The repository appears complete or not at all. After a crash the work tree and the exclude line may be missing; a
    second call completes them. If the workspace was removed earlier, it is restored with its knowledge.

    Raises:
        NotFound: There is no git repository.
        InvariantViolation: ``.kgd`` exists and was not made by kgd, or the code repository tracks it.
    """
    place = repository_of(directory, "Run `git init` first.")
    layout = code_layout(place)
    if not is_workspace(layout.git_dir):
        check_place_is_free(place, layout)
        build_repository(layout, lambda half: write_first_commit(half, layout.branch, workspace_id, first_files))
    finish(place, layout)
    return layout


def finish(place: Place, layout: Layout) -> None:
    """Create the missing parts: the work tree, the line in ``info/exclude``, and the files.

    Raises:
        Unavailable: A file or folder cannot be written. A later call continues.
        InvariantViolation: ``.kgd`` is not a folder.
    """
    try:
        _exclude(place, layout)  # first: a workspace with a linked work tree counts as complete
        link_work_tree(layout)
        fill_work_tree(layout)
    except OSError as error:
        raise Unavailable(
            f"the work tree cannot be created: {error.strerror}",
            at=str(error.filename or layout.work_tree)[-80:],
            next="Make it writable, or free disk space, then run `kgd up` again.",
        ) from error


def create_standalone(
    directory: Path, workspace_id: str, first_files: Mapping[str, bytes], *, bare: bool = False
) -> Layout:
    """Create a standalone workspace in `directory`, or mark an existing clone of a workspace as one. A new `bare` one
    has no work tree.

    Raises:
        InvariantViolation: The directory holds other files.
    """
    directory = directory.resolve()
    layout = own_layout(directory, bare=bare)
    git_dir = layout.git_dir
    if is_workspace(git_dir):
        return standalone_layout(Place(directory, git_dir, git_dir, directory))
    if git_dir.is_dir():
        return _take_clone(own_layout(directory))
    if directory.exists() and any(not _HALF(file.name) for file in directory.iterdir()):
        raise InvariantViolation(
            "the directory has files but no git repository",
            at=str(directory),
            next="Run `git init` first, or run this in an empty directory.",
        )
    directory.mkdir(parents=True, exist_ok=True)
    build_repository(layout, lambda half: write_first_commit(half, layout.branch, workspace_id, first_files))
    fill_work_tree(layout)
    return layout


def first_commit(workspace_id: str, first_files: Mapping[str, bytes]) -> list[Object]:
    """The objects of the first commit, the commit last: a pure function of the arguments. All files are at the top
    level."""
    blobs = {name.encode(): make("blob", data) for name, data in sorted(first_files.items())}
    tree = make("tree", tree_body({name: (FILE, blob.id) for name, blob in blobs.items()}))
    who = Signature("kgd", "kgd@kgd.invalid", FIRST_TIME)
    body = commit_body(tree.id, [], who, who, f"workspace {workspace_id}\n\nKgd-Op: init\n")
    return [*blobs.values(), tree, make("commit", body)]


def build_repository(layout: Layout, fill: Callable[[Path], None]) -> None:
    """Build the git directory under another name, let `fill` add refs and objects, and put it in place by one rename.

    Does not run ``git init``, because the format (sha1, files) must not depend on a user's or git's defaults.
    """
    retired = removed(layout)
    if retired:
        _tie(retired, layout)
        retired.rename(layout.git_dir)
        return
    half = layout.git_dir.with_name(f"{layout.git_dir.name}.new-{os.getpid()}")
    for left in layout.git_dir.parent.glob(f"{layout.git_dir.name}.new-*"):  # left by a process that was killed here
        if (made_by := _HALF(left.name)) and (left == half or not _is_alive(int(made_by[1]))):
            shutil.rmtree(left, ignore_errors=True)
    try:
        _skeleton(half, layout)
        fill(half)
        half.rename(layout.git_dir)
    except OSError as error:
        if not is_workspace(layout.git_dir):  # else another process was faster
            raise Unavailable(f"the repository cannot be created: {error.strerror}", at=str(layout.git_dir)) from error
    finally:
        shutil.rmtree(half, ignore_errors=True)
    sync_folder(layout.git_dir.parent)


def write_first_commit(git_dir: Path, branch: str, workspace_id: str, first_files: Mapping[str, bytes]) -> None:
    tip = first_commit(workspace_id, first_files)
    pack.release(pack.write(git_dir / "objects" / "pack", tip))
    for name in (refs.HEAD, branch):
        refs.move_ref(git_dir, git_dir / "kgd", name, None, tip[-1].id, note="kgd: first commit")


def link_work_tree(layout: Layout) -> bool:
    """Create the work tree's folder and its relative ``.git`` file if they are missing; True if something was created.

    Raises:
        InvariantViolation: The path is not a folder.
    """
    if not layout.in_code:
        return False
    if os.path.lexists(layout.work_tree) and (layout.work_tree.is_symlink() or not layout.work_tree.is_dir()):
        raise InvariantViolation(".kgd is not a folder", at=str(layout.work_tree), next="Move it away.")
    made = not layout.work_tree.exists()
    layout.work_tree.mkdir(exist_ok=True)
    link = layout.work_tree / ".git"
    if link.exists():
        return made
    write_new(link, f"gitdir: {os.path.relpath(layout.git_dir, layout.work_tree)}\n".encode())
    return True


def fill_work_tree(layout: Layout) -> list[str]:
    """Write the branch's files into an empty work tree, if there is one, with a matching index; returns the skipped
    paths.

    Does not use a checkout: it writes only plain files, and never through a link. Does nothing if an index exists,
    because publication is then responsible. The files are flushed before the index appears, so files lost in a power
    cut are written again.
    """
    index_path = layout.git_dir / "index"
    tip = refs.read_ref(layout.git_dir, layout.branch)
    if layout.is_bare or index_path.exists() or tip is None:
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


def check_place_is_free(place: Place, layout: Layout) -> None:
    """Refuse a place that holds files which kgd did not create.

    Raises:
        InvariantViolation: ``.kgd``, or ``kgd`` in the git directory, was not made by kgd, or the code repository
            tracks ``.kgd``.
    """
    tree, next_step = layout.work_tree, "Move it away and run `kgd up` again."
    if os.path.lexists(tree) and (tree.is_symlink() or not tree.is_dir() or any(tree.iterdir())) and not _tied(layout):
        raise InvariantViolation(".kgd exists, but kgd did not create it", at=str(tree), next=next_step)
    if os.path.lexists(layout.git_dir) and not _clear_remains(layout.git_dir):
        raise InvariantViolation(
            "the git directory holds a kgd folder that kgd did not create", at=str(layout.git_dir), next=next_step
        )
    try:  # git also reads indexes that libgit2 cannot: split, sparse, or with SHA-256
        command = [*program.LOCAL, "ls-files", "--cached", "-z", "--", layout.work_tree.name]
        tracked = place.top is not None and bool(program.run(None, command, cwd=place.top))
    except (KgdError, program.GitFailed):
        tracked = False
    if tracked:
        raise InvariantViolation("the code repository tracks files in .kgd", at=str(tree), next=next_step)


def _clear_remains(git_dir: Path) -> bool:
    """Remove locks, refs and logs that a daemon wrote while the repository was being deleted; True if nothing is left.

    These files are worthless without objects. A folder with anything else is left alone.
    """
    if git_dir.is_symlink() or not git_dir.is_dir() or {one.name for one in git_dir.iterdir()} - _REMAINS:
        return False
    shutil.rmtree(git_dir)
    return True


def _tied(layout: Layout) -> bool:
    """Whether the work tree belongs to this git directory, as it does when `remove` left it because of unsaved work."""
    try:
        named = (layout.work_tree / ".git").read_text().strip().removeprefix("gitdir: ")
    except (OSError, UnicodeDecodeError):
        return False
    return os.path.normpath(layout.work_tree / named) == os.path.normpath(layout.git_dir)


def _skeleton(git_dir: Path, layout: Layout) -> None:
    for folder in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "refs/kgd", "hooks", "info", "kgd"):
        (git_dir / folder).mkdir(parents=True)
    settings = {"core.repositoryformatversion": "0", "core.bare": str(layout.is_bare).lower()}
    settings["kgd.branch"] = layout.branch
    if layout.in_code:
        settings["core.worktree"] = os.path.relpath(layout.work_tree, layout.git_dir)
    write_new(git_dir / "config", _config_text({**settings, **_SETTINGS}))
    write_new(git_dir / "HEAD", f"ref: {layout.branch}\n".encode())
    for folder in ("refs/heads", "refs/kgd", "refs", "objects", "."):
        sync_folder(git_dir / folder)


def _tie(git_dir: Path, layout: Layout) -> None:
    config = pygit2.Config(str(config_files(git_dir)[-1]))
    config["core.bare"] = False
    config["core.worktree"] = os.path.relpath(layout.work_tree, layout.git_dir)


def _config_text(settings: Mapping[str, str]) -> bytes:
    sections: dict[str, list[str]] = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(f"\t{name} = {value}\n")
    return "".join(f"[{section}]\n{''.join(lines)}" for section, lines in sections.items()).encode()


def _take_clone(layout: Layout) -> Layout:
    """Mark a clone of a standalone workspace and start `refs/kgd/head` at its checked-out commit."""
    branch = refs.checked_out(layout.git_dir)
    tip = refs.read_ref(layout.git_dir, branch) if branch else None
    store = ObjectStore(layout.git_dir)
    if branch is None or tip is None or store.entry(store.tree_of(tip), "kgd.yaml") is None:
        raise InvariantViolation(
            "this git repository is not a workspace",
            at=str(layout.work_tree),
            next="Run `kgd up` in it to create one, or name an empty directory.",
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


def remove(layout: Layout) -> Path:
    """Uninstall, and return where the knowledge now is: the repository itself is never deleted.

    In a code repository ``.kgd/`` is removed unless it holds uncommitted files, and the git directory is renamed, so
    that `create_in_code_repository` can restore it. For a standalone workspace only derived data is removed.
    """
    shutil.rmtree(layout.derived_dir, ignore_errors=True)
    if not layout.in_code:
        return layout.git_dir
    if _remove_published(layout):
        _unexclude(layout.git_dir.parent)
    kept = layout.git_dir.with_name(RETIRED)
    number = 1
    while kept.exists():
        number += 1
        kept = layout.git_dir.with_name(f"{RETIRED}-{number}")
    layout.git_dir.rename(kept)
    _untie(kept)
    return kept


def _untie(git_dir: Path) -> None:
    """Make the repository bare; git would not open it while its configuration names a missing work tree."""
    *_, config = configs = [pygit2.Config(str(file)) for file in config_files(git_dir)]
    config["core.bare"] = True
    for one in configs:
        if "core.worktree" in one:
            del one["core.worktree"]


def _unexclude(common_dir: Path) -> None:
    path = common_dir / "info" / "exclude"
    if path.exists():
        lines = path.read_bytes().split(b"\n")
        path.write_bytes(b"\n".join(line for line in lines if line != EXCLUDE.encode()))


def _remove_published(layout: Layout) -> bool:
    """Remove the files that are the same as on the branch; True if the work tree contained nothing else."""
    store, tip = layout.open(), refs.read_ref(layout.git_dir, layout.branch)
    if not layout.work_tree.is_dir():
        return True
    for path, _, id in store.files(store.tree_of(tip)) if tip else ():
        file = layout.work_tree / path
        if file.is_file() and not file.is_symlink() and make("blob", file.read_bytes()).id == id:
            file.unlink()
    folders = [Path(folder) for folder, _, _ in os.walk(layout.work_tree, topdown=False)]
    for folder in folders:
        if folder != layout.work_tree and not any(folder.iterdir()):
            folder.rmdir()
    (layout.git_dir / "index").unlink(missing_ok=True)
    if [entry.name for entry in layout.work_tree.iterdir()] in ([], [".git"]):
        (layout.work_tree / ".git").unlink(missing_ok=True)
        layout.work_tree.rmdir()
        return True
    return False


WHERE = (CODE_BRANCH, "refs/kgd/main")
"""Refs of the code's remote under which a workspace may be, in this order."""
DEADLINE = 10.0
"""Seconds for a query to a remote. Fetching an existing workspace may take longer."""
FETCH_DEADLINE = 300.0
FILE_LIMIT = 1 << 20
"""Maximum bytes of an adopted file; the guard of the codec is stricter."""
_INCOMING = "refs/kgd/incoming"
_Allow = Callable[[ObjectStore, ObjectId], None]


@dataclass(frozen=True, slots=True)
class Adopted:
    """The outcome of asking the remotes. If `layout` is None, no remote that could be reached has a workspace.

    `remote` and `ref` name the place where it was found. `unreachable` is the reason why a remote could not be asked;
    that remote may still have a workspace.
    """

    layout: Layout | None = None
    remote: str = ""
    ref: str = ""
    unreachable: str = ""


def adopt(
    directory: Path, *, environment: Mapping[str, str], deadline: float = DEADLINE, allow: _Allow | None = None
) -> Adopted:
    """Adopt the workspace that a remote of the code repository already has, with all its history.

    Asks the remotes, ``origin`` first, then looks for the branch that an earlier ``git fetch`` left in this repository.
    Afterwards either the workspace is as complete as one from `create_in_code_repository`, or nothing has changed.

    Args:
        environment: The user's own, with their credentials and ssh agent. The user is never prompted.
        allow: Called with the fetched store and its tip before anything is kept; an exception leaves nothing behind.

    Raises:
        NotFound: There is no git repository.
        Refused: The workspace holds files that kgd cannot keep (links, submodules, other modes, too large files).
    """
    place = repository_of(directory, "Run `git init` first.")
    found = locate(directory)
    if found is not None:
        return Adopted(found)
    end, unreachable = time.monotonic() + deadline, ""
    for name in _remotes(place):
        try:
            ref = _ask(place, name, environment, end)
            if ref:
                url = _url(place, name, environment)
                return Adopted(_take(place, url, ref, environment, allow), name, ref)
        except (Unavailable, Limit, program.GitFailed) as error:
            unreachable = unreachable or f"{name}: {error}"
        tracked = f"refs/remotes/{name}/{CODE_BRANCH.removeprefix('refs/heads/')}"
        if refs.read_ref(place.common_dir, tracked):
            made = _take(place, str(place.common_dir), tracked, environment, allow)
            return Adopted(made, name, CODE_BRANCH, unreachable)
    return Adopted(unreachable=unreachable)


def code_remotes(directory: Path, *, environment: Mapping[str, str]) -> dict[str, str]:
    """Names and addresses of the remotes of the repository that holds a directory, ``origin`` first.

    Args:
        environment: The user's own, whose git configuration may rewrite addresses.
    """
    found: dict[str, str] = {}
    if place := find_place(directory):
        for name in _remotes(place):
            with contextlib.suppress(program.GitFailed):
                found[name] = _url(place, name, environment)
    return found


def _remotes(place: Place) -> list[str]:
    """Names of the code's remotes, ``origin`` first."""
    with contextlib.suppress(program.GitFailed):
        names = program.run(place.common_dir, ["remote"]).decode("utf-8", "surrogateescape").split()
        return sorted(names, key=lambda name: (name != "origin", name))
    return []


def _ask(place: Place, remote: str, environment: Mapping[str, str], end: float) -> str | None:
    left = max(0.1, end - time.monotonic())
    arguments = ["ls-remote", "--quiet", "--", remote, *WHERE]
    output = program.run(
        place.common_dir, arguments, deadline=left, limit=1 << 20, cwd=_cwd(place), environment=environment
    )
    there = {line.split("\t")[1] for line in output.decode("utf-8", "replace").splitlines() if "\t" in line}
    return next((ref for ref in WHERE if ref in there), None)


def _url(place: Place, remote: str, environment: Mapping[str, str]) -> str:
    output = program.run(place.common_dir, ["remote", "get-url", remote], cwd=_cwd(place), environment=environment)
    url = output.decode("utf-8", "surrogateescape").strip()
    local = _cwd(place) / url
    return str(local.resolve()) if "://" not in url and local.exists() else url


def _cwd(place: Place) -> Path:
    """The directory to which git resolves relative URLs."""
    return place.main_tree or place.common_dir


def _take(place: Place, source: str, ref: str, environment: Mapping[str, str], allow: _Allow | None) -> Layout:
    made = code_layout(place)
    check_place_is_free(place, made)
    build_repository(made, lambda half: _fill(half, made, source, ref, environment, allow))
    finish(place, made)
    return made


def _fill(
    half: Path, layout: Layout, source: str, ref: str, environment: Mapping[str, str], allow: _Allow | None
) -> None:
    """Fetch into the unfinished repository. Objects are vetted before a permanent ref points to them."""
    arguments = ["-c", "fetch.unpackLimit=1", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap="]
    arguments += ["--no-auto-maintenance", "--", source, f"+{ref}:{_INCOMING}"]
    program.run(half, arguments, deadline=FETCH_DEADLINE, environment=environment)
    tip = refs.read_ref(half, _INCOMING)
    if tip is None:
        raise Unavailable("the remote's workspace disappeared during the fetch", at=source)
    fetched = ObjectStore(half, layout.work_tree)
    vet(fetched, tip)
    if allow is not None:
        allow(fetched, tip)
    for name in (refs.HEAD, layout.branch):
        refs.move_ref(half, half / "kgd", name, None, tip, note=f"kgd: adopted {ref}")
    (half / _INCOMING).unlink()
    (half / "logs" / _INCOMING).unlink(missing_ok=True)


def vet(store: ObjectStore, tip: ObjectId) -> None:
    """Check a commit from elsewhere before it is kept: it must have only plain files of bounded size, and a
    ``kgd.yaml``.

    Raises:
        Refused: A file does not belong in a workspace; the error gives its path.
        Limit: The tree is larger than any limit of a workspace.
    """
    try:
        store.check_history(tip)
    except (Damaged, Limit) as error:
        raise Refused(
            f"the remote's workspace cannot be adopted: {error.message}",
            at=error.at,
            next="Tell its maintainer; `kgd up --standalone` in another folder creates a separate one.",
        ) from error
    settings = False
    for path, mode, id in store.files(store.tree_of(tip)):
        header = store.kind_and_size(id) if mode == FILE else None
        if header is None or header[0] != "blob" or header[1] > FILE_LIMIT:
            raise Refused("the remote's workspace holds a link, a submodule or a file that is too large", at=path)
        settings = settings or path == "kgd.yaml"
    if not settings:
        raise Refused(
            "the remote's ref does not contain a workspace", next="Use `kgd up --standalone` in another folder."
        )
