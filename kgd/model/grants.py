"""Grants: the scopes that the groups of signed-in accounts have in one workspace (`groups` in ``kgd.yaml``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kgd.errors import Invalid, KgdError, Limit
from kgd.model.access import Scope, Verb

GRANTS_LIMIT = 200
_KEYS = ("group", "verbs", "paths")


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
    if unknown := sorted(map(str, value.keys() - set(_KEYS))):
        raise Invalid(f"a grant has no '{unknown[0][:40]}'", at=at, next=f"Known: {', '.join(_KEYS)}.")
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
