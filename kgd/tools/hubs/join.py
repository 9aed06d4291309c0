"""The `join`, `leave` and `whoami` tools: hubs that the user joined, and the user's identity on each.

Only this machine's own command line may call them. A token is in the parameters of `join` and never in an answer.
"""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.config import git_own_file
from kgd.config.credentials import drop, keep, kept, secret
from kgd.config.entries import Entry
from kgd.errors import InvariantViolation, KgdError, NotFound, Unauthorized, Unavailable
from kgd.git.layout import person
from kgd.http_client import Address
from kgd.model.uri import is_workspace_id
from kgd.sync.hub_sign_in import Credential, Prompt, sign_in, sign_out
from kgd.sync.hubs import HubClient
from kgd.tools import addressing
from kgd.tools.hub_reads import checked
from kgd.tools.hubs.tokens import ScopeAnswer
from kgd.tools.operation import Command, Hints, Operation, option
from kgd.tools.origins import fence
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.session import Session


class JoinParams(WorkspaceParams):
    url: Annotated[str, Field(max_length=2_000, description="https://HOST[:PORT]")]
    token: Annotated[str, Field(max_length=1_000)] = ""
    sign_in: Annotated[
        bool, Field(description="sign in with your organisation's account, in a browser on any machine")
    ] = False
    replace: bool = False


class LeaveParams(WorkspaceParams):
    url: Annotated[str, Field(max_length=2_000, description="the hub's address, or the id of one of its workspaces")]


class WhoamiParams(WorkspaceParams):
    url: str | None = None


class Holder(TypedDict):
    """The user's identity on a hub, as the hub reports it."""

    id: str
    name: str
    kind: str
    scopes: list[ScopeAnswer]
    expires: NotRequired[str]


class Kept(TypedDict):
    """A workspace of the hub that is already registered here; its entry stays unchanged."""

    id: str
    reason: str


class HubAnswer(TypedDict):
    """One hub; `problem` is the reason for a missing identity."""

    hub: str
    workspaces: list[str]
    principal: NotRequired[Holder]
    problem: NotRequired[str]


class JoinResult(HubAnswer):
    registered: list[str]
    kept: list[Kept]
    token: NotRequired[str]
    """A reference to the stored token, never the token. Absent if no workspace of the hub was registered; the token is
    then not stored."""


class LeaveResult(TypedDict):
    hub: str
    left: list[str]
    forgotten: bool


class WhoamiResult(TypedDict):
    person: str
    hubs: list[HubAnswer]


class _Said(TypedDict):
    workspaces: list[str]
    principal: Holder


def join(session: Session, params: JoinParams) -> JoinResult:
    """Verify a token with its hub, store it, and register the hub's workspaces. Idempotent. With `sign_in`, the person
    gets the token by signing in, and kgd renews it when needed.

    An id that is registered from another hub or remote is left alone unless `replace` is set. An id of a workspace with
    a path on this machine is always left alone. If the hub refuses the token, nothing is kept or registered.

    Raises:
        Unauthorized: There is no token, the hub refuses it, or the person did not sign in.
        KgdError: The hub cannot be reached, or the token cannot be kept.
    """
    address = Address.parse(params.url.strip().rstrip("/"))
    if not params.sign_in and not params.token.strip():
        raise Unauthorized("joining a hub needs a token", at="token", next="Ask the hub's administrator for one.")
    url = params.url.strip().rstrip("/")
    token = stored = params.token.strip()
    if params.sign_in:
        credential = _signed_in(session, url)
        token, stored = credential.token, credential.text()
    said = _ask(HubClient(url, lambda: token))
    answer: JoinResult = {**said, "hub": url, "registered": [], "kept": []}  # type: ignore[typeddict-item]
    for id in said["workspaces"]:
        if why := _in_the_way(session, Entry(id, hub=url), replace=params.replace):
            answer["kept"].append({"id": id, "reason": why})
        else:
            answer["registered"].append(id)
    if not answer["registered"]:
        return answer
    answer["token"] = keep(session.daemon.home.state, _kept_name(address), stored)
    for id in answer["registered"]:
        if params.replace:
            session.daemon.registry.forget(id)
        session.daemon.registry.register(Entry(id, hub=url, token=answer["token"]), replace=params.replace)
    return answer


def leave(session: Session, params: LeaveParams) -> LeaveResult:
    """Remove a hub's workspaces from the registry, and delete the token that `join` kept, unless another entry uses it.

    Raises:
        NotFound: No workspace of the hub is registered, and no unused token for it is kept.
    """
    registry = session.daemon.registry.current()
    entries = {id: entry for id, entry in registry.entries.items() if id not in registry.shared}
    wanted = params.url.strip().rstrip("/")
    if wanted in entries and entries[wanted].hub:
        wanted = entries[wanted].hub
    gone = [entry for entry in entries.values() if entry.hub and entry.hub.rstrip("/") == wanted]
    if not gone and _forget_left_over(session, wanted):
        return {"hub": wanted, "left": [], "forgotten": True}
    if not gone:
        hubs = sorted({entry.hub for entry in entries.values() if entry.hub})
        known = f"Joined: {', '.join(hubs[:5])}." if hubs else "No hub was joined."
        raise NotFound("no workspace of that hub is registered here", at=wanted[:80], next=known)
    for entry in gone:
        session.daemon.registry.forget(entry.id)
    still = {entry.token for entry in session.daemon.registry.current().entries.values()}
    state = session.daemon.home.state
    for token in {entry.token for entry in gone} - still:
        _end_sign_in(token)
    forgotten = [drop(state, token) for token in {entry.token for entry in gone} - still if token]
    return {"hub": wanted, "left": sorted(entry.id for entry in gone), "forgotten": any(forgotten)}


def _signed_in(session: Session, url: str) -> Credential:
    """The credential of a person who signs in now. The progress of the call says what they have to do."""

    def prompt(asked: Prompt) -> None:
        session.progress(0, asked.seconds, f"Open {asked.url} and confirm the code {asked.code}")

    return sign_in(url, prompt, lambda: session.progress(0, None, ""))


def _end_sign_in(reference: str) -> None:
    """End the sign-in of a stored credential at its hub, if the hub answers."""
    with contextlib.suppress(KgdError):
        if (text := secret(reference)).startswith("{"):
            sign_out(text)


def forget_all(session: Session) -> None:
    """Delete the tokens that `join` kept for all registered hubs, in the keyring and in the home."""
    state = session.daemon.home.state
    for entry in session.daemon.registry.current().entries.values():
        if entry.hub:
            for reference in kept(state, _kept_name(Address.parse(entry.hub))):
                drop(state, reference)


def _forget_left_over(session: Session, url: str) -> bool:
    """Delete kept tokens for this hub that no registry entry uses; returns whether there were any."""
    try:
        name = _kept_name(Address.parse(url))
    except KgdError:
        return False
    used = {entry.token for entry in session.daemon.registry.current().entries.values()}
    forgotten = [
        drop(session.daemon.home.state, one) for one in kept(session.daemon.home.state, name) if one not in used
    ]
    return any(forgotten)


def _kept_name(address: Address) -> str:
    return f"{address.host}:{address.port}"


def whoami(session: Session, params: WhoamiParams) -> WhoamiResult:
    """Report the author of local commits, and the user's identity on each joined hub, or only on the hub `url`.

    Asks each hub. A hub that does not answer is listed with its problem.
    """
    answer: WhoamiResult = {"person": _person(session), "hubs": []}
    wanted = params.url.strip().rstrip("/") if params.url else None
    for url, ids in session.daemon.elsewhere.hubs():
        if wanted not in (None, url):
            continue
        try:
            said = session.daemon.elsewhere.who(ids[0])
            answer["hubs"].append({**_checked(said), "hub": url})  # type: ignore[typeddict-item]
        except KgdError as error:
            answer["hubs"].append({"hub": url, "workspaces": list(ids), "problem": str(error)})
    return answer


def _ask(client: HubClient) -> _Said:
    try:
        return _checked(client.workspaces())
    finally:
        client.close()


def _checked(said: dict[str, Any]) -> _Said:
    known: _Said = checked(_Said, said)
    shown: Any = fence({**known, "workspaces": [id for id in known["workspaces"] if is_workspace_id(id)]})
    return shown  # type: ignore[no-any-return]


def _in_the_way(session: Session, entry: Entry, *, replace: bool) -> str:
    registry = session.daemon.registry.current()
    known = registry.entries.get(entry.id)
    if known is None or entry.id in registry.shared or known.hub == entry.hub:
        return ""
    if known.path:
        return f"a workspace with this id is at {known.path}"
    return (
        ""
        if replace
        else f"this id is registered from {known.hub or known.remote}; --replace takes the hub's workspace instead"
    )


def _person(session: Session) -> str:
    try:
        who = person(addressing.choose(session, None).layout, git_own_file())
    except (NotFound, Unavailable, InvariantViolation):
        return ""
    return f"{who.name} <{who.email}>"


JOIN = Operation(
    name="join",
    title="Join a hub",
    description="Stores a token for a hub and registers its workspaces.",
    hints=Hints(idempotent=True, open_world=True),
    run=join,
    commands=(
        Command(
            "Sharing",
            ("join a hub to read its workspaces here; asks for a token, or reads it from a pipe"),
            (
                option("url", value="URL"),
                option("--sign-in", "sign in with your organisation's account, in a browser on any machine"),
                option("--replace", "replace workspaces with the same ids from elsewhere"),
            ),
            place=80,
            examples=(("kgd join https://kgd.example.com", "sign in, and use the workspaces of this hub"),),
            own="local.join",
        ),
    ),
)
LEAVE = Operation(
    name="leave",
    title="Leave a hub",
    description="Removes a hub's workspaces and its token.",
    hints=Hints(idempotent=True),
    run=leave,
    commands=(
        Command(
            "Sharing",
            "leave a hub: remove its workspaces and its token from this machine, and sign out",
            (option("url", value="URL"),),
            place=90,
            print="printing_sharing.left",
        ),
    ),
)
WHOAMI = Operation(
    name="whoami",
    title="Who am I",
    description="The caller's identity here and on each joined hub.",
    hints=Hints(read_only=True, open_world=True),
    run=whoami,
    commands=(
        Command(
            "Sharing",
            "show the author of your commits, and your identity on each hub",
            (option("url", "only this hub", "URL", nargs="?"),),
            place=100,
            print="printing_sharing.whoami",
        ),
    ),
)
