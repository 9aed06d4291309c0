"""Citations of code in a node (file, symbol, verified content), and the judgement whether the node is stale.

A citation is ``path``, ``path@commit``, ``path#symbol`` or ``path@commit#symbol`` in ``data.cites``; a relation to a
file with ``commit`` or ``blob`` in its data is also a citation. The path may be a folder, of which only the existence
is compared. Verifications are keys of ``data.verified``: the citation as written, ``@``, and the id of the content.
Because verifications are keys, there is no conflict when two users verify the same fact on two branches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from kgd.errors import KgdError
from kgd.freshness.code import FOLDER, ID, READ, Code
from kgd.model.fields import CITES
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri, path_of, scheme_of, uri_at, workspace_of

VERIFIED = "verified"
"""The key in `data` that contains the verifications."""

RENAMED = "renamed_code"
"""The key in `data` that contains the present paths of renamed code, by former paths. Checkouts of older code have only
the former path."""

MOST = 100
"""Maximum number of citations, and of renames, to read per node."""

_SIGNS = (b"cites", b"verified", b"commit", b"blob", b"renamed_code")
"""The file of a node that cites code, or records renames, contains at least one of these words."""
_FORM = re.compile(
    r"(?P<path>[^\n]+?)(?:@(?P<at>[0-9a-f]{7,40}))?(?:#(?P<symbol>[\w$][^\s#@]*))?(?:@(?P<late>[0-9a-f]{7,40}))?"
).fullmatch
_NOTE = re.compile(r"(?P<text>.+)@(?P<id>[0-9a-f]{12})", re.DOTALL).fullmatch
_CONFIRMED = re.compile(r"@[0-9a-f]{12}").fullmatch
_EXTENSION = re.compile(r".*[\w)]\.[A-Za-z]\w{0,7}(?:#[\w$.]+)?", re.DOTALL).fullmatch
_OUTSIDE = re.compile(r"(?:[a-z][a-z0-9+.-]*:|[A-Za-z]:[\\/])").match


@dataclass(frozen=True, slots=True)
class Citation:
    """A place in the code. `text` is its spelling; `at` is a commit or blob in hex, or empty; `path` is relative."""

    text: str
    path: str
    symbol: str = ""
    at: str = ""


def parse(text: str, workspace: str) -> Citation | None:
    """The parsed citation; None if it cannot be a file of the code tree, such as a book or an address."""
    found = _FORM(text.strip())
    path = _relative(found["path"], workspace) if found else None
    if found is None or path is None:
        return None
    return Citation(text, path, found["symbol"] or "", found["at"] or found["late"] or "")


def placed(text: str, locate: Callable[[str], str | None], workspace: str, exists: Callable[[str], bool]) -> str:
    """The citation with the path that `locate` returns, from the top of the code tree; unchanged if it returns None.

    If the text, or its part before ``#``, is a path that `exists`, this reading takes precedence: the characters ``#``,
    ``:`` and ``@`` are then part of the path.
    """
    whole = text.strip()
    head, sign, symbol = whole.rpartition("#")
    for at, name in ((whole, ""), (head, symbol)) if sign else ((whole, ""),):
        there = locate(at) if at and "://" not in at else None
        if there and exists(there) and (spelled := _as_uri(there.rstrip("/"), name, workspace)):
            return spelled
    found = _FORM(text.strip())
    path = locate(found["path"]) if found and "://" not in found["path"] else None
    return f"{path}{text.strip()[found.end('path') :]}" if found and path else text


def _as_uri(path: str, symbol: str, workspace: str) -> str:
    """The citation with the URI of a file whose plain path would be read differently, as in ``ab#1.py``; empty for
    other paths."""
    suffix = f"#{symbol}" if symbol else ""
    plain, uri = parse(f"{path}{suffix}", workspace), uri_at("file", workspace, path)
    if uri is None or (plain is not None and (plain.path, plain.symbol, plain.at) == (path, symbol, "")):
        return ""
    read = parse(f"{uri}{suffix}", workspace)
    return f"{uri}{suffix}" if read is not None and (read.path, read.symbol, read.at) == (path, symbol, "") else ""


def moved(text: str, workspace: str, to: Callable[[str], str | None]) -> str:
    """The citation with the path that `to` returns for its path; unchanged if it returns None.

    The commit is omitted, since its tree has the former path.
    """
    one = parse(text, workspace)
    path = to(one.path) if one else None
    if one is None or path is None:
        return text
    slash = "/" if text.strip().endswith("/") else ""
    if spelled := _as_uri(path, one.symbol, workspace):
        return spelled
    return f"{path}#{one.symbol}" if one.symbol else f"{path}{slash}"


def looks_like_a_path(text: str) -> bool:
    """Whether a text looks like a path; papers and books can be cited as well."""
    return " " not in text and ("/" in text or "." in text)


def names_a_file(text: str) -> bool:
    """Whether a text that is no citation of a file seems to be meant as one: it ends with an extension, and does not
    lead out of the tree."""
    is_outside = "://" in text or text.strip().startswith(("/", "../", "~"))
    return not is_outside and _EXTENSION(text.strip()) is not None


def may_cite(data: bytes) -> bool:
    """Whether the file of a node may have a citation or a rename; other files need not be parsed."""
    return any(word in data for word in _SIGNS)


def of(node: Node, workspace: str) -> list[Citation]:
    """The distinct citations of a node: from ``data.cites``, and relations that have a version or were verified."""
    found: dict[str, Citation] = {}
    for one in _cited(node, workspace):
        found.setdefault(one.text, one)
        if len(found) == MOST:
            break
    return list(found.values())


def _cited(node: Node, workspace: str) -> Iterator[Citation]:
    cites = node.data.get(CITES)
    for text in cites if isinstance(cites, list) else [cites]:
        if isinstance(text, str) and (one := parse(text, workspace)):
            yield one
    notes = notes_of(node)
    for relation in node.relations:
        if (one := by_relation(relation, workspace)) and (one.at or one.text in notes):
            yield one


def by_relation(relation: Relation, workspace: str) -> Citation | None:
    """The citation for a relation to a file or symbol of this workspace; None for other relations."""
    at = next((v for key in ("blob", "commit") if isinstance(v := relation.data.get(key), str) and v), "")
    scheme, path = scheme_of(relation.target), path_of(relation.target)
    if scheme not in ("file", "symbol") or workspace_of(relation.target) != workspace:
        return None
    symbol = relation.data.get("symbol")
    if scheme == "symbol":
        path, _, symbol = path.rpartition("/")
    if isinstance(symbol, str) and symbol:
        return Citation(f"{path}#{symbol}", path, symbol, at)
    return Citation(path, path, "", at)


def notes_of(node: Node) -> dict[str, set[str]]:
    """The verified content ids of each citation, by its text."""
    notes: dict[str, set[str]] = {}
    given = node.data.get(VERIFIED)
    for key, value in given.items() if isinstance(given, Mapping) else ():
        if value and (found := _NOTE(key)):
            notes.setdefault(found["text"], set()).add(found["id"])
    return notes


def renames_of(node: Node) -> dict[str, str]:
    """The present paths of the renamed code that a node names, by former paths."""
    given = node.data.get(RENAMED)
    pairs = given.items() if isinstance(given, Mapping) else ()
    return {was: now for was, now in islice(pairs, MOST) if isinstance(now, str) and was and now}


def confirmed_at(node: Node) -> set[str]:
    """The commits at which an area was verified, in 12 hex digits; their keys have nothing before the ``@``."""
    given = node.data.get(VERIFIED)
    keys = given if isinstance(given, Mapping) else {}
    return {key[1:] for key, value in keys.items() if value and _CONFIRMED(key)}


def note(text: str, id: str) -> str:
    """The key of a verification. The key verifies a citation whose content has this id or, if `text` is empty, an area
    at a commit."""
    return f"{text}@{id}"


def _relative(text: str, workspace: str) -> str | None:
    text = text.removesuffix("/")  # of a folder
    if text.startswith(("file://", "dir://")):
        try:
            uri = Uri(text)
            return (path_of(uri) or None) if workspace_of(uri) == workspace else None
        except (KgdError, ValueError, IndexError):
            return None
    path = text.replace("\\", "/").removeprefix("./")
    steps = path.split("/")
    if path.startswith("/") or _OUTSIDE(path) or not path.strip() or {"", ".", ".."} & set(steps):
        return None
    return path


ABSENT = "is not in the code tree"
NAMED = 3
"""Maximum number of citations listed in a reason; the others are only counted."""


@dataclass(frozen=True, slots=True)
class Unverified:
    """A stale node: the code changed since its statements were verified.

    `since_commit` is the commit that changed the code, in hex; empty if the change is not committed, or not found.
    `since` is the time of that commit, or of the file, in Unix seconds.
    """

    since_commit: str
    since: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A citation whose current content has not been verified. `change` is a predicate: ``changed in 85a9cf0f09``.
    `is_gone` if nothing exists at its path."""

    citation: Citation
    since_commit: str
    since: int | None
    change: str
    is_gone: bool = False

    @property
    def reason(self) -> str:
        return f"{self.citation.symbol} in {self.citation.path} {self.change}".removeprefix(" in ")


def judge(
    citation: Citation, verified: Iterable[str], code: Code, former: Collection[str] = (), *, deep: bool
) -> Finding | None:
    """The problem of a citation; None if the citation is current, or has an unknown state. A folder is current if it
    exists, and so is a file that was never verified.

    Without `deep`, commits are not searched and git is not run. `former` are the paths that the file had before it was
    renamed.
    """
    known = set(verified)
    now = code.present(citation.path, citation.symbol)
    if not known and is_missing(citation, code):
        return Finding(replace(citation, symbol=""), "", None, ABSENT)
    if not known or not now.known or now.id in known or now.id == FOLDER:
        return None
    is_not_found = bool(now.id and citation.symbol and not now.has_symbol)
    is_gone = not now.id
    change = "is gone" if is_gone else "is not found, and the file changed" if is_not_found else "changed"
    if not deep or FOLDER in known:
        return Finding(citation, "", now.changed_at or None, change, is_gone)
    after = None
    for number, (one, id) in enumerate(code.versions(citation.path, citation.symbol, former)):
        if id in known:
            if is_not_found and one.blob and id != one.blob[:ID]:
                change = "is gone"  # the verified version had the symbol
            if after is None:
                return Finding(citation, "", now.changed_at or None, f"{change}, not committed yet", is_gone)
            return Finding(citation, after.commit, after.at, f"{change} in {after.commit[:10]}", is_gone)
        if number >= READ and citation.symbol:
            break
        after = one
    change = f"{change}; the verified version is not in the history of this checkout"
    return Finding(citation, "", None, change, is_gone)


def former_paths(citation: Citation, renames: Mapping[str, str]) -> list[str]:
    return [was for was, now in renames.items() if now == citation.path]


def under_former_path(citation: Citation, renames: Mapping[str, str], code: Code) -> Citation:
    """The citation with the former path of a renamed file, if the code tree of this machine has only that path, as
    before a pull of the rename; otherwise unchanged."""
    former = former_paths(citation, renames)
    if not former or code.present(citation.path).id:
        return citation
    return replace(citation, path=next((was for was in former if code.present(was).id), citation.path))


def is_missing(citation: Citation, code: Code) -> bool:
    """Whether the citation looks like a path at which the code tree of this machine has nothing."""
    now = code.present(citation.path)
    return not now.id and now.known and looks_like_a_path(citation.path) and not code.has(citation.path)


def summed_up(findings: Sequence[Finding]) -> Unverified | None:
    """One result for all findings, dated by the earliest change; None if there are no findings."""
    if not findings:
        return None
    dated = [one for one in findings if one.since is not None]
    first = min(dated, key=lambda one: (one.since, one.citation.text)) if dated else findings[0]
    ordered = [first, *(one for one in findings if one is not first)]
    reason = "; ".join(one.reason for one in ordered[:NAMED])
    if len(ordered) > NAMED:
        reason += f"; and {len(ordered) - NAMED} more"
    return Unverified(first.since_commit, first.since, reason)
