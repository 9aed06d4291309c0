"""This file is where it is decided who may do what to which node: `authorize`, and the values it judges by.

A *principal* is whoever asks, with the scopes of their token; the *policy* is what the team wrote into ``kgd.yaml``.
Both have to agree. Every surface asks this one function, for every node it is about to show or change; None stands for
the person at this machine, whom a daemon on the same machine could not keep out anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from kgd.errors import Advice, Do, Forbidden, Invalid, KgdError, Limit
from kgd.model.globs import ANY, Glob, Place, place_of
from kgd.model.uri import Uri, is_workspace_id, parse, settings_uri, workspace_of

MAX_GLOBS = 64
MAX_NAME = 80


class Verb(StrEnum):
    """What may be done. A token has any set of these; `write` includes `propose`, and nothing else is included."""

    READ = "read"
    PROPOSE = "propose"
    WRITE = "write"
    RESOLVE = "resolve"
    ADMIN = "admin"


Kind = Literal["person", "agent", "token"]
"""What is behind a principal. A bare token counts as an agent: nobody said that a person looks on."""
Level = Literal["write", "propose", "none"]

KINDS: tuple[Kind, ...] = ("person", "agent", "token")
LEVELS: tuple[Level, ...] = ("write", "propose", "none")
_NEEDED: Mapping[Verb, tuple[Level, ...]] = {
    Verb.WRITE: ("write",),
    Verb.RESOLVE: ("write",),
    Verb.PROPOSE: ("write", "propose"),
}
"""The levels of the policy under which a verb is allowed. Reading and administration are the tokens' business alone."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Verbs on the nodes of one workspace that any of the globs covers."""

    verbs: frozenset[Verb]
    workspace: str
    globs: tuple[Glob, ...]

    def __post_init__(self) -> None:
        if not self.verbs:
            raise Invalid("a scope without verbs allows nothing", at="verbs", next=f"Known: {', '.join(Verb)}.")
        if not self.globs:
            raise Invalid("a scope without paths covers nothing", at="paths", next="Write /** for everything.")
        if len(self.globs) > MAX_GLOBS:
            raise Limit(f"a scope has at most {MAX_GLOBS} path patterns", at="paths")
        if not is_workspace_id(self.workspace):
            raise Invalid(f"'{self.workspace[:70]}' is not a workspace id", at="workspace")

    @classmethod
    def of(cls, workspace: str, verbs: Iterable[str], paths: Iterable[str]) -> Scope:
        """A scope from what somebody typed.

        Raises:
            Invalid, Limit: A verb is not known, or a path pattern matches nothing; the message names it.
        """
        return cls(frozenset(map(_verb, verbs)), workspace, tuple(dict.fromkeys(map(Glob, paths))))

    def has(self, verb: Verb) -> bool:
        return verb in self.verbs or (verb is Verb.PROPOSE and Verb.WRITE in self.verbs)

    def covers(self, place: Place) -> bool:
        return any(glob.covers(place) for glob in self.globs)

    @property
    def is_whole(self) -> bool:
        """Whether it covers everything in the workspace."""
        return any(set(glob.segments) == {ANY} for glob in self.globs)

    def as_dict(self) -> dict[str, Any]:
        verbs = [verb.value for verb in Verb if verb in self.verbs]
        return {"workspace": self.workspace, "verbs": verbs, "paths": [glob.text for glob in self.globs]}


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever asks. `id` is their token's, `name` its holder, who is the author of what they change.

    `expires` is in Unix seconds, None for never; `parent` is the id of the token that this one was made from, and
    `root` of the first one in that line, or of the one that this one replaced.
    """

    id: str
    name: str
    kind: Kind
    scopes: tuple[Scope, ...]
    expires: float | None = None
    parent: str = ""
    root: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise Invalid(
                f"'{str(self.kind)[:40]}' is no kind of holder", at="kind", next=f"Known: {', '.join(KINDS)}."
            )
        name = self.name
        if (
            not name
            or len(name) > MAX_NAME
            or name != name.strip()
            or not name.isprintable()
            or set("<>()") & set(name)
        ):
            raise Invalid(
                f"a holder's name is 1 to {MAX_NAME} printable characters without <, >, ( and )", at="name",
                next="Name who holds the token, such as billing-agent.",
            )  # fmt: skip

    @property
    def identity(self) -> str:
        """By what it is known whose something is, since names can be chosen; a rotation of a minted token keeps it."""
        return self.id if self.parent else self.root or self.id

    @property
    def line(self) -> str:
        """The identity of the token that the keeper minted, which this one was made from, or is: what is shared out
        goes by it, since children can be made by anybody."""
        return self.root or self.parent or self.id

    def has_expired(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires

    def as_dict(self) -> dict[str, Any]:
        """Plain data that `principal_from` reads back; it holds no secret."""
        return {
            "id": self.id, "name": self.name, "kind": self.kind, "scopes": [scope.as_dict() for scope in self.scopes],
            "expires": self.expires, "parent": self.parent, "root": self.root,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """What people and agents may do on some paths; None says nothing about them."""

    globs: tuple[Glob, ...]
    people: Level | None = None
    agents: Level | None = None

    def level(self, kind: Kind) -> Level | None:
        return self.people if kind == "person" else self.agents


@dataclass(frozen=True, slots=True)
class Policy:
    """Who writes and who proposes in one workspace. Where no rule says otherwise, tokens decide alone."""

    workspace: str
    rules: tuple[Rule, ...] = ()

    def level(self, kind: Kind, place: Place) -> tuple[Level, Glob | None]:
        """What this kind of holder may do there, and the pattern that says so: the last rule that covers it counts."""
        for rule in reversed(self.rules):
            level = rule.level(kind)
            if level is not None:
                for glob in rule.globs:
                    if glob.covers(place):
                        return level, glob
        return "write", None


def authorize(principal: Principal | None, policy: Policy, verb: Verb, uri: Uri) -> None:
    """Return if this principal may do this to that node of the policy's workspace.

    Raises:
        Forbidden: One sentence that names the node and the rule. It says nothing of whether the node exists.
        Invalid: The URI is not canonical.
    """
    if principal is None:
        return
    if uri == settings_uri(policy.workspace):  # what a conflict about them is under
        authorize_settings(principal, policy, uri)
        return
    refusal = _refusal(principal, policy, verb, parse(uri))
    if refusal:
        raise refusal


def authorize_settings(principal: Principal | None, policy: Policy, path: str) -> None:
    """Return if this principal may change a file that is no node's: ``kgd.yaml``, ``.gitattributes``, an unknown one.

    Raises:
        Forbidden: No scope of theirs has `admin` on all of the workspace.
    """
    if principal is None:
        return
    scopes = [scope for scope in principal.scopes if scope.workspace == policy.workspace]
    if not any(Verb.ADMIN in scope.verbs and scope.is_whole for scope in scopes):
        raise Forbidden(
            f"'{principal.name}' may not change {path[:120]}: it is no node's file and needs admin on /**", at=path,
            next="Leave that file out, or ask whoever runs the workspace to change it.",
        )  # fmt: skip


def may(principal: Principal | None, policy: Policy, verb: Verb, uri: Uri) -> bool:
    """Whether `authorize` would return."""
    try:
        authorize(principal, policy, verb, uri)
    except KgdError:
        return False
    return True


def sight(principal: Principal | None, policy: Policy) -> Callable[[Uri], bool]:
    """What tells whether this principal may read a node, for many nodes: it remembers what it said."""
    if principal is None:
        return lambda uri: True
    known: dict[Uri, bool] = {}

    def sees(uri: Uri) -> bool:
        answer = known.get(uri)
        if answer is None:
            answer = known[uri] = may(principal, policy, Verb.READ, uri)
        return answer

    return sees


def check_narrower(child: Principal, parent: Principal) -> None:
    """Return if the child may do nothing that its parent may not, and no longer than it.

    Each path of the child has to lie within one path of the parent; that several of them cover it together is not
    tried.

    Raises:
        Forbidden: Names the verb and path that the parent does not have.
    """
    for scope in child.scopes:
        for verb in scope.verbs:
            wider = [own for own in parent.scopes if own.workspace == scope.workspace and own.has(verb)]
            for glob in scope.globs:
                if not any(glob.within(own) for one in wider for own in one.globs):
                    raise Forbidden(
                        f"'{parent.name}' may not {verb} {glob} in '{scope.workspace}' and cannot hand it on",
                        at="paths",
                        next=f"Its own scope is: {told(parent.scopes)}.",
                    )
    if parent.expires is not None and (child.expires is None or child.expires > parent.expires):
        raise Forbidden("a token cannot outlive the one it is made from", at="expires", next="Choose an earlier end.")
    if child.kind == "person" and parent.kind != "person":
        raise Forbidden("only a person's token can make one for a person", at="kind", next="Make it for an agent.")


def check_reach(scope: Scope, known: Iterable[Uri]) -> None:
    """Return if each path of the scope covers at least one of the nodes that are known.

    Raises:
        Invalid: Names the first path that covers none; most often it is mistyped.
    """
    left = list(scope.globs)
    for uri in known:
        place = place_of(uri)
        left = [glob for glob in left if not glob.covers(place)]
        if not left:
            return
    if left:
        raise Invalid(
            f"'{left[0].text[:80]}' covers no node of '{scope.workspace}'", at="paths",
            next="Check its spelling: letters' case counts, and /x covers only x itself, /x/** also what is below.",
        )  # fmt: skip


def principal_from(values: Mapping[str, Any]) -> Principal:
    """The principal that `Principal.as_dict` described.

    Raises:
        Invalid, Limit: It describes none.
    """
    try:
        scopes = tuple(Scope.of(one["workspace"], one["verbs"], one["paths"]) for one in values["scopes"])
        expires = values.get("expires")
        return Principal(
            str(values["id"]), str(values["name"]), values["kind"], scopes,
            None if expires is None else float(expires), str(values.get("parent") or ""), str(values.get("root") or ""),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Invalid("this describes no holder of a token") from None


def read_rules(value: Any) -> tuple[Rule, ...]:
    """The rules under `policy:` of ``kgd.yaml``, as plain data (docs/scopes.md).

    Raises:
        Invalid, Limit: The place is ``policy[2].agents``.
    """
    if not isinstance(value, list):
        raise Invalid("a policy is a list of rules", at="policy", next='Write - paths: ["/**"] and agents: propose.')
    return tuple(_rule(one, f"policy[{index}]") for index, one in enumerate(value))


def plain_rules(rules: Collection[Rule]) -> list[dict[str, Any]]:
    """The rules as plain data, which `read_rules` reads back."""
    return [
        {"paths": [glob.text for glob in rule.globs]}
        | ({"people": rule.people} if rule.people else {})
        | ({"agents": rule.agents} if rule.agents else {})
        for rule in rules
    ]


def told(scopes: Iterable[Scope]) -> str:
    """Scopes in words, for people and refusals."""
    return "; ".join(
        f"{', '.join(verb for verb in Verb if verb in scope.verbs)} on {', '.join(map(str, scope.globs[:5]))}"
        f"{' and more' if len(scope.globs) > 5 else ''} of '{scope.workspace}'"
        for scope in scopes
    )


def _refusal(principal: Principal, policy: Policy, verb: Verb, uri: Uri) -> Forbidden | None:
    who = f"'{principal.name}' may not {verb} {uri[:160]}"
    if workspace_of(uri) not in (None, policy.workspace):
        return Forbidden(f"{who}: it belongs to another workspace than '{policy.workspace}'", at=uri)
    place = place_of(uri)
    here = [scope for scope in principal.scopes if scope.workspace == policy.workspace]
    granted = [scope for scope in here if scope.has(verb)]
    if not any(scope.covers(place) for scope in granted):
        way_out = f"It may {told(here)[:200]}." if here else f"It has no scope in '{policy.workspace}'."
        if verb is Verb.WRITE and any(scope.has(Verb.PROPOSE) and scope.covers(place) for scope in here):
            way_out = Advice("It may propose that with ", Do("submit_subgraph"), ".")
        return Forbidden(f"{who}: no scope of its token covers that", at=uri, next=way_out)
    if verb in _NEEDED:
        level, glob = policy.level(principal.kind, place)
        if level not in _NEEDED[verb]:
            group = "people" if principal.kind == "person" else "agents"
            way_out = (
                Advice("Propose it with ", Do("submit_subgraph"), ".")
                if level == "propose"
                else "Ask whoever keeps the policy in kgd.yaml."
            )
            allowed = "only propose" if level == "propose" else "change nothing"
            return Forbidden(f"{who}: the policy lets {group} {allowed} on {glob}", at=uri, next=way_out)
    return None


def _verb(text: str) -> Verb:
    try:
        return Verb(text)
    except ValueError:
        raise Invalid(f"'{text[:40]}' is no verb", at="verbs", next=f"Known: {', '.join(Verb)}.") from None


def _rule(value: Any, at: str) -> Rule:
    if not isinstance(value, Mapping) or not value.get("paths"):
        raise Invalid("a rule names paths", at=at, next='Write paths: ["/services/**"].')
    if unknown := sorted(map(str, value.keys() - {"paths", "people", "agents"})):
        raise Invalid(f"a rule has no '{unknown[0][:40]}'", at=at, next="Known: paths, people, agents.")
    given = value["paths"]
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise Invalid("'paths' is a list of path patterns", at=f"{at}.paths")
    for who in ("people", "agents"):
        if who in value and value[who] not in LEVELS:
            raise Invalid(f"'{who}' is write, propose or none", at=f"{at}.{who}")
    if not {"people", "agents"} & value.keys():
        raise Invalid("a rule says what people or agents may do", at=at, next="Add agents: propose, for example.")
    try:
        globs = tuple(Glob(one) for one in given)
    except KgdError as error:
        error.at = f"{at}.paths"
        raise
    return Rule(globs, value.get("people"), value.get("agents"))
