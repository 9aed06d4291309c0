"""The operations `up`, `clone`, `uninstall` and `workspaces`, for this machine's own command line only."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.codec.settings import first_files
from kgd.config.credentials import check_reference
from kgd.config.entries import Entry
from kgd.errors import Invalid, InvariantViolation, NotFound
from kgd.git import creation
from kgd.git import layout as layouts
from kgd.git.creation import adopt
from kgd.git.discovery import find_place
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId
from kgd.git.refs import HEAD, checked_out
from kgd.git.remote_settings import check_ref, parse_url
from kgd.git.store import ObjectStore
from kgd.model.uri import is_workspace_id, workspace_id_from
from kgd.tools import addressing, worktrees
from kgd.tools.hubs import join
from kgd.tools.operation import TOKEN, Command, Hints, Operation, option
from kgd.tools.paging import present
from kgd.tools.parameters import Environment, WorkspaceParams
from kgd.tools.session import Session
from kgd.tools.workspaces import opening
from kgd.tools.workspaces.opening import Made, UpResult, brought_up, directory_of
from kgd.tools.workspaces.status import problem_of


class UpParams(WorkspaceParams):
    directory: Annotated[str | None, Field(description="default: the client's directory")] = None
    id: str | None = None
    standalone: bool = False
    bare: bool = False
    replace: bool = False
    dry_run: bool = False
    environment: Environment = Field(default_factory=dict, description="the user's environment, for access to remotes")


def up(session: Session, params: UpParams) -> UpResult:
    """Find the workspace of a directory, clone it from its remote, or create it. A second call changes nothing."""
    id = params.id or params.workspace
    if id is not None and not is_workspace_id(id):
        raise Invalid("an id is 1 to 63 lower-case letters, digits and dashes, and does not begin with a dash", at="id")
    directory, entry = _meant(session, params, id)
    if params.bare or (entry is not None and (entry.standalone or opening.is_free(entry, directory))):
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


def _elsewhere(session: Session, made: Made) -> str:
    """The path at which another repository is registered under the id of this workspace; empty if there is none."""
    known = session.daemon.registry.current().entries.get(opening.id_of(made.layout))
    is_other = known is not None and known.path and session.daemon.places.is_there(known)
    return known.path if known is not None and is_other else ""


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
    return directory, next((one for one in entries.values() if opening.is_at(one, directory)), None)


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
    adopted = opening.remote_of(entry) if entry is not None and not is_restored else ""
    planned |= present(restored=is_restored, adopted=adopted)
    return planned


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
    known = opening.id_of(layout)
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
        _refuse_other(session, id, opening.id_at(store, tip, directory), params)

    if place and place.top and layouts.is_clone(place):
        store = layouts.standalone_layout(place).open()
        allow(store, store.ref(checked_out(place.common_dir) or "") or b"")
        return Made(creation.create_standalone(place.top, "", {}), True, adopted="this clone")
    if kept is not None:
        store = ObjectStore(kept)
        allow(store, store.ref(HEAD) or b"")
    elif entry is not None and opening.remote_of(entry):
        cloned = opening.clone_to(
            session,
            directory if place is None else place,
            entry,
            params.environment,
            allow=lambda found: _refuse_other(session, id, found, params),
            bare=params.bare,
        )
        if cloned is not None:
            return cloned
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
            f"this directory, or its code's remote, has the workspace '{found}', whose id is part of all its URIs",
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


_LAST = re.compile(r"([^/:]+?)(?:\.git)?/*$").search


class CloneParams(WorkspaceParams):
    source: Annotated[str, Field(max_length=2_048, description="a workspace of the registry, or a git address")]
    path: Annotated[
        str | None, Field(description="the path in the registry, else a folder named after the workspace")
    ] = None
    ref: str = ""
    token: str = ""
    replace: bool = False
    bare: bool = False
    environment: Environment = Field(default_factory=dict)


def clone(session: Session, params: CloneParams) -> UpResult:
    """Clone a shared workspace, register it with its remote, and keep it in sync.

    Raises:
        NotFound: The registry does not have the workspace or its remote, or the remote has no workspace.
        InvariantViolation: The workspace is already on this machine, or the directory has files.
        KgdError: The address is wrong, the remote cannot be reached, or its content was refused.
    """
    entry, folder = _source(session, params)
    directory = directory_of(session, params.path or entry.path or folder)
    found = entry.id

    def allow(id: str) -> None:
        nonlocal found
        found = id
        known = session.daemon.registry.current().entries.get(id)
        if known is not None and known.path and not params.replace and session.daemon.places.is_there(known):
            raise InvariantViolation(
                f"the workspace '{id}' is already on this machine",
                at=known.path,
                next="Work with it there, or let this clone take its place with --replace.",
            )

    if entry.id:
        allow(entry.id)
    cloned = opening.clone_to(session, directory, entry, params.environment, allow=allow, bare=params.bare)
    if cloned is None:
        raise NotFound(
            "the remote has no workspace yet",
            at=opening.remote_of(entry),
            next="Name the workspace's ref with --ref, or create a workspace with `kgd up` and share it there.",
        )
    known = session.daemon.registry.current().entries.get(found, Entry(found))
    wanted = Entry(found, remote=opening.remote_of(entry), ref=entry.ref, token=entry.token, sync=known.sync)
    return brought_up(session, directory, replace(cloned, cloned=wanted), replace=params.replace)


def _source(session: Session, params: CloneParams) -> tuple[Entry, str]:
    """The entry to clone, from the registry or an address, and the folder's name to use if the entry has no path."""
    if params.token:
        check_reference(params.token)
    if params.ref:
        check_ref(params.ref)
    known = session.daemon.registry.current().entries.get(params.source)
    if known is not None:
        if not opening.remote_of(known):
            raise NotFound(
                f"the registry has no remote for '{known.id}'",
                at="source",
                next="Give its git address instead, or add `remote:` to its entry in workspaces.yaml.",
            )
        return Entry(
            known.id,
            known.path,
            remote=opening.remote_of(known),
            ref=params.ref or known.ref,
            token=params.token or known.token,
            sync=known.sync,
        ), known.id
    base = session.cwd or Path("/")
    if is_workspace_id(params.source) and not (base / params.source).exists():
        ids = ", ".join(session.daemon.workspace_ids()[:8]) or "none"
        raise NotFound(
            f"the registry has no workspace '{params.source}'",
            at="source",
            next=f"Known: {ids}. To clone another, give its git address.",
        )
    url = parse_url(params.source, base)
    name = _LAST(url.text)
    if name is None:
        raise Invalid("the address does not end in a repository name", at="source", next="Name a PATH for the clone.")
    return Entry("", remote=url.text, ref=params.ref, token=params.token), name[1]


CLONE = Operation(
    name="clone",
    title="Clone a workspace",
    description="Clones a shared workspace and keeps it in sync.",
    hints=Hints(open_world=True),
    run=clone,
    commands=(
        Command(
            "Sharing",
            "clone a shared workspace here, and keep it in sync with its origin",
            (
                option("source", value="ID|URL"),
                option(
                    "path", "the folder (default: the registry's path, or one named after ID or URL)", "PATH", nargs="?"
                ),
                option("--ref", "the ref on the remote", "REF"),
                TOKEN,
                option("--replace", "replace another repository registered under its id"),
                option("--bare", "without a work tree, for a hub"),
            ),
            place=70,
            examples=(
                ("kgd clone git@example.com:team/infra.git", "another team's workspace, in a folder of its own"),
            ),
            ask="place",
            print="printing_running.init",
        ),
    ),
)


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
    nodes except areas and groups of areas. `problem` is the reason why a workspace of this machine cannot be opened,
    and `next` the remedy.
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
    problem: NotRequired[str]
    next: NotRequired[str]


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
                "conflicts": workspace.conflict_count,
            }
            listed.setdefault("trust", daemon.elsewhere.trust(workspace))
        elif problem := problem_of(daemon, entry):
            listed |= {"problem": problem.message, "next": problem.next}
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
            "like up, without the findings and the next steps",
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
