"""Authorization: `authorize`, and the scopes, grants and policies that it applies.

A *principal* is a caller with the scopes of their token; the *policy* is the team's, in ``kgd.yaml``. Both must allow
the access. Every surface calls `authorize` for every node that it shows or changes. A principal of None is the user of
this machine, which a local daemon cannot restrict. A *grant* gives a scope in one workspace to a group of signed-in
accounts (`groups` in ``kgd.yaml``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from kgd.errors import MALFORMED, Advice, Do, Forbidden, Invalid, KgdError, Limit
from kgd.model.globs import ANY, Glob, Place, place_of
from kgd.model.uri import Uri, is_workspace_id, parse, settings_uri, workspace_of

MAX_GLOBS = 64
MAX_NAME = 80
ACCOUNT = "oidc-"
"""Prefix of an account's id; ids of tokens contain no dash."""

GRANTS_LIMIT = 200
_GRANT_KEYS = ("group", "verbs", "paths")


class Verb(StrEnum):
    """Kinds of access. A token can have any set of them. `write` includes `propose`; no other verb includes another."""

    READ = "read"
    PROPOSE = "propose"
    WRITE = "write"
    RESOLVE = "resolve"
    ADMIN = "admin"


Kind = Literal["person", "agent", "token"]
"""The kind of a token's holder. A bare token is treated as an agent's, since no person is known to supervise it."""
Level = Literal["write", "propose", "none"]
Group = Literal["people", "agents"]

KINDS: tuple[Kind, ...] = ("person", "agent", "token")
LEVELS: tuple[Level, ...] = ("write", "propose", "none")
GROUPS: tuple[Group, ...] = ("people", "agents")
_NEEDED: Mapping[Verb, tuple[Level, ...]] = {
    Verb.WRITE: ("write",),
    Verb.RESOLVE: ("write",),
    Verb.PROPOSE: ("write", "propose"),
}
"""The policy levels that allow each verb. Reading and administration depend only on tokens."""
_GRANTS = (*GROUPS, "code_history")
"""The keys of a rule other than its paths."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Verbs allowed in one workspace, and globs that select the nodes to which the verbs apply."""

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
        """A scope from user input.

        Raises:
            Invalid, Limit: A verb is unknown, or a path pattern matches nothing; the message names it.
        """
        return cls(frozenset(map(_verb, verbs)), workspace, tuple(dict.fromkeys(map(Glob, paths))))

    def has(self, verb: Verb) -> bool:
        return verb in self.verbs or (verb is Verb.PROPOSE and Verb.WRITE in self.verbs)

    def covers(self, place: Place) -> bool:
        return any(glob.covers(place) for glob in self.globs)

    @property
    def is_whole(self) -> bool:
        """Whether the scope covers everything in the workspace."""
        return _are_whole(self.globs)

    def as_dict(self) -> dict[str, Any]:
        verbs = [verb.value for verb in Verb if verb in self.verbs]
        return {"workspace": self.workspace, "verbs": verbs, "paths": [glob.text for glob in self.globs]}


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller. `id` is the id of their token; `name` is its holder, the author of their changes.

    `expires` is in Unix seconds, None for never. `parent` is the id of the token from which this token was derived.
    `root` is the id of the first token of that line, or of the token that this token replaced; for a signed-in account,
    the id of the account (`account_id`). `email` is the address of a signed-in person, if known.
    """

    id: str
    name: str
    kind: Kind
    scopes: tuple[Scope, ...]
    expires: float | None = None
    parent: str = ""
    root: str = ""
    email: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise Invalid(
                f"'{str(self.kind)[:40]}' is not a kind of token holder", at="kind", next=f"Known: {', '.join(KINDS)}."
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
                f"a holder's name is 1 to {MAX_NAME} printable characters, without <, >, ( or )",
                at="name",
                next="Name who holds the token, such as billing-agent.",
            )

    @property
    def identity(self) -> str:
        """The identity that owns things; names can be chosen freely. Rotating a minted token does not change the
        identity."""
        return self.id if self.parent else self.root or self.id

    @property
    def line(self) -> str:
        """The identity of the minted token from which this token descends. Quotas are counted for that token, because
        any holder can make child tokens."""
        return self.root or self.parent or self.id

    @property
    def is_signed_in(self) -> bool:
        """Whether this is the token of an account that signed in; tokens made from it are not."""
        return not self.parent and self.root.startswith(ACCOUNT)

    def has_expired(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires

    def as_dict(self) -> dict[str, Any]:
        """Plain data for `principal_from`, without any secret."""
        return {
            "id": self.id,
            "name": self.name,
            "kind": self.kind,
            "scopes": [scope.as_dict() for scope in self.scopes],
            "expires": self.expires,
            "parent": self.parent,
            "root": self.root,
            **({"email": self.email} if self.email else {}),
        }


@dataclass(frozen=True, slots=True)
class Rule:
    """The access levels of people and of agents on some paths; None leaves the decision to other rules.

    `code_history` lists the groups that may see the history of the code; only a rule for all paths can have it.
    """

    globs: tuple[Glob, ...]
    people: Level | None = None
    agents: Level | None = None
    code_history: tuple[Group, ...] | None = None

    def level(self, kind: Kind) -> Level | None:
        return self.people if kind == "person" else self.agents


@dataclass(frozen=True, slots=True)
class Policy:
    """The write and propose rules of one workspace. If no rule matches, only the token decides."""

    workspace: str
    rules: tuple[Rule, ...] = ()

    def level(self, kind: Kind, place: Place) -> tuple[Level, Glob | None]:
        """The level of this kind of holder at a place, and the glob that sets it, from the last matching rule."""
        for rule in reversed(self.rules):
            level = rule.level(kind)
            if level is not None:
                for glob in rule.globs:
                    if glob.covers(place):
                        return level, glob
        return "write", None

    def shows_code_history(self, principal: Principal) -> bool:
        """Whether the principal may see the history of the code. A commit message may describe any file, so the token
        must be allowed to read everything, and the last rule with `code_history` must list the principal's group."""
        named = [rule.code_history for rule in self.rules if rule.code_history is not None]
        reads_all = any(
            scope.workspace == self.workspace and scope.has(Verb.READ) and scope.is_whole for scope in principal.scopes
        )
        return reads_all and bool(named) and _group(principal.kind) in named[-1]


def authorize(principal: Principal | None, policy: Policy, verb: Verb, uri: Uri) -> None:
    """Check that the principal may do this to a node of the policy's workspace.

    Raises:
        Forbidden: The principal may not. The message names the node and the rule, but does not reveal whether the node
            exists.
        Invalid: The URI is not canonical.
    """
    if principal is None:
        return
    if uri == settings_uri(policy.workspace):  # the subject of conflicts about settings
        authorize_settings(principal, policy, uri)
        return
    refusal = _refusal(principal, policy, verb, parse(uri))
    if refusal:
        raise refusal


def authorize_settings(principal: Principal | None, policy: Policy, path: str) -> None:
    """Check that the principal may change a file that is not a node's: ``kgd.yaml``, ``.gitattributes``, an unknown
    file.

    Raises:
        Forbidden: None of their scopes has `admin` on the whole workspace.
    """
    if principal is None:
        return
    scopes = [scope for scope in principal.scopes if scope.workspace == policy.workspace]
    if not any(Verb.ADMIN in scope.verbs and scope.is_whole for scope in scopes):
        raise Forbidden(
            f"'{principal.name}' may not change {path[:120]}: it is not a node's file, so it needs admin on /**",
            at=path,
            next="Leave that file out, or ask the workspace's administrator to change it.",
        )


def may(principal: Principal | None, policy: Policy, verb: Verb, uri: Uri) -> bool:
    """Whether `authorize` would return."""
    try:
        authorize(principal, policy, verb, uri)
    except KgdError:
        return False
    return True


def sight(principal: Principal | None, policy: Policy) -> Callable[[Uri], bool]:
    """A cached predicate for the nodes that the principal may read."""
    if principal is None:
        return lambda uri: True
    known: dict[Uri, bool] = {}

    def sees(uri: Uri) -> bool:
        answer = known.get(uri)
        if answer is None:
            answer = known[uri] = may(principal, policy, Verb.READ, uri)
        return answer

    return sees


def sees_all(principal: Principal, workspace_id: str) -> bool:
    """Whether the principal may read all of this workspace and of every other workspace in its scopes."""
    whole = {scope.workspace for scope in principal.scopes if scope.is_whole and Verb.READ in scope.verbs}
    return workspace_id in whole and len({scope.workspace for scope in principal.scopes}) == len(whole)


def check_narrower(child: Principal, parent: Principal) -> None:
    """Check that the child may do nothing that its parent may not do, and expires no later.

    Each path of the child must lie within one path of the parent; combinations of the parent's paths are not tried.

    Raises:
        Forbidden: The child may do more. The message names the verb and path that the parent lacks.
    """
    for scope in child.scopes:
        for verb in scope.verbs:
            wider = [own for own in parent.scopes if own.workspace == scope.workspace and own.has(verb)]
            for glob in scope.globs:
                if not any(glob.within(own) for one in wider for own in one.globs):
                    raise Forbidden(
                        f"'{parent.name}' may not {verb} {glob} in '{scope.workspace}' and cannot delegate it",
                        at="paths",
                        next=f"Its own scope is: {told(parent.scopes)}.",
                    )
    if parent.expires is not None and (child.expires is None or child.expires > parent.expires):
        raise Forbidden("a token cannot expire later than its parent", at="expires", next="Choose an earlier time.")
    if child.kind == "person" and parent.kind != "person":
        raise Forbidden(
            "only a person's token can create a token for a person", at="kind", next="Create it for an agent."
        )


def check_reach(scope: Scope, known: Iterable[Uri]) -> None:
    """Check that each path of the scope covers at least one of the known nodes.

    Raises:
        Invalid: A path covers no node, usually because of a typing error. The message names the first such path.
    """
    left = list(scope.globs)
    for uri in known:
        place = place_of(uri)
        left = [glob for glob in left if not glob.covers(place)]
        if not left:
            return
    if left:
        raise Invalid(
            f"'{left[0].text[:80]}' covers no node of '{scope.workspace}'",
            at="paths",
            next="Check its spelling and letter case: /x covers only x itself, /x/** also everything below.",
        )


def principal_from(values: Mapping[str, Any]) -> Principal:
    """The inverse of `Principal.as_dict`.

    Raises:
        Invalid, Limit: The values are not a principal.
    """
    try:
        scopes = tuple(Scope.of(one["workspace"], one["verbs"], one["paths"]) for one in values["scopes"])
        expires = values.get("expires")
        return Principal(
            str(values["id"]),
            str(values["name"]),
            values["kind"],
            scopes,
            None if expires is None else float(expires),
            str(values.get("parent") or ""),
            str(values.get("root") or ""),
            str(values.get("email") or ""),
        )
    except MALFORMED:
        raise Invalid("this is not a token's holder") from None


def read_rules(value: Any) -> tuple[Rule, ...]:
    """The rules under `policy:` of ``kgd.yaml``, as plain data (docs/scopes.md).

    Raises:
        Invalid, Limit: A rule is not valid; the error gives its place, such as ``policy[2].agents``.
    """
    if not isinstance(value, list):
        raise Invalid("a policy is a list of rules", at="policy", next='Write - paths: ["/**"] and agents: propose.')
    return tuple(_rule(one, f"policy[{index}]") for index, one in enumerate(value))


def plain_rules(rules: Collection[Rule]) -> list[dict[str, Any]]:
    """The rules as plain data; the inverse of `read_rules`."""
    return [
        {"paths": [glob.text for glob in rule.globs]}
        | ({"people": rule.people} if rule.people else {})
        | ({"agents": rule.agents} if rule.agents else {})
        | ({} if rule.code_history is None else {"code_history": list(rule.code_history)})
        for rule in rules
    ]


def told(scopes: Iterable[Scope]) -> str:
    """Scopes as readable text, for pages and error messages."""
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
        if verb is Verb.WRITE and any(scope.has(Verb.PROPOSE) and scope.covers(place) for scope in here):
            propose = Advice("Propose it with ", Do("submit_subgraph"), ".")
            return Forbidden(f"{who}: its token may only propose changes to that node", at=uri, next=propose)
        way_out = f"It may {told(here)[:200]}." if here else f"It has no scope in '{policy.workspace}'."
        return Forbidden(f"{who}: no scope of its token covers that node", at=uri, next=way_out)
    if verb in _NEEDED:
        level, glob = policy.level(principal.kind, place)
        if level not in _NEEDED[verb]:
            group = _group(principal.kind)
            way_out = (
                Advice("Propose it with ", Do("submit_subgraph"), ".")
                if level == "propose"
                else "Ask the maintainer of the policy in kgd.yaml."
            )
            allowed = "only propose" if level == "propose" else "change nothing"
            return Forbidden(f"{who}: the policy lets {group} {allowed} on {glob}", at=uri, next=way_out)
    return None


def _are_whole(globs: Iterable[Glob]) -> bool:
    return any(set(glob.segments) == {ANY} for glob in globs)


def _group(kind: Kind) -> Group:
    return "people" if kind == "person" else "agents"


def _verb(text: str) -> Verb:
    try:
        return Verb(text)
    except ValueError:
        raise Invalid(f"'{text[:40]}' is not a verb", at="verbs", next=f"Known: {', '.join(Verb)}.") from None


def _rule(value: Any, at: str) -> Rule:
    if not isinstance(value, Mapping) or not value.get("paths"):
        raise Invalid("a rule needs paths", at=at, next='Write paths: ["/services/**"].')
    if unknown := sorted(map(str, value.keys() - {"paths", *_GRANTS})):
        raise Invalid(f"a rule has no '{unknown[0][:40]}'", at=at, next=f"Known: paths, {', '.join(_GRANTS)}.")
    given = value["paths"]
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise Invalid("'paths' must be a list of path patterns", at=f"{at}.paths")
    for who in GROUPS:
        if who in value and value[who] not in LEVELS:
            raise Invalid(f"'{who}' must be write, propose or none", at=f"{at}.{who}")
    if not value.keys() & _GRANTS:
        raise Invalid(
            "a rule needs 'people', 'agents' or 'code_history'", at=at, next="Add agents: propose, for example."
        )
    try:
        globs = tuple(Glob(one) for one in given)
    except KgdError as error:
        error.at = f"{at}.paths"
        raise
    return Rule(globs, value.get("people"), value.get("agents"), _code_history(value, globs, f"{at}.code_history"))


def _code_history(value: Mapping[str, Any], globs: Collection[Glob], at: str) -> tuple[Group, ...] | None:
    groups = value.get("code_history")
    if "code_history" not in value:
        return None
    if not isinstance(groups, list) or not all(isinstance(one, str) and one in GROUPS for one in groups):
        raise Invalid("'code_history' must be a list of 'people', 'agents' or both", at=at)
    if not _are_whole(globs):
        raise Invalid("a rule about the code's history must cover all paths", at=at, next='Give it paths: ["/**"].')
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class Grant:
    """A scope of one group. `group` is ``ISSUER:GROUP``; ``ISSUER:*`` is everyone who signs in with this issuer."""

    group: str
    scope: Scope


def read_grants(value: Any, workspace: str) -> tuple[Grant, ...]:
    """The grants under `groups:` of ``kgd.yaml``, as plain data (docs/scopes.md).

    Raises:
        Invalid, Limit: A grant is not valid; the error gives its place, such as ``groups[2].verbs``.
    """
    if not isinstance(value, list):
        raise Invalid("'groups' must be a list", at="groups", next="Write - group: company:team, with its verbs.")
    if len(value) > GRANTS_LIMIT:
        raise Limit(f"a workspace has at most {GRANTS_LIMIT} grants", at="groups")
    return tuple(_grant(one, workspace, f"groups[{index}]") for index, one in enumerate(value))


def scopes_of(groups: Collection[str], grants: Iterable[Grant]) -> tuple[Scope, ...]:
    """The scopes of an account with these groups."""
    return tuple(dict.fromkeys(one.scope for one in grants if one.group in groups))


def _grant(value: Any, workspace: str, at: str) -> Grant:
    if not isinstance(value, Mapping) or not isinstance(group := value.get("group"), str) or ":" not in group:
        raise Invalid("a grant needs a group", at=f"{at}.group", next="Write ISSUER:GROUP, as in company:platform.")
    if unknown := sorted(map(str, value.keys() - set(_GRANT_KEYS))):
        raise Invalid(f"a grant has no '{unknown[0][:40]}'", at=at, next=f"Known: {', '.join(_GRANT_KEYS)}.")
    verbs, paths = value.get("verbs", ["read"]), value.get("paths", ["/**"])
    for name, given in (("verbs", verbs), ("paths", paths)):
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise Invalid(f"'{name}' must be a list of strings", at=f"{at}.{name}")
    try:
        scope = Scope.of(workspace, verbs, paths)
    except KgdError as error:
        error.at = f"{at}.{error.at or 'paths'}"
        raise
    if Verb.ADMIN in scope.verbs and not scope.is_whole:
        raise Invalid("'admin' must cover all paths", at=f"{at}.verbs", next="Give it a grant of its own, for /**.")
    return Grant(group, scope)
