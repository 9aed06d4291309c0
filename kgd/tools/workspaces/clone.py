"""The `clone` command: a shared workspace, by id or address, into a directory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field

from kgd.config.credentials import check_reference
from kgd.config.entries import Entry
from kgd.errors import Invalid, InvariantViolation, NotFound
from kgd.git.remote_settings import check_ref, parse_url
from kgd.model.uri import is_workspace_id
from kgd.tools.operation import TOKEN, Command, Hints, Operation, option
from kgd.tools.parameters import Environment, WorkspaceParams
from kgd.tools.session import Session
from kgd.tools.workspaces import clones, setup
from kgd.tools.workspaces.setup import Made, UpResult

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
    entry, folder = _meant(session, params)
    directory = setup.directory_of(session, params.path or entry.path or folder)
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
    cloned = clones.clone_to(session, directory, entry, params.environment, allow=allow, bare=params.bare)
    if cloned is None:
        raise NotFound(
            "the remote has no workspace yet",
            at=clones.remote_of(entry),
            next="Name the workspace's ref with --ref, or create a workspace with `kgd up` and share it there.",
        )
    known = session.daemon.registry.current().entries.get(found, Entry(found))
    wanted = Entry(found, remote=clones.remote_of(entry), ref=entry.ref, token=entry.token, sync=known.sync)
    made = Made(cloned.layout, True, adopted=cloned.source, cloned=wanted)
    return setup.brought_up(session, directory, made, replace=params.replace)


def _meant(session: Session, params: CloneParams) -> tuple[Entry, str]:
    """The entry to clone, from the registry or an address, and the folder's name to use if the entry has no path."""
    if params.token:
        check_reference(params.token)
    if params.ref:
        check_ref(params.ref)
    known = session.daemon.registry.current().entries.get(params.source)
    if known is not None:
        if not clones.remote_of(known):
            raise NotFound(
                f"the registry has no remote for '{known.id}'",
                at="source",
                next="Give its git address instead, or add `remote:` to its entry in workspaces.yaml.",
            )
        return Entry(
            known.id,
            known.path,
            remote=clones.remote_of(known),
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
