"""The settings file `kgd.yaml`, and the files of a workspace's first commit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from kgd.codec import canonical, documents
from kgd.errors import Invalid, KgdError, Unavailable
from kgd.model.access import Grant, Policy, Rule, plain_rules, read_grants, read_rules
from kgd.model.fields import misspelt_keys
from kgd.model.globs import Glob
from kgd.model.merge import RULES_VERSION
from kgd.model.node import Json
from kgd.model.uri import OWNED, is_workspace_id

PATH = "kgd.yaml"
REQUIRED = "required"
FORMAT = 1
"""The version of the format that this kgd reads and writes (docs/format.md)."""


_UPGRADE = "Upgrade kgd; until then the workspace is served read-only."

_FIELDS = ("workspace", "format", "merge_rules", "sharded", "policy", "signatures")
_GROUPS = "groups"
"""The key of the grants. They stay among the other keys, so that every version writes the same bytes."""

_NOBODY = (Rule((Glob("/**"),), people="none", agents="none"),)
"""Used instead of a policy that only a later kgd can read."""

_ATTRIBUTES = """\
* -text
nodes/** merge=kgd
memories/** merge=kgd
log/** merge=kgd
bulk/** merge=kgd
conflicts/** merge=kgd
"""
"""Turns off line-end conversion, and merges these files with kgd: a merge by lines would produce YAML with duplicate
keys."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the whole team. `sharded` is fixed by the first commit; `rules` are the rules of the policy.

    `signatures` is `required` if kgd accepts only signed commits. `others` are keys unknown to this version; they are
    kept.
    """

    workspace: str
    format: int = FORMAT
    merge_rules: int = RULES_VERSION
    sharded: frozenset[str] = frozenset()
    rules: tuple[Rule, ...] = ()
    signatures: str = ""
    others: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not is_workspace_id(self.workspace):
            raise Invalid(
                "a workspace id is 1 to 63 lower-case letters, digits and dashes, and does not begin with a dash",
                at="workspace",
            )
        for name in ("format", "merge_rules"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise Invalid(f"'{name}' must be an integer, 1 or greater", at=name)
        if self.signatures not in ("", REQUIRED):
            raise Invalid("'signatures' must be 'required', or absent", at="signatures")
        if unknown := sorted(self.sharded - OWNED):
            raise Invalid(f"'{unknown[0][:40]}' is not a scheme of kgd", at="sharded")

    @property
    def policy(self) -> Policy:
        return Policy(self.workspace, self.rules)

    @property
    def grants(self) -> tuple[Grant, ...]:
        """The scopes of signed-in groups; none if a later version wrote them in an unknown form."""
        try:
            return read_grants(self.others.get(_GROUPS, []), self.workspace)
        except KgdError:
            return ()


def why_too_new(settings: Settings) -> str:
    """The reason why this kgd may read but not write the workspace; empty if it may write."""
    if settings.format > FORMAT:
        return f"format {settings.format}; this kgd supports {FORMAT}"
    if settings.merge_rules > RULES_VERSION:
        return f"version {settings.merge_rules} of the merge rules; this kgd supports {RULES_VERSION}"
    return ""


def encode_settings(settings: Settings) -> bytes:
    """The canonical bytes of `kgd.yaml`.

    Raises:
        Invalid, Limit: YAML cannot represent a value of `others`.
    """
    return canonical.dump(plain_settings(settings)).encode()


@lru_cache(maxsize=16)
def decode_settings(data: bytes, *, at: str = PATH, newer: bool = False) -> Settings:
    """Parse `kgd.yaml`. Cached, since a sync round reads the same file of several commits.

    Raises:
        Invalid, Refused, Limit: As for nodes.
        Unavailable: The format or the merge rules are newer than this kgd; with `newer`, the file is read as far as
            possible, so that the workspace can be served read-only.
    """
    values = documents.read_mapping(data, at)
    format = values.get("format")
    if _is_newer(format) and not newer:
        raise Unavailable(
            f"the workspace has format {format}; this kgd supports {FORMAT}",
            at=_place(data, "format", at),
            next=_UPGRADE,
        )
    try:
        settings = settings_from_plain(values)
    except KgdError as error:
        rule = re.match(r"(policy|groups)\[(\d+)\]", error.at)
        error.message = f"{error.at}: {error.message}" if rule else error.message
        error.at = _place(data, rule[1] if rule else error.at, at, below=int(rule[2]) if rule else None)
        raise
    if not newer and (why := why_too_new(settings)):
        raise Unavailable(f"the workspace has {why}", at=_place(data, "merge_rules", at), next=_UPGRADE)
    return settings


def misspelt_settings(settings: Settings) -> Iterator[str]:
    """A sentence for each unknown key that is probably misspelt: a policy under another name has no effect."""
    others = {key: value for key, value in settings.others.items() if key != _GROUPS}
    return misspelt_keys(others, (*_FIELDS, _GROUPS))


@lru_cache(maxsize=64)
def requires_signatures(data: bytes | None) -> bool:
    """Whether the bytes of a ``kgd.yaml`` require signed commits; a file that cannot be parsed does not."""
    try:
        return data is not None and decode_settings(data, newer=True).signatures == REQUIRED
    except KgdError:
        return False


@lru_cache(maxsize=64)
def policy_in(data: bytes | None, workspace: str) -> Policy:
    """The policy in the bytes of a ``kgd.yaml``; if they cannot be parsed, only this machine's user may write."""
    try:
        if data is not None:
            return decode_settings(data, newer=True).policy
    except KgdError:
        pass
    return Policy(workspace, _NOBODY)


def rewrite_settings(previous: bytes | None, settings: Settings) -> bytes:
    """The bytes that replace `previous`: canonical, with its comments kept."""
    from kgd.codec import guard  # ruamel costs 60 ms to import; most files have no comments

    def reads_back(data: bytes) -> bool:
        return decode_settings(data, newer=True) == settings

    return guard.rewrite(previous, plain_settings(settings), encode_settings(settings), reads_back)


def first_files(workspace: str, sharded: frozenset[str] = frozenset()) -> dict[str, bytes]:
    """The files of the first commit: a pure function, so that independent copies share a merge base."""
    return {".gitattributes": _ATTRIBUTES.encode(), PATH: encode_settings(Settings(workspace, sharded=sharded))}


def settings_from_plain(values: Mapping[str, Json]) -> Settings:
    """The inverse of `plain_settings`.

    Raises:
        Invalid, Limit: The values are not settings; the error's place is the key, or a path such as
            ``policy[2].agents``.
    """
    known = {name: values[name] for name in _FIELDS if values.get(name) is not None}
    sharded, policy = known.pop("sharded", []), known.pop("policy", [])
    if not isinstance(sharded, list) or not all(isinstance(scheme, str) for scheme in sharded):
        raise Invalid("'sharded' must be a list of schemes", at="sharded")
    if not isinstance(known.get("workspace"), str):
        raise Invalid("'workspace' must be the workspace's id", at="workspace")
    try:
        rules = read_rules(policy)
    except KgdError:
        if not _is_newer(known.get("format")):
            raise
        rules = _NOBODY
    if _is_newer(known.get("format")) and known.get("signatures") != REQUIRED:
        known.pop("signatures", None)
    others = {key: value for key, value in values.items() if key not in _FIELDS}
    if not _is_newer(known.get("format")):
        read_grants(others.get(_GROUPS, []), str(known["workspace"]))
    return Settings(sharded=frozenset(sharded), rules=rules, others=others, **known)


def _is_newer(format: Json) -> bool:
    return type(format) is int and format > FORMAT


def plain_settings(settings: Settings) -> dict[str, Json]:
    """All keys with their values, in the order of the file."""
    known: dict[str, Json] = {
        "workspace": settings.workspace,
        "format": settings.format,
        "merge_rules": settings.merge_rules,
    }
    if settings.sharded:
        known["sharded"] = sorted(settings.sharded)
    if settings.rules:
        known["policy"] = [canonical.Ordered(rule) for rule in plain_rules(settings.rules)]
    # An earlier kgd, which does not know `signatures`, must write the same bytes.
    others = {**settings.others, **({"signatures": settings.signatures} if settings.signatures else {})}
    return known | {key: others[key] for key in sorted(others)}


def _place(data: bytes, key: str, at: str, *, below: int | None = None) -> str:
    """The line of a key or, if each item of its list has its own line, of item `below`."""
    found = re.search(rb"^%b:" % re.escape(key.encode()), data, re.M)
    if not found:
        return at
    start = found.start()
    if below is not None and (first := re.search(rb"^[ ]*- ", data[found.end() :], re.M)):
        items = list(re.finditer(b"^" + re.escape(first[0]), data[found.end() :], re.M))
        start = found.end() + items[below].start() if below < len(items) else start
    return f"{at}:{data.count(chr(10).encode(), 0, start) + 1}"
