"""The content of a registry as values: entries, settings, and an organisation's shared entries."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kgd.config.credentials import check_reference
from kgd.errors import Invalid
from kgd.git.remote_settings import HTTP, HTTPS, parse_url
from kgd.model.uri import is_workspace_id
from kgd.vectors import choosing
from kgd.vectors.choosing import Choice

SYNC_LIMIT = 86_400
SHARED_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered workspace.

    `path` is its code repository, or its own folder if `standalone`; `code` is the code tree of a standalone workspace.
    A workspace of another team has a git `remote` or a `hub` instead of a path. If an entry has both a path and a
    remote, the workspace is shared through the remote, under `ref`.

    `token` is a reference to a credential. `sync` is the poll interval in seconds; 0 means manual sync, None the
    default interval.
    """

    id: str
    path: str = ""
    code: str = ""
    standalone: bool = False
    remote: str = ""
    hub: str = ""
    ref: str = ""
    token: str = ""
    sync: float | None = None

    @classmethod
    def of(cls, id: str, work_tree: Path, code: Path | None) -> Entry:
        """The entry of a workspace, with the path of its code repository or, if it is standalone, of its own folder."""
        if code is not None and work_tree.parent == code:
            return cls(id, str(code))
        return cls(id, str(work_tree), code=str(code or ""), standalone=True)

    def written(self) -> dict[str, str | bool | float]:
        """The fields for the file, without defaults."""
        known: dict[str, str | bool | float | None] = {f.name: getattr(self, f.name) for f in fields(self)[1:]}
        return {name: value for name, value in known.items() if value or (name == "sync" and value is not None)}


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a setting: a string that matches a pattern, or is empty; `spelled` describes it."""

    pattern: str
    spelled: str

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and (not value or bool(re.fullmatch(self.pattern, value)))

    def __str__(self) -> str:
        return self.spelled


class EmbedderForm:
    """The form of a setting that chooses an embedder, parsed by `kgd.vectors.choosing`."""

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Choice)

    def __str__(self) -> str:
        return choosing.FORMS


Allowed = range | tuple[str, ...] | Form | EmbedderForm


def _setting(default: Any, allowed: Allowed, meaning: str) -> Any:
    return field(default=default, metadata={"allowed": allowed, "meaning": meaning})


AT_START = ("log_level", "http_port", "ui_port")
"""Settings that a daemon reads only when it starts."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings for all workspaces of a home. docs/config.md repeats the metadata of each field."""

    context_size: int = _setting(
        100, range(1, 100_001), "nodes in a conversation's ActiveContext before the oldest are evicted"
    )
    log_level: str = _setting(
        "info",
        ("debug", "info", "warning", "error"),
        "least severe messages in the daemon's log; read when the daemon starts",
    )
    rescan_seconds: int = _setting(
        30,
        range(1, 61),
        "seconds between two full scans of watched folders; up to 300 if scans would take over 1 % of a core",
    )
    remote_seconds: int = _setting(
        30, range(5, 601), "seconds without progress after which an attempt to reach a remote is abandoned"
    )
    tools: str = _setting(
        "",
        Form(
            "(only:)?(tasks|server-memory|apps)(,(tasks|server-memory|apps))*",
            "tasks, server-memory, apps; only:server-memory for those alone",
        ),
        "toolsets for MCP clients in addition to the default tools; `kgd mcp --tools` chooses them for one client",
    )
    document_mb: int = _setting(
        64,
        range(1, 1_025),
        "MiB of the largest file that `kgd ingest` reads as a document; larger files are reported and skipped",
    )
    open_workspaces: int = _setting(
        64,
        range(1, 10_001),
        "largest number of open workspaces; above it, the least recently used are closed until their next use",
    )
    idle_minutes: int = _setting(
        30, range(1, 1_441), "minutes without use after which a workspace without a work tree is closed"
    )
    question_days: int = _setting(
        30, range(31), "days for which unanswered questions are kept on this machine, for the overview; 0 keeps none"
    )
    http_port: int = _setting(
        0,
        range(65_536),
        "port of MCP over HTTP, only on this machine and with a token; 0 is off; read when the daemon starts",
    )
    ui_port: int = _setting(
        0,
        range(65_536),
        "port of the pages, only on this machine; 0 takes a free port, usually between 20000 and 32000, and keeps "
        "it; read when the daemon starts",
    )
    signing_key: str = _setting(
        "",
        Form(r"git|(~?/)[^\0\n]{1,1000}", "git, or the path of an SSH key"),
        "SSH key that signs kgd's commits; `git` uses git's user.signingkey; empty turns signing off; see signing.md",
    )
    resolver_url: str = _setting(
        "",
        Form(
            r"https://[A-Za-z0-9.:\[\]-]+(/[!-~]*)?|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?(/[!-~]*)?",
            "https://HOST/PATH, http:// only for this machine",
        ),
        "base of an OpenAI-compatible endpoint that resolves conflicts when the client has no model; empty is off",
    )
    resolver_model: str = _setting("", Form("[!-~]{1,200}", "a name"), "the model at that endpoint")
    resolver_token: str = _setting(
        "", Form("(env|keyring|file):[!-~]+", "env:NAME, keyring:NAME, file:PATH"), "reference to the endpoint's token"
    )
    resolver_seconds: int = _setting(60, range(1, 601), "seconds that the endpoint, or a client's model, may take")
    embedder: Choice = field(
        default=Choice(),
        metadata={
            "allowed": EmbedderForm(),
            "meaning": "model for text embeddings, so that search finds texts of similar meaning; see embeddings.md",
        },
    )


@dataclass(frozen=True, slots=True)
class Registry:
    """The content of the file.

    `organisation` is the address of a shared registry. Entries of the shared registry that the file itself does not
    have are also in `entries`, and their ids are in `shared`.
    """

    entries: dict[str, Entry]
    settings: Settings = Settings()
    organisation: str = ""
    shared: frozenset[str] = frozenset()


def parse(data: bytes, path: str) -> Registry:
    """The registry in `data`; an absent or empty file gives an empty registry.

    Raises:
        KgdError: The file is malformed; the error gives file and line. No part of a malformed file is used.
    """
    if not any(line.strip() and not line.lstrip().startswith(b"#") for line in data.splitlines()):
        return Registry({})
    from kgd.codec.guard import read  # importing ruamel takes 50 ms, and many homes have no registry

    where = os.path.basename(path)
    document = read(data, where)
    _known(document, {"workspaces", "settings", "registry"}, data, where)
    settings = _settings(_mapping(document.get("settings"), "settings", data, where), data, where)
    return Registry(_entries(document, data, where), settings, _organisation(document.get("registry"), data, where))


def parse_shared(data: bytes) -> dict[str, Entry]:
    """The entries of an organisation's registry: workspaces by remote or hub, without local paths.

    References to credentials are refused, since the file's author could otherwise have any of a user's secrets sent to
    any server. Tokens come from `kgd join` and from the user's own entries.

    Raises:
        KgdError: The file is malformed; the error gives the line. No part of a malformed file is used.
    """
    if len(data) > SHARED_LIMIT:
        raise Invalid(f"an organisation's registry has at most {SHARED_LIMIT} bytes")
    if not any(line.strip() and not line.lstrip().startswith(b"#") for line in data.splitlines()):
        return {}
    from kgd.codec.guard import read

    where = "workspaces.yaml"
    document = read(data, where)
    _known(document, {"workspaces"}, data, where)
    for id, given in _mapping(document.get("workspaces"), "workspaces", data, where).items():
        _known(_mapping(given, id, data, where), {"remote", "hub", "ref", "sync"}, data, where)
    return _entries(document, data, where)


def _entries(document: dict[str, Any], data: bytes, where: str) -> dict[str, Entry]:
    workspaces = _mapping(document.get("workspaces"), "workspaces", data, where)
    return {id: _entry(id, _mapping(given, id, data, where), data, where) for id, given in workspaces.items()}


def _organisation(value: Any, data: bytes, where: str) -> str:
    """A git address, or the absolute path of a YAML file."""
    if value is None:
        return ""
    try:
        if not isinstance(value, str):
            raise Invalid("'registry' must be an address or a path")
        text = os.path.expanduser(value)
        if not is_shared_file(text):
            parse_url(text)
        return text
    except Invalid as error:
        raise Invalid(f"'registry': {error.message}", at=_place("registry", data, where), next=error.next) from None


def is_shared_file(organisation: str) -> bool:
    """Whether an organisation's registry is a plain file rather than a git repository."""
    return os.path.isabs(organisation) and organisation.endswith((".yaml", ".yml"))


def _entry(id: str, given: dict[str, Any], data: bytes, where: str) -> Entry:
    if not is_workspace_id(id):
        raise Invalid(
            f"'{id[:70]}' is not a workspace id",
            at=_place(id, data, where),
            next="An id may contain only lower-case letters, digits and dashes.",
        )
    at = _place(id, data, where)
    _known(given, {f.name for f in fields(Entry)} - {"id"}, data, where)
    for name in ("path", "code", "remote", "hub", "ref", "token"):
        if not isinstance(given.get(name, ""), str):
            raise Invalid(f"'{name}' of workspace '{id}' must be a string", at=at)
    path, code = (os.path.expanduser(given.get(name, "")) for name in ("path", "code"))
    for name, value in (("path", path), ("code", code)):
        if value and not os.path.isabs(value):
            raise Invalid(f"'{name}' of workspace '{id}' must be an absolute path", at=at)
    standalone, remote, hub = given.get("standalone", False), given.get("remote", ""), given.get("hub", "")
    if not isinstance(standalone, bool):
        raise Invalid(f"workspace '{id}': 'standalone' must be true or false", at=at)
    if not (path or remote or hub) or (hub and (path or remote)):
        raise Invalid(
            f"workspace '{id}' needs a 'path', a 'remote' or a 'hub'; with a hub, it cannot have the other two", at=at
        )
    seconds = given.get("sync")
    if seconds is not None and (
        isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= SYNC_LIMIT
    ):
        raise Invalid(f"workspace '{id}': 'sync' must be a number of seconds, 0 to {SYNC_LIMIT}", at=at)
    _check_remote(id, given, at)
    return Entry(id, path, code, standalone, remote, hub, given.get("ref", ""), given.get("token", ""), seconds)


def _check_remote(id: str, given: dict[str, Any], at: str) -> None:
    """Check addresses, ref and token reference; none may contain a credential."""
    try:
        if given.get("token"):
            check_reference(given["token"])
        if given.get("remote"):
            parse_url(os.path.expanduser(given["remote"]))
        if given.get("hub") and parse_url(given["hub"]).kind not in (HTTP, HTTPS):
            raise Invalid("a hub must be an https:// address")
        if given.get("ref") and not re.fullmatch(r"refs/(heads|kgd)/[A-Za-z0-9_][A-Za-z0-9._/+-]{0,190}", given["ref"]):
            raise Invalid("'ref' must be a full name such as refs/heads/kgd")
    except Invalid as error:
        then = error.next.replace("--token env:NAME", "token: env:NAME")
        raise Invalid(f"workspace '{id}': {error.message}", at=at, next=then) from None


def _settings(given: dict[str, Any], data: bytes, where: str) -> Settings:
    _known(given, {f.name for f in fields(Settings)}, data, where)
    if "embedder" in given:
        given = {**given, "embedder": _embedder(given["embedder"], data, where)}
    for setting in fields(Settings):
        allowed = setting.metadata["allowed"]
        value = given.get(setting.name, setting.default)
        if isinstance(value, bool) or value not in allowed:
            raise Invalid(f"'{setting.name}' must be one of: {spelled(allowed)}", at=_place(setting.name, data, where))
    return Settings(**given)


def _embedder(value: Any, data: bytes, where: str) -> Choice:
    try:
        choice = choosing.parse(value)
        if choice.key:
            check_reference(choice.key, at="key")
    except Invalid as error:
        raise Invalid(error.message, at=_place("embedder", data, where), next=error.next) from None
    return choice


def spelled(allowed: Allowed) -> str:
    """The allowed values of a setting, in words."""
    if isinstance(allowed, Form | EmbedderForm):
        return str(allowed)
    return f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else ", ".join(allowed)


def _mapping(value: Any, name: str, data: bytes, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid(f"'{name[:70]}' must be a mapping", at=_place(name, data, where))
    return value


def _known(given: dict[str, Any], allowed: set[str], data: bytes, where: str) -> None:
    for name in given:
        if name not in allowed:
            raise Invalid(
                f"'{name[:70]}' is not known here",
                at=_place(name, data, where),
                next=f"Known: {', '.join(sorted(allowed))}.",
            )


def _place(key: str, data: bytes, where: str) -> str:
    """``file:line`` for the first line that begins with this key."""
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if line.strip().lstrip("'\"").startswith(key):
            return f"{where}:{number}"
    return where
