"""Workspaces of this machine: clone them, register them, open them and read their code trees."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NotRequired

from typing_extensions import TypedDict

from kgd.codec.settings import PATH, decode_settings
from kgd.config import git_own_file
from kgd.config.entries import Entry
from kgd.daemon.workspace_watch import scanned
from kgd.errors import Invalid, InvariantViolation
from kgd.git import creation
from kgd.git import layout as layouts
from kgd.git.discovery import Place
from kgd.git.layout import Layout, own_layout
from kgd.git.objects import ObjectId
from kgd.git.refs import HEAD
from kgd.git.remote_settings import parse_url, remotes
from kgd.git.store import ObjectStore
from kgd.sync.cloning import NothingThere, clone
from kgd.sync.hub_sign_in import network_of
from kgd.tools.nodes import invalid
from kgd.tools.paging import present
from kgd.tools.session import Session
from kgd.tools.workspaces.checks import REPORT_SECONDS
from kgd.tools.workspaces.status import INVALID_SHOWN, FindingAnswer, code_findings, tree_counts
from kgd.workspace.workspace import Workspace

LONGEST_SCAN = 60.0
"""Seconds for which `up` waits for the code tree; the daemon reads the rest of it later."""


class UpResult(TypedDict):
    workspace: str
    path: str
    git_dir: str
    branch: str
    created: bool
    restored: NotRequired[bool]
    published: list[str]
    counts: dict[str, int]
    warnings: list[str]
    adopted: NotRequired[str]
    code_tree: NotRequired[str]
    named_after: NotRequired[str]
    findings: NotRequired[list[FindingAnswer]]
    dry_run: NotRequired[bool]


def brought_up(session: Session, directory: Path, made: Made, *, replace: bool) -> UpResult:
    """Open and register a found or created workspace, and describe it."""
    layout = made.layout
    if replace or made.cloned:
        let_go_of(session, id_of(layout), layout)
    if made.cloned:
        register(session, layout, made.cloned)
    session.here = None
    workspace = _opened(session, directory if layout.in_code else layout.folder, layout)
    answer: UpResult = {
        "workspace": workspace.id,
        "path": str(layout.folder),
        "git_dir": str(layout.git_dir),
        "branch": layout.branch,
        "created": made.created,
        "published": [f"{one.name} ({one.url.text} {one.ref})" for one in remotes(layout)],
        "counts": {"nodes": len(workspace.graph), **tree_counts(workspace)},
        "warnings": [*_shipped(layout), *_misnamed(session, layout, workspace.id), *_invalid(workspace)],
    }
    answer |= present(
        code_tree=str(workspace.layout.code_tree or ""),
        findings=code_findings(workspace),
        restored=made.restored,
        adopted=made.adopted,
    )
    if made.adopted and not answer["published"]:
        answer["warnings"].append("changes stay on this machine until `kgd share`")
    if made.unreachable:
        answer["warnings"].append(f"the code's remote could not be checked for a workspace: {made.unreachable}")
    if not layouts.is_known(layout, git_own_file()):
        who = layouts.person(layout, git_own_file())
        answer["warnings"].append(
            f"git does not know who you are, so your commits are by {who.name} <{who.email}>: "
            "set `git config --global user.name NAME` and `git config --global user.email ADDRESS`"
        )
    return answer


def _invalid(workspace: Workspace) -> list[str]:
    """The files that cannot be read, at most `INVALID_SHOWN`, each with its line and the reason."""
    found = (invalid(workspace, one) for one in workspace.invalid_files()[:INVALID_SHOWN])
    return [f"{one['path']}:{one['line']}: {one['reason']}" for one in found]


def _opened(session: Session, directory: Path, layout: Layout) -> Workspace:
    """Open a workspace and wait until its code tree is read, with reports of progress."""
    deadline = time.monotonic() + LONGEST_SCAN
    with ThreadPoolExecutor(1, "kgd-up") as thread:
        running = thread.submit(session.daemon.workspace, directory=directory)
        while not wait([running], REPORT_SECONDS).done:
            _report(session, layout)
        workspace = running.result()
    while time.monotonic() < deadline and _report(session, layout):
        time.sleep(REPORT_SECONDS)
    return workspace


def _report(session: Session, layout: Layout) -> bool:
    """Report the progress of the first scan of the code tree; returns whether it is running."""
    scan = scanned(layout.code_tree) if layout.code_tree else None
    done, total = scan or (0, 0)
    session.progress(done, total or None, "reading the code tree" if scan else "opening the workspace")
    return scan is not None


def _misnamed(session: Session, layout: Layout, id: str) -> Iterator[str]:
    """Warnings about entries of other ids at the place of this workspace."""
    for entry in session.daemon.registry.current().entries.values():
        found = session.daemon.places.find(entry) if entry.id != id else None
        if found is not None and found.git_dir == layout.git_dir:
            yield f"workspaces.yaml also has '{entry.id}' here: remove that entry, or give it another path"


def let_go_of(session: Session, id: str, layout: Layout) -> None:
    """Unregister another repository that has this id; its files stay."""
    for workspace in session.daemon.opened():
        if workspace.id == id and workspace.layout.git_dir != layout.git_dir:
            session.daemon.forget(workspace)
    entry = session.daemon.registry.current().entries.get(id)
    there = session.daemon.places.find(entry) if entry is not None else None
    if there is not None and there.git_dir != layout.git_dir:
        session.daemon.registry.forget(id)


@dataclass(frozen=True, slots=True)
class Made:
    """A found or created workspace. `cloned` is the registry entry with the clone's source."""

    layout: Layout
    created: bool = False
    restored: bool = False
    adopted: str = ""
    unreachable: str = ""
    cloned: Entry | None = None


def id_of(layout: Layout) -> str:
    store = layout.open()
    return id_at(store, store.ref(HEAD) or store.ref(layout.branch), layout.git_dir)


def id_at(store: ObjectStore, tip: ObjectId | None, where: Path) -> str:
    blob = store.entry(store.tree_of(tip), PATH) if tip else None
    if blob is None:
        raise InvariantViolation("this repository has no kgd.yaml", at=str(where), next="Run `kgd doctor`.")
    return decode_settings(store.read(blob), newer=True).workspace


def directory_of(session: Session, named: str | None) -> Path:
    """Resolve a directory given on the command line, relative to the client's directory; None means the client's
    directory.

    Raises:
        Invalid: Neither directory is known.
    """
    base = session.cwd
    if named is None and base is None:
        raise Invalid("your current directory does not exist any more", at="directory", next="Change to another one.")
    path = Path(named or "")
    return (path if path.is_absolute() else (base or Path("/")) / path).resolve()


_SHIPPING = {
    "package.json": re.compile(r'\A(?!.*"private"\s*:\s*true)(?!.*"files"\s*:)', re.DOTALL),
    "Dockerfile": re.compile(r"^\s*(?:COPY|ADD)\s(?:.*\s)?\./?[ \t]+\S", re.MULTILINE),
    "MANIFEST.in": re.compile(r"^\s*(?:graft\s+\.|global-include|recursive-include\s+\.)", re.MULTILINE),
    "pyproject.toml": re.compile(r"\bhatchling\b"),
}
"""The files of builds that ship all files of the tree, and their text in that case."""


def _shipped(layout: Layout) -> Iterator[str]:
    """Warnings about builds that would ship the work tree, because they read .gitignore but not info/exclude."""
    root = layout.code_tree
    if root is None or not layout.in_code:
        return
    ignored = any(
        ".kgd" in {line.strip("/ ") for line in (root / name).read_text(errors="replace").splitlines()}
        for name in (".gitignore", ".dockerignore", ".npmignore")
        if (root / name).is_file()
    )
    if ignored:
        return
    for name, ships in _SHIPPING.items():
        if (root / name).is_file() and ships.search((root / name).read_text(errors="replace")):
            yield f"a build with {name} may ship .kgd/: add it to that tool's ignore file"
            return


def is_at(entry: Entry, directory: Path) -> bool:
    return bool(entry.path) and Path(entry.path).resolve() == directory


def is_free(entry: Entry, directory: Path) -> bool:
    """Whether the entry has a remote and the directory is missing, or empty and the entry's own path."""
    return bool(remote_of(entry)) and (not directory.exists() or (is_at(entry, directory) and _is_empty(directory)))


def remote_of(entry: Entry) -> str:
    """The git address of a workspace: the address of its hub, otherwise its remote; empty if it has neither."""
    return f"{entry.hub.rstrip('/')}/git/{entry.id}" if entry.hub else entry.remote


def clone_to(
    session: Session,
    where: Path | Place,
    entry: Entry,
    environment: Mapping[str, str],
    *,
    allow: Callable[[str], None],
    bare: bool = False,
) -> Made | None:
    """Clone a workspace into a directory, or into the code repository at `where`; None if the remote has no workspace
    yet.

    Args:
        where: An empty or missing directory, or the place of a code repository.
        entry: The entry whose remote and ref to clone. An empty id accepts any workspace.
        environment: Replaces the user's environment for git and for the token, unless empty.
        allow: Called with the id of the remote's workspace before anything is kept; may raise to refuse it.
        bare: The clone in a directory gets no work tree.

    Raises:
        InvariantViolation: The directory has files, or ``.kgd`` of the code repository is not free.
        KgdError: The remote cannot be reached, or its content was refused. Nothing was made.
    """
    if isinstance(where, Place):
        layout = layouts.code_layout(where)
        creation.check_place_is_free(where, layout)
    else:
        layout = _free(where, bare=bare)
    url = parse_url(remote_of(entry), layout.folder)
    network = network_of(entry.token, environment=environment, progress=session.progress)
    made = [one for one in (layout.git_dir.parent, *layout.git_dir.parent.parents) if not one.exists()]
    layout.git_dir.parent.mkdir(parents=True, exist_ok=True)
    try:
        ref = clone(layout, url, network, replace(entry, token="", sync=None), allow=allow)
    except NothingThere:
        return None
    finally:
        if not layout.git_dir.exists():
            with contextlib.suppress(OSError):
                for folder in made:
                    folder.rmdir()
    if isinstance(where, Place):
        creation.finish(where, layout)
    else:
        creation.fill_work_tree(layout)
    return Made(layout, True, adopted=f"{url.text} {ref}", cloned=entry)


def register(session: Session, layout: Layout, entry: Entry) -> None:
    """Register a clone with its remote, through which it syncs. Replaces the workspace's entry."""
    registry = session.daemon.registry
    path = str(layout.code_tree if layout.in_code and layout.code_tree else layout.folder)
    known = registry.current().entries.get(entry.id)
    if known is not None and known.hub:
        registry.forget(entry.id)
    wanted = replace(entry, path=path, standalone=not layout.in_code, remote=remote_of(entry), hub="")
    registry.register(wanted, replace=True)


def _free(directory: Path, *, bare: bool) -> Layout:
    if directory.exists() and not _is_empty(directory):
        raise InvariantViolation(
            "the directory has files", at=str(directory), next="Name an empty or missing directory."
        )
    return own_layout(directory, bare=bare)


def _is_empty(directory: Path) -> bool:
    return directory.is_dir() and not any(directory.iterdir())
