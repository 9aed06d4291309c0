"""The operations `up`, `uninstall` and `workspaces`, for this machine's own command line only."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.codec.settings import PATH, decode_settings, first_files
from kgd.config import git_own_file
from kgd.config.entries import Entry
from kgd.daemon.workspace_watch import scanned
from kgd.errors import Invalid, InvariantViolation, NotFound
from kgd.git import creation
from kgd.git import layout as layouts
from kgd.git.creation import adopt
from kgd.git.discovery import find_place
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId
from kgd.git.refs import HEAD, checked_out
from kgd.git.remote_settings import remotes
from kgd.git.store import ObjectStore
from kgd.model.uri import is_workspace_id, workspace_id_from
from kgd.tools import addressing, worktrees
from kgd.tools.hubs import join
from kgd.tools.nodes import invalid
from kgd.tools.operation import Command, Hints, Operation, option
from kgd.tools.paging import present
from kgd.tools.parameters import Environment, WorkspaceParams
from kgd.tools.session import Session
from kgd.tools.workspaces import clones
from kgd.tools.workspaces.checks import REPORT_SECONDS
from kgd.tools.workspaces.status import INVALID_SHOWN, FindingAnswer, code_findings, tree_counts
from kgd.workspace.workspace import Workspace

LONGEST_SCAN = 60.0
"""Seconds for which `up` waits for the code tree; the daemon reads the rest of it later."""


class UpParams(WorkspaceParams):
    directory: Annotated[str | None, Field(description="default: the client's directory")] = None
    id: str | None = None
    standalone: bool = False
    bare: bool = False
    replace: bool = False
    dry_run: bool = False
    environment: Environment = Field(default_factory=dict, description="the user's environment, for access to remotes")


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


def up(session: Session, params: UpParams) -> UpResult:
    """Find the workspace of a directory, clone it from its remote, or create it. A second call changes nothing."""
    id = params.id or params.workspace
    if id is not None and not is_workspace_id(id):
        raise Invalid("an id is 1 to 63 lower-case letters, digits and dashes, and does not begin with a dash", at="id")
    directory, entry = _meant(session, params, id)
    if params.bare or (entry is not None and (entry.standalone or clones.is_free(entry, directory))):
        params = params.model_copy(update={"standalone": True})
    found = _found(directory, id, params)
    if found is None and params.dry_run:
        return _planned(session, directory, id or (entry.id if entry else None), params, entry)
    if found is None:
        session.progress(0, None, "creating the workspace")
    elif not params.dry_run:
        _complete(directory, found.layout)
    made = found or _make(session, directory, id, params, entry)
    other = _elsewhere(session, made) if params.replace and made.created and not (made.adopted or made.restored) else ""
    answer = brought_up(session, directory, made, replace=params.replace)
    if other:
        answer["warnings"].append(
            f"'{answer['workspace']}' starts empty here; its knowledge stays in {other}, where `kgd up --replace` uses "
            "it again"
        )
    folder = (layouts.code_root(directory) or directory).name
    if made.created and not (id or entry or made.adopted) and answer["workspace"] != workspace_id_from(folder):
        answer["named_after"] = layouts.ORIGIN
    return answer


def _invalid(workspace: Workspace) -> list[str]:
    """The files that cannot be read, at most `INVALID_SHOWN`, each with its line and the reason."""
    found = (invalid(workspace, one) for one in workspace.invalid_files()[:INVALID_SHOWN])
    return [f"{one['path']}:{one['line']}: {one['reason']}" for one in found]


def _elsewhere(session: Session, made: Made) -> str:
    """The path at which another repository is registered under the id of this workspace; empty if there is none."""
    known = session.daemon.registry.current().entries.get(_id_of(made.layout))
    is_other = known is not None and known.path and session.daemon.places.is_there(known)
    return known.path if known is not None and is_other else ""


def brought_up(session: Session, directory: Path, made: Made, *, replace: bool) -> UpResult:
    """Open and register a found or created workspace, and describe it."""
    layout = made.layout
    if replace or made.cloned:
        let_go_of(session, _id_of(layout), layout)
    if made.cloned:
        clones.register(session, layout, made.cloned)
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


def _meant(session: Session, params: UpParams, id: str | None) -> tuple[Path, Entry | None]:
    """The directory, and its registry entry if there is one.

    `-w ID` without a directory means the path in the registry's entry of that workspace.
    """
    entries = session.daemon.registry.current().entries
    known = entries.get(id or "")
    if params.directory is None and params.id is None and known is not None and known.path:
        directory = directory_of(session, known.path)
        if not directory.exists() and not (known.standalone or known.remote):
            raise NotFound("there is no code repository yet", at=known.path, next="Clone the code there first.")
        return directory, known
    directory = directory_of(session, params.directory)
    if known is not None and (not known.path or Path(known.path).resolve() == directory):
        return directory, known
    if known is not None or id is not None:
        return directory, None
    return directory, next((one for one in entries.values() if clones.is_at(one, directory)), None)


def _misnamed(session: Session, layout: Layout, id: str) -> Iterator[str]:
    """Warnings about entries of other ids at the place of this workspace."""
    for entry in session.daemon.registry.current().entries.values():
        found = session.daemon.places.find(entry) if entry.id != id else None
        if found is not None and found.git_dir == layout.git_dir:
            yield f"workspaces.yaml also has '{entry.id}' here: remove that entry, or give it another path"


def _planned(session: Session, directory: Path, id: str | None, params: UpParams, entry: Entry | None) -> UpResult:
    place = None if params.standalone else find_place(directory)
    name = _new_id(session, directory, id, params)
    layout = layouts.code_layout(place) if place and not layouts.is_clone(place) else None
    planned: UpResult = {
        "workspace": name,
        "path": str(layout.work_tree if layout else directory),
        "git_dir": str(layout.git_dir if layout else directory / ".git"),
        "branch": layout.branch if layout else layouts.OWN_BRANCH,
        "created": False,
        "published": [],
        "counts": {},
        "warnings": [],
        "dry_run": True,
    }
    is_restored = bool(layout and layouts.removed(layout))
    adopted = clones.remote_of(entry) if entry is not None and not is_restored else ""
    planned |= present(restored=is_restored, adopted=adopted)
    return planned


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


def _found(directory: Path, id: str | None, params: UpParams) -> Made | None:
    layout = layouts.locate(directory) if directory.is_dir() else None
    if layout is not None and params.bare and not layout.is_bare:
        raise InvariantViolation(
            "a workspace with a work tree is here already",
            at=str(layout.work_tree),
            next="Use it without `--bare`, or make a bare copy of it in another folder with `kgd clone --bare`.",
        )
    if layout is None or (params.standalone and layout.folder != directory):
        return None
    known = _id_of(layout)
    if id is not None and id != known:
        raise InvariantViolation(
            f"this workspace has the id '{known}', which is part of all its URIs",
            at=str(layout.work_tree),
            next=f"Use '{known}'. If another copy is registered, `kgd up --replace` registers this one instead.",
        )
    return Made(layout)


def _complete(directory: Path, layout: Layout) -> None:
    """Create the work tree if an earlier call could not, for example in a folder that was read-only then."""
    place = find_place(directory)
    if layout.in_code and place is not None and not (layout.work_tree / ".git").exists():
        creation.finish(place, layout)


def _make(session: Session, directory: Path, id: str | None, params: UpParams, entry: Entry | None) -> Made:
    """Clone from the registry's remote, adopt the workspace of the code's remote, or create one.

    If a remote of the code cannot be reached, the answer names the remote, because it may have a workspace.
    """
    place = None if params.standalone else find_place(directory)
    id = id or (entry.id if entry is not None else None)
    unreachable = ""
    kept = layouts.removed(layouts.code_layout(place)) if place else None
    restored = kept is not None

    def allow(store: ObjectStore, tip: ObjectId) -> None:
        _refuse_other(session, id, _id_at(store, tip, directory), params)

    if place and place.top and layouts.is_clone(place):
        store = layouts.standalone_layout(place).open()
        allow(store, store.ref(checked_out(place.common_dir) or "") or b"")
        return Made(creation.create_standalone(place.top, "", {}), True, adopted="this clone")
    if kept is not None:
        store = ObjectStore(kept)
        allow(store, store.ref(HEAD) or b"")
    elif entry is not None and clones.remote_of(entry):
        cloned = clones.clone_to(
            session,
            directory if place is None else place,
            entry,
            params.environment,
            allow=lambda found: _refuse_other(session, id, found, params),
            bare=params.bare,
        )
        if cloned is not None:
            return Made(cloned.layout, True, adopted=cloned.source, cloned=entry)
    if place:
        asked = adopt(directory, environment=params.environment, allow=allow)
        if asked.layout is not None:
            found = "" if restored else f"{asked.remote} {asked.ref}".strip()
            return Made(asked.layout, not restored, restored, found, asked.unreachable)
        unreachable = asked.unreachable
    name = _new_id(session, directory, id, params)
    if place:
        layout = creation.create_in_code_repository(directory, name, first_files(name))
    else:
        layout = creation.create_standalone(directory, name, first_files(name), bare=params.bare)
    return Made(layout, not restored, restored, unreachable=unreachable)


def _refuse_other(session: Session, id: str | None, found: str, params: UpParams) -> None:
    """Refuse an existing workspace if its id differs from the requested one, or if another clone of it is registered.

    `--replace` allows the second case. Called before anything is made.
    """
    known = session.daemon.registry.current().entries.get(found)
    other = known.path if known and known.path and session.daemon.places.is_there(known) else ""
    if id not in (None, found):
        leave = f"Leave out --id to work with '{found}'"
        if params.id is None and params.workspace is None:
            leave = f"Change this folder's entry in workspaces.yaml to '{found}'"
        if other:
            leave = f"Work with '{found}' at {other}, or use this clone instead with `kgd up --replace`"
        raise InvariantViolation(
            f"this directory already has the workspace '{found}', whose id is part of all its URIs",
            at="id",
            next=f"{leave}; for a separate workspace, run `kgd up --standalone --id {id}` in another folder.",
        )
    if other and not params.replace:
        raise InvariantViolation(
            f"the workspace '{found}' is already on this machine, in another clone",
            at=other,
            next="Work with it there, or use this clone instead with `kgd up --replace`.",
        )


def _new_id(session: Session, directory: Path, id: str | None, params: UpParams) -> str:
    in_code = not params.standalone and find_place(directory) is not None
    name = id or workspace_id_from(layouts.project_name(directory) if in_code else directory.name)
    known = session.daemon.registry.current().entries.get(name)
    if known is not None and known.path and not params.replace and session.daemon.places.is_there(known):
        if in_code and worktrees.is_clone_of(directory, Path(known.path)):
            raise InvariantViolation(
                f"the workspace '{name}' is already on this machine, in another clone",
                at=known.path,
                next=f"Use it from here with `-w {name}`, or use worktrees instead of clones. `kgd up --id NEW` "
                "creates a separate workspace; `kgd up --replace` starts an empty one with this id.",
            )
        raise InvariantViolation(
            f"another repository is registered as '{name}'",
            at=known.path,
            next="Give this one its own id with `kgd up --id NEW`, or register it instead with `kgd up --replace`.",
        )
    return name


def _id_of(layout: Layout) -> str:
    store = layout.open()
    return _id_at(store, store.ref(HEAD) or store.ref(layout.branch), layout.git_dir)


def _id_at(store: ObjectStore, tip: ObjectId | None, where: Path) -> str:
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


class UninstallParams(WorkspaceParams):
    all: bool = False
    dry_run: bool = False


class UninstallResult(TypedDict):
    workspaces: list[str]
    kept: list[str]
    left: list[str]
    dry_run: NotRequired[bool]


def uninstall(session: Session, params: UninstallParams) -> UninstallResult:
    """Unregister workspaces and report where their knowledge is kept; it is never deleted."""
    daemon = session.daemon
    if params.all:
        entries = daemon.registry.current().entries.values()
        chosen = [daemon.workspace(one.id) for one in entries if one.path and daemon.places.is_there(one)]
    else:
        chosen = [addressing.choose(session, params.workspace, writing=True)]
    answer: UninstallResult = {"workspaces": [one.id for one in chosen], "kept": [], "left": []}
    for workspace in chosen:
        if params.dry_run:
            answer["kept"].append(str(workspace.layout.git_dir))
            continue
        daemon.forget(workspace)
        daemon.registry.forget(workspace.id)
        answer["kept"].append(str(creation.remove(workspace.layout)))
        if workspace.layout.in_code and workspace.layout.work_tree.exists():
            answer["left"].append(str(workspace.layout.work_tree))
    session.here = None
    if params.all and not params.dry_run:
        join.forget_all(session)
    answer |= present(dry_run=params.dry_run)
    return answer


class Listed(TypedDict):
    """One workspace. `kind` is ``here``, ``clone`` (read-only, of another team) or ``hub``; `shared` means that the
    organisation's registry has it. `trust` is the trust level of its writers, absent until it is known. `facts` are the
    nodes except areas and groups of areas.
    """

    id: str
    path: str
    open: bool
    kind: Literal["here", "clone", "hub"]
    trust: NotRequired[Literal["local", "team", "remote"]]
    shared: NotRequired[bool]
    nodes: NotRequired[int]
    facts: NotRequired[int]
    conflicts: NotRequired[int]


class RegistryProblem(TypedDict):
    """The reason why the current content of a registry is not used."""

    reason: str
    at: NotRequired[str]
    next: NotRequired[str]


class WorkspacesResult(TypedDict):
    """`organisation` is the address of the shared registry."""

    workspaces: list[Listed]
    registry: str
    problems: list[RegistryProblem]
    organisation: NotRequired[str]


def workspaces(session: Session, params: WorkspaceParams) -> WorkspacesResult:
    """List the registered workspaces without opening any, and the problems of the registry."""
    daemon, registry = session.daemon, session.daemon.registry.current()
    opened = {workspace.id: workspace for workspace in daemon.opened()}
    found: list[Listed] = []
    for id, entry in sorted(registry.entries.items()):
        listed: Listed = {
            "id": id,
            "path": entry.path or entry.hub or entry.remote,
            "open": id in opened,
            "kind": "here" if entry.path else "hub" if entry.hub else "clone",
        }
        listed |= present(trust="" if entry.path else "remote", shared=id in registry.shared)
        if workspace := opened.get(id):
            areas = sum(1 for scheme in ("atom", "molecule") for _ in workspace.graph.beginning(f"{scheme}://{id}/"))
            listed |= {
                "nodes": len(workspace.graph),
                "facts": len(workspace.graph) - areas,
                "conflicts": workspace.conflicts.total,
            }
            listed.setdefault("trust", daemon.elsewhere.trust(workspace))
        found.append(listed)
    answer: WorkspacesResult = {"workspaces": found, "registry": daemon.home.registry, "problems": []}
    if problem := daemon.registry.problem:
        told: RegistryProblem = {"reason": problem.message}
        told |= present(at=problem.at, next=problem.next)
        answer["problems"].append(told)
    if registry.organisation:
        answer["organisation"] = registry.organisation
        if daemon.organisation.problem:
            answer["problems"].append({"reason": daemon.organisation.problem, "at": registry.organisation})
    return answer


UP = Operation(
    name="up",
    title="Set up a workspace",
    description="Finds, clones or creates the workspace of a directory.",
    hints=Hints(idempotent=True),
    run=up,
    commands=(
        Command(
            "Running",
            "create a workspace here, or find the existing one, and start the daemon",
            (
                option("--id", "the workspace's id (default: from the remote's or the folder's name)", "ID"),
                option("--standalone", "a separate repository here instead of one inside the code's git directory"),
                option("--bare", "a new, separate repository without a work tree, for a hub"),
                option("--replace", "replace another repository registered under this id"),
            ),
            place=10,
            examples=(
                ("kgd up", "in a code repository: create its workspace, or use the team's"),
                ("kgd up --id billing", "under a name other than the repository's"),
            ),
            ask="place",
            print="printing_running.up",
        ),
        Command(
            "Running",
            "like up, without the settings for MCP clients",
            (
                option("--id", "the workspace's id", "ID"),
                option("--standalone", "a separate repository"),
                option("--bare", "without a work tree"),
                option("--replace", "replace another repository of this id"),
            ),
            name="init",
            place=20,
            examples=(("kgd -C infra init", "a workspace without code, in the folder infra"),),
            ask="place",
            print="printing_running.init",
        ),
    ),
)
UNINSTALL = Operation(
    name="uninstall",
    title="Remove a workspace",
    description="Removes kgd from here and reports where the knowledge is kept.",
    hints=Hints(destructive=True),
    run=uninstall,
    commands=(
        Command(
            "Running",
            "remove kgd from here; keep the knowledge, and print where it is",
            (option("--all", "every workspace, and the home itself"),),
            place=150,
            own="local.uninstall",
        ),
    ),
)
WORKSPACES = Operation(
    name="workspaces",
    title="Registered workspaces",
    description="Lists registered workspaces without opening any.",
    hints=Hints(read_only=True, idempotent=True),
    run=workspaces,
)
