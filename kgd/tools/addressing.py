"""Addresses: the canonical URI of a node, from any spelling that people and agents use, and similar names for a typo.

The store is strict and this module is lenient: a bare path, ``./src``, an absolute path, ``atom:checkout-page`` and a
URI with a space in it all lead to their node. Answers always give the canonical URI.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

from kgd.config.entries import Entry
from kgd.errors import Advice, Do, Forbidden, Invalid, KgdError, NotFound, Unavailable
from kgd.git.discovery import find_place
from kgd.git.layout import locate, project_name
from kgd.git.remote_settings import remotes
from kgd.index.words import parts_of
from kgd.model import uri as uris
from kgd.model.escaping import printable
from kgd.model.uri import Uri, scheme_of, workspace_id_from
from kgd.tools import worktrees
from kgd.tools.nodes import CAUGHT_UP_WITHIN, catch_up, overlay_of
from kgd.tools.session import Session
from kgd.tools.visibility import Sees
from kgd.workspace.workspace import Workspace

LINES_OF_FILE = re.compile(
    r"(?P<path>(?:[^\n,:]*+:)*?\d*+[^\n,:\d][^\n,:]*+):(?P<first>\d{1,7})(?:(?:-|:)(?P<last>\d{1,7}))?"
).fullmatch
"""Matches ``FILE:LINE``, ``FILE:FIRST-LAST``, and ``FILE:LINE:COLUMN`` as compilers print it. Takes linear time, since
the text may be long and untrusted."""


def lines_of(text: str) -> tuple[str, int, int] | None:
    """The path, the first and the last line of ``FILE:LINE``, ``FILE:FIRST-LAST`` or ``FILE:LINE:COLUMN``; None for
    other texts. The lines may be out of order."""
    found = LINES_OF_FILE(text)
    if found is None:
        return None
    first = int(found["first"])
    is_range = found["last"] is not None and text[found.end("first")] == "-"
    return found["path"], first, int(found["last"]) if is_range else first


BESIDE, ALIKE = 500, 0.75
"""Largest number of nodes of a folder to compare with a missing name, and the lowest `difflib` ratio of similar names.
"""
SHORT = 4
"""Words of at most this many letters are short: see `alike`."""
BEGINNING = 4
"""Fewest letters of a word that count as the beginning of a similar word."""
NAME_WORDS = 30
"""Largest number of words of a name to compare."""
SUGGESTED = 3
"""Largest number of suggestions for a missing URI."""
LOOKED = 30
"""Largest number of search results for the words of a missing name, before results of `PIECES` are dropped."""
PIECES = frozenset({"chunk", "message", "symbol"})
"""Schemes of parts of files and threads. They are suggested only for a missing URI of the same scheme."""


def choose(session: Session, named: str | None, texts: Iterable[str] = (), *, writing: bool = False) -> Workspace:
    """Choose a call's workspace: the named workspace; otherwise the workspace of its first URI or absolute path;
    otherwise the client's workspace.

    If any text is a bare path or name, URIs are ignored: a bare path or name belongs to the workspace of the client's
    directory. A read falls back to the only known workspace; a write does so only if the token is for one workspace.

    Raises:
        NotFound: No workspace fits; suggests close names, or `kgd up`.
        Forbidden: The caller's token is for other workspaces, or this workspace is read-only here.
    """
    if writing and (elsewhere := far(session, named, texts := list(texts))):
        raise _read_only(elsewhere, "on a hub")
    chosen = _chosen(session, named, texts, writing=writing)
    session.enter(chosen)
    entry = session.daemon.registry.current().entries.get(chosen.id) if writing else None
    if entry and entry.remote and not entry.path:  # known by its address only
        raise _read_only(chosen.id, "a read-only clone here")
    return chosen


def _read_only(workspace: str, how: str) -> Forbidden:
    return Forbidden(
        f"workspace '{workspace}' belongs to another team ({how}) and cannot be changed from here",
        at="workspace",
        next=Advice("Submit your changes with ", Do("submit_subgraph"), "."),
    )


def _chosen(session: Session, named: str | None, texts: Iterable[str], *, writing: bool) -> Workspace:
    if named:
        return _by_name(session, named)
    texts = list(texts)
    if any(map(_is_bare, texts)) and (here := own_workspace(session)):
        return here
    unknown: NotFound | None = None
    for text in texts:
        try:
            found = _from_text(session, text)
        except NotFound as refusal:
            if writing:
                raise
            unknown = unknown or refusal
        else:
            if found is not None:
                return found
    if unknown is not None:
        raise unknown
    if here := own_workspace(session):
        return here
    entries = session.daemon.registry.current().entries
    known = [id for id in visible(session) if id not in entries or entries[id].path]
    if len(known) == 1 and (session.principal is not None or not writing):  # a token for one workspace determines it
        return _by_id(session, known[0])
    if not known and (on_hubs := visible(session)):
        if len(on_hubs) == 1:
            return _by_id(session, on_hubs[0])  # raises, and names the calls that read it there
        raise NotFound("this machine has no workspace", at="workspace", next=f"Name one on a hub: {_some(on_hubs)}.")
    if not known:
        way_in = "Run `kgd up` in a code repository, or in the clone of a workspace."
        raise NotFound("there is no workspace yet", at="workspace", next=way_in)
    is_outside = session.cwd is not None and session.principal is None
    clone = _other_clone(session)
    raise NotFound(
        "this directory has no workspace" if is_outside else "it is not clear which workspace is meant",
        at="workspace",
        next=f"Name one with `workspace`: {clone.id if clone else _some(known)}; or run {set_up(session)}.",
    )


def set_up(session: Session) -> str:
    """The command that gives the caller's directory a workspace: `kgd up` refuses a second repository with an id."""
    place = find_place(session.cwd) if session.cwd is not None and session.principal is None else None
    if session.cwd is not None and place is not None:
        if (clone := _other_clone(session)) is not None and _is_shared(Path(clone.path)):
            return f"`kgd up --replace` in this directory to use this clone instead of {clone.path}"
        if clone is not None:
            return f"`kgd up --id NEW` in this directory for a separate workspace, because '{clone.id}' is not shared"
        id = workspace_id_from(project_name(session.cwd))
        known = session.daemon.registry.current().entries.get(id)
        if known is not None and known.path and session.daemon.places.is_there(known):
            return f"`kgd up --id NEW` in this directory, because another repository is registered as '{id}'"
    return "`kgd up` in this directory to create one here"


def _other_clone(session: Session) -> Entry | None:
    """The registered workspace of another clone of the code in the caller's directory."""
    if session.cwd is None or session.principal is not None:
        return None
    entries = session.daemon.registry.current().entries.values()
    same = (one for one in entries if one.path and worktrees.is_clone_of(session.cwd, Path(one.path)))
    return next(filter(session.daemon.places.is_there, same), None)


def _is_shared(code: Path) -> bool:
    """Whether the workspace at a path has a remote, from which another clone can start."""
    try:
        layout = locate(code)
    except KgdError:
        return False
    return layout is not None and bool(remotes(layout))


def far(session: Session, named: str | None, texts: Iterable[str] = (), *, reads: bool = False) -> str | None:
    """The id of the workspace that `choose` would choose if that workspace is on a hub, otherwise None.

    With `reads`, a call that names no workspace falls back to the only known one.
    """
    if session.principal is not None:
        return None
    on_hub = session.daemon.elsewhere.on_hub
    if named:
        return named if on_hub(named) else None
    texts = list(texts)
    owners = [owner for text in texts if (owner := _owner_in(text)) is not None]
    if not owners:
        known = visible(session) if reads else []
        return known[0] if len(known) == 1 and on_hub(known[0]) and own_workspace(session) is None else None
    if not all(map(on_hub, owners)) or (any(map(_is_bare, texts)) and own_workspace(session)):
        return None
    return owners[0]


def cloned(session: Session, named: str | None, texts: Iterable[str] = ()) -> str | None:
    """Like `far`, for a workspace with a read-only clone here."""
    owners = {named} if named else {_owner_in(text) for text in texts}
    entry = session.daemon.registry.current().entries.get(next(iter(owners)) or "") if len(owners) == 1 else None
    return entry.id if entry is not None and entry.remote and not entry.path else None


def _plain(text: str) -> str:
    """The stripped text; a file URL of this machine (``file:///src/a%20b``) becomes its path.

    MCP hosts write files in this way. Such a URL has an empty host in the place where a kgd URI has its workspace.
    """
    text = text.strip()
    return unquote(text[len("file://") :], errors="surrogateescape") if text.startswith("file:///") else text


def _in_this_tree(session: Session, workspace: Workspace, text: str) -> Uri | None:
    """The file meant by ``file://src/x.py`` if no workspace is called `src` and the code tree has `src/x.py`."""
    scheme, colon, path = _plain(text).partition("://")
    owner = path.partition("/")[0]
    if not colon or scheme not in uris.CODE_TREE or session.principal is not None:
        return None
    if owner == workspace.id or workspace.is_registered(owner) or is_visible(session, owner):
        return None
    try:
        encoded = [_bytes_of(segment) for segment in path.rstrip("/").split("/")]
        found = uris.build(scheme, workspace.id, encoded)
    except KgdError:
        return None
    is_linked = bool(workspace.graph.into(Uri(text.strip())))  # stored by an older kgd; the link must stay removable
    return found if workspace.in_overlay(found) and not is_linked else None


def guesses(session: Session, workspace: Workspace, texts: Iterable[str]) -> list[str]:
    """A warning for each text that looks like a URI but was read as a path of the code tree."""
    return [
        f"{text.strip()[:200]} does not name a known workspace and was read as {found}; write that URI, or a path"
        for text in dict.fromkeys(texts)
        if (found := _in_this_tree(session, workspace, text))
    ]


def respelled(session: Session, workspace: Workspace, texts: Iterable[str], created: Collection[Uri]) -> Iterator[str]:
    """A warning for each text with whitespace inside that became the address of a created node."""
    for text in dict.fromkeys(map(str.strip, texts)):
        if any(map(str.isspace, text)) and (uri := spell(session, workspace, text)) in created:
            yield printable(f"'{text[:200]}' contains whitespace; it was stored as {uri}")


def _is_bare(text: str) -> bool:
    """Whether the text is a path or name without a workspace."""
    text = _plain(text)
    return not os.path.isabs(text) and (":" not in text or (text.partition(":")[0] in uris.OWNED and "://" not in text))


def _owner_in(text: str) -> str | None:
    """The workspace id in an owned URI of any spelling; empty for an absolute path, which is local; otherwise None."""
    text = _plain(text)
    scheme, colon, rest = text.partition("://")
    if colon and (scheme in uris.OWNED or uris.is_settings_uri(text)):
        return rest.partition("/")[0]
    return "" if os.path.isabs(text) else None


def on_hub(session: Session, uri: Uri) -> bool:
    """Whether to read a node from a hub. Holders of tokens read only this machine's workspaces."""
    owner = uris.workspace_of(uri)
    return owner is not None and session.principal is None and session.daemon.elsewhere.on_hub(owner)


def resolve_far(session: Session, workspace: str, text: str, *, at: str = "uri") -> Uri:
    """Like `resolve`, for a call's workspace on a hub, where a bare path names a concept.

    Raises:
        Invalid, NotFound: As `resolve` does.
    """
    text = _plain(text)
    scheme, colon, rest = text.partition(":")
    if text.startswith(("./", "../", "/")) or text == ".":
        raise Invalid("this workspace is on a hub, so it has no paths on this machine", at=at, next="Give a URI.")
    if colon and scheme in uris.OWNED:
        uri = _owned(scheme, rest[2:]) if rest.startswith("//") else _short(scheme, workspace, rest)
    elif uris.is_external(text):
        uri = uris.parse(text)
    else:
        uri = uris.from_path("concept", workspace, text.strip("/"))
    owner = uris.workspace_of(uri)
    if owner is not None and not is_visible(session, owner):
        raise _unknown(session, owner, at)
    return uri


def _refuse_place(session: Session) -> None:
    """Refuse a path from the holder of a token on another machine."""
    if session.principal is not None:
        raise Invalid("a file path cannot be used on a hub", next="Give a URI.")


def visible(session: Session) -> list[str]:
    """The workspaces that the caller may know of."""
    return [id for id in session.daemon.workspace_ids() if _may_know(session, id)]


def is_visible(session: Session, id: str) -> bool:
    """Whether the caller may know of a registered workspace."""
    return _may_know(session, id) and id in session.daemon.registry.current().entries


def _may_know(session: Session, id: str) -> bool:
    return session.principal is None or any(scope.workspace == id for scope in session.principal.scopes)


def at_hand(session: Session, named: str | None, texts: Iterable[str] = ()) -> bool:
    """Whether `choose` would find an open workspace without reading the disk."""
    opened = session.daemon.opened()
    if not named:
        texts = list(texts)
        owners = (owner for text in texts if (owner := _owner_in(text)) is not None)
        named = None if any(map(_is_bare, texts)) else next(owners, None)
    if named is not None:
        return any(workspace.id == named for workspace in opened)
    return session.here in opened if session.here is not None else session.cwd is None and len(opened) == 1


def owner_of(session: Session, workspace: Workspace, uri: Uri) -> Workspace:
    """The workspace of a URI returned by `resolve`; for an external URI, the workspace of the call."""
    owner = uris.workspace_of(uri)
    if owner in (None, workspace.id):
        return workspace
    found = _by_id(session, owner or "")
    session.enter(found)
    return found


def resolve(session: Session, workspace: Workspace, text: str, *, at: str = "uri") -> Uri:
    """The canonical URI of a node of a known workspace.

    Raises:
        Invalid: The text is neither a URI nor a path, or is a path outside the code tree.
        NotFound: Its workspace is unknown; suggests a close name.
    """
    uri = spell(session, workspace, text, at=at)
    owner = uris.workspace_of(uri)
    if owner is not None and owner != workspace.id and not is_visible(session, owner):
        raise _unknown(session, owner, at)
    return uri


def each(texts: Sequence[str], resolved: Callable[[int, str], Uri]) -> tuple[dict[int, Uri], dict[int, KgdError]]:
    """The nodes named by several texts, by position, and the errors of the other texts.

    Raises:
        KgdError: The first error, if no text names a node.
    """
    found, refused = dict[int, Uri](), dict[int, KgdError]()
    for number, text in enumerate(texts):
        try:
            found[number] = resolved(number, text)
        except (Invalid, NotFound) as refusal:
            refused[number] = refusal
    if refused and not found:
        raise next(iter(refused.values()))
    return found, refused


def reason_of(refusal: KgdError) -> str:
    """The reason why a text does not name a node: it is not an address, or its workspace is unknown."""
    return "unknown_workspace" if isinstance(refusal, NotFound) else "invalid"


def spell(session: Session, workspace: Workspace, text: str, *, at: str = "uri") -> Uri:
    """Like `resolve`, but for the target of a relation, whose workspace may be unknown."""
    if text in workspace.graph:  # a stored URI is canonical
        return Uri(text)
    try:
        return _in_this_tree(session, workspace, text) or _or_symbol(session, workspace, _plain(text))
    except Invalid as error:
        error.at = at
        raise


def _or_symbol(session: Session, workspace: Workspace, text: str) -> Uri:
    """Like `_spell`, but ``src/app.py#Shop.open``, which names no node, is that symbol if the code tree has it."""
    found = _spell(session, workspace, text)
    path, sign, name = text.partition("#")
    if not (path and sign and name) or "://" in text or workspace.exists(found):
        return found
    file = _spell(session, workspace, path)
    if scheme_of(file) != "file":
        return found
    await_symbols(session, workspace, uris.path_of(file))
    segments = [*uris.segments_of(file), name.encode("utf-8", "surrogateescape")]
    symbol = uris.build("symbol", workspace.id, segments)
    return symbol if workspace.in_overlay(symbol) else found


def await_symbols(session: Session, workspace: Workspace, path: str) -> None:
    """Wait until the symbols of the present file at a path are known. Does nothing for the holder of a token, who would
    learn from the time whether a hidden file exists.

    Raises:
        Unavailable: The file could not be read in time.
    """
    if session.principal is None and not catch_up(workspace, path):
        raise Unavailable(printable(f"the symbols of {path} are not known yet"), next="Try again in a moment.")


def _spell(session: Session, workspace: Workspace, text: str) -> Uri:
    if not text:
        raise Invalid("a URI or path is needed", next="Write concept://<workspace>/<name> or a path.")
    scheme, colon, rest = text.partition(":")
    if colon and scheme in uris.OWNED:
        found = _owned(scheme, rest[2:]) if rest.startswith("//") else _short(scheme, workspace.id, rest)
    elif text.startswith(("./", "../")) or text in (".", "..") or os.path.isabs(text):
        _refuse_place(session)
        found = _in_tree(session, workspace, text)
    elif uris.is_external(text):
        return uris.parse(text)
    else:
        return _bare(session, workspace, text)
    is_code = scheme_of(found) in uris.CODE_TREE and uris.workspace_of(found) == workspace.id
    if is_code and not workspace.exists(found):
        _await_paths(session, workspace, [uris.path_of(found)])
    return found


def _await_paths(session: Session, workspace: Workspace, paths: Iterable[str]) -> None:
    """Wait until the code tree serves its files and folders at these paths. Does nothing for the holder of a token; see
    `await_symbols`.

    Raises:
        Unavailable: The code tree could not be read in time.
    """
    if session.principal is not None or (overlay := overlay_of(workspace)) is None:
        return
    if not all(overlay.catch_up(path, CAUGHT_UP_WITHIN) for path in paths):
        raise Unavailable("the code tree is still being read", next="Try again in a moment.")


def _owned(scheme: str, rest: str) -> Uri:
    """An owned URI from any unambiguous spelling."""
    workspace, slash, path = rest.partition("/")
    written = f"{scheme}://{rest}"
    if not slash or not path or not uris.is_workspace_id(workspace):
        return uris.parse(written)
    if path in ("_", "_/") and scheme == "dir":
        return uris.build("dir", workspace, [])
    segments = path.removesuffix("/").split("/") if scheme == "dir" else path.split("/")
    return uris.build(scheme, workspace, [_bytes_of(s) for s in segments])


def _bytes_of(segment: str) -> bytes:
    try:
        return uris.decode_segment(segment)
    except Invalid:
        return segment.encode("utf-8", "surrogateescape")


def _short(scheme: str, workspace: str, path: str) -> Uri:
    """``atom:checkout-page``: this workspace's atom."""
    return _owned(scheme, f"{workspace}/{path.strip('/')}")


def _bare(session: Session, workspace: Workspace, text: str) -> Uri:
    """Resolve a text without a scheme to an existing concept; otherwise to an existing path of the code tree, from its
    top or from the client's directory; otherwise to the concept. The path may have been created a moment ago."""
    path = text.strip("/")
    if not path:
        return uris.build("dir", workspace.id, [])
    wants_directory = text.endswith("/")
    concept = uris.from_path("concept", workspace.id, path)
    if not wants_directory and workspace.exists(concept):
        return concept
    root, cwd = workspace.layout.code_tree, session.cwd if session.principal is None else None
    near = _below(workspace, root, cwd, path) if root is not None and cwd is not None else None
    places, schemes = dict.fromkeys((path, near or path)), ("dir",) if wants_directory else ("file", "dir")
    inside = [uris.from_path(scheme, workspace.id, place) for place in places for scheme in schemes]
    found = next(filter(workspace.exists, inside), None)
    if found is None:
        _await_paths(session, workspace, places)
        found = next(filter(workspace.exists, inside), None)
    return found or concept


def _in_tree(session: Session, workspace: Workspace, text: str) -> Uri:
    root = workspace.layout.code_tree
    if root is None:
        raise Invalid("this workspace has no code tree, so it has no file paths", next="Give a URI.")
    inside = _below(workspace, root, session.cwd, text)
    if inside is None:
        raise Invalid("this path is outside the code tree of the workspace", next=f"Give a path below {root}.")
    path = "" if inside == "." else inside
    directory = uris.from_path("dir", workspace.id, path)
    if not path or text.endswith("/") or os.path.isdir(root / inside):
        return directory
    return uris.from_path("file", workspace.id, path)


def _below(workspace: Workspace, root: Path, cwd: Path | None, text: str) -> str | None:
    """The path relative to the code tree. ``./`` starts at the client's directory if this directory is inside the code
    tree, or in another work tree of the code, otherwise at the root.

    Symbolic links above the root are resolved; links inside the tree are names."""
    bases = [text] if os.path.isabs(text) else [os.path.join(base, text) for base in (*((cwd,) if cwd else ()), root)]
    other = worktrees.another(workspace, cwd)
    tops = [*([os.fspath(other)] if other else []), os.fspath(root), os.path.realpath(root)]
    for base in bases:
        for top in dict.fromkeys(tops):
            relative = os.path.relpath(os.path.normpath(base), top)
            if relative != ".." and not relative.startswith(f"..{os.sep}"):
                return relative
    return None


def _by_name(session: Session, named: str) -> Workspace:
    if os.path.isabs(named):
        _refuse_place(session)
        found = _by_directory(session, Path(named))
        if found is None:
            raise NotFound("there is no workspace in that directory", at="workspace", next="Run `kgd up` there.")
        return found
    if not is_visible(session, named):
        raise _unknown(session, named, "workspace")
    return _by_id(session, named)


def _by_id(session: Session, id: str) -> Workspace:
    """The workspace of this id. An open workspace is not located again, because this would cost more than most
    calls."""
    return session.daemon.opened_as(id) or session.daemon.workspace(id)


def own_workspace(session: Session) -> Workspace | None:
    """The workspace of the caller's directory, or None."""
    if session.cwd is None:
        return None
    here = session.here
    if here is None or here not in session.daemon.opened() or not session.daemon.use(here):
        here = session.here = _by_directory(session, session.cwd)
    return here


def _from_text(session: Session, text: str) -> Workspace | None:
    text = _plain(text)
    if os.path.isabs(text):
        _refuse_place(session)
        return _by_directory(session, Path(text))
    owner = _owner_in(text)
    if owner is None or session.daemon.elsewhere.on_hub(owner):
        return None
    if is_visible(session, owner):
        return _by_id(session, owner)
    if (here := own_workspace(session)) and _in_this_tree(session, here, text):
        return here
    if uris.is_workspace_id(owner):
        raise _unknown(session, owner, "uri")
    return None


def _by_directory(session: Session, path: Path) -> Workspace | None:
    try:
        return session.daemon.workspace(directory=path)
    except NotFound:
        return None


def _unknown(session: Session, name: str, at: str) -> NotFound:
    known = visible(session)
    close = get_close_matches(name, known, n=1)
    advice = f"Did you mean '{close[0]}'?" if close else f"Known here: {_some(known)}."
    return NotFound(f"no workspace '{name[:63]}' is known here", at=at, next=advice if known else "Run `kgd up`.")


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")


def similar(workspace: Workspace, uri: Uri, sees: Sees | None, schemes: Collection[str] = ()) -> list[str]:
    """Suggestions for a missing URI: nodes in its folder with a similar name, then search results whose names share
    half of the words of its name. None if there is no similar node.

    A concept may be a misspelt path, so files and folders of the same folder are suggested too.

    Args:
        sees: Predicate for readable nodes, or None if unrestricted. Other nodes are not suggested.
        schemes: Only nodes of these schemes; empty for all.
    """
    words = " ".join(uri.rpartition("://")[2].split("/")[1:]) or uri
    folder, _, name = uri.rpartition("/")
    folders = (folder.replace("concept://", "file://", 1), folder)
    near = [one for place in dict.fromkeys(folders) for one in _beside(workspace, place)]
    beside = {one.rpartition("/")[2]: one for one in near if sees is None or sees(Uri(one))}
    close = [beside[one] for one in alike(name, beside)]
    if not close and (other := _in_similar_folder(workspace, folders[0], name)) and (sees is None or sees(other)):
        close = [other]
    hits = (hit.uri for hit in workspace.text_so_far().search(words, limit=LOOKED, sees=sees))
    found = (hit for hit in hits if _is_near(name, hit, card.name if (card := workspace.graph.card(hit)) else ""))
    left_out = PIECES - {scheme_of(uri)}
    fits = (one for one in dict.fromkeys([*close, *found]) if one != uri and scheme_of(one) not in left_out)
    return list(islice((one for one in fits if not schemes or scheme_of(one) in schemes), SUGGESTED))


def _in_similar_folder(workspace: Workspace, folder: str, name: str) -> Uri | None:
    """The file or folder of this name in the code tree, if only folders above it are misspelt."""
    top = f"file://{workspace.id}"
    if workspace.overlay is None or not folder.startswith(f"{top}/"):
        return None
    place = top
    for part in folder[len(top) + 1 :].split("/"):
        beside = {one.rpartition("/")[2] for one in _beside(workspace, place) if scheme_of(one) == "dir"}
        found = part if part in beside else next(iter(alike(part, beside)), None)
        if found is None:
            return None
        place = f"{place}/{found}"
    return next((Uri(one) for one in _beside(workspace, place) if one.rpartition("/")[2] == name), None)


def missing_node(workspace: Workspace, uri: Uri, sees: Sees | None) -> NotFound:
    """The error that a node does not exist, or that the caller may not read it."""
    return NotFound("there is no such node", at=uri, next=did_you_mean(workspace, uri, sees))


def did_you_mean(workspace: Workspace, uri: Uri, sees: Sees | None) -> str:
    """The next step after the error that a node does not exist: nodes of `similar` names, otherwise a search."""
    close = ", ".join(similar(workspace, uri, sees))
    return f"Did you mean {close}?" if close else Advice("Find it with ", Do("search"), ".")


def _beside(workspace: Workspace, folder: str) -> Sequence[str]:
    """Direct children of a folder of nodes, or files and folders of a folder of the code tree, at most `BESIDE`."""
    if folder.startswith("file://") and workspace.overlay is not None:
        top = uris.from_path("dir", workspace.id, "")
        edges = workspace.overlay.out(Uri(f"dir{folder[4:]}") if "/" in folder[len("file://") :] else top)
        return [edge.target for edge in islice(edges, BESIDE) if scheme_of(edge.target) in ("file", "dir")]
    found = workspace.text_so_far().between(f"{folder}/", f"{folder}0", BESIDE)  # 0 is the character after the slash
    return [uri for uri in found if "/" not in uri[len(folder) + 1 :]]


def _is_near(name: str, uri: str, title: str) -> bool:
    """Whether the URI's last segment and the title have half of a name's words, complete, abbreviated or misspelt."""
    wanted, there = _name_words(_stem(name)), _name_words(f"{uri.rpartition('/')[2]} {title}")
    begun = [word for word in there if len(word) >= BEGINNING]
    near = sum(
        (len(word) > 1 and bool(alike(word, there)))
        or (len(word) >= BEGINNING and any(one.startswith(word) or word.startswith(one) for one in begun))
        for word in wanted
    )
    return 0 < len(wanted) <= 2 * near


def alike(word: str, names: Iterable[str]) -> list[str]:
    """The similar names, the most similar first.

    A name as long as a short word must have the same letters: one other letter makes another word (``nope``, ``node``).
    """
    found = get_close_matches(word, names, n=SUGGESTED, cutoff=ALIKE)
    is_long = len(word) > SHORT or not word.isalpha()
    return [one for one in found if is_long or len(one) != len(word) or sorted(one) == sorted(word)]


def _stem(name: str) -> str:
    """The name of a file without its extension, which many names share."""
    stem, _, extension = name.rpartition(".")
    return stem if stem and extension.isalpha() else name


def _name_words(name: str) -> list[str]:
    found = re.findall(r"[^\W_]+", unquote(name))
    return list(dict.fromkeys(part.casefold() for word in found for part in parts_of(word) or [word]))[:NAME_WORDS]
