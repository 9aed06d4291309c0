"""The files and directories of the code tree for the paths of a question."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from kgd.areas.patterns import normalise
from kgd.code_history.history import CodeHistory
from kgd.errors import Advice, Do, Invalid, KgdError, Limit
from kgd.freshness.freshness import Freshness
from kgd.model.escaping import printable
from kgd.model.globs import Glob, place_of
from kgd.model.uri import CODE_TREE, IN_CODE, OWNED, Uri, name_of, path_of, scheme_of, uri_at
from kgd.overlay.tree import Directory, below
from kgd.retrieval.relevance import anybody
from kgd.retrieval.retrieve import QUOTES
from kgd.tools import addressing, visibility, worktrees
from kgd.tools.nodes import overlay_of
from kgd.tools.parameters import Many
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

MOST_PATHS = 500
"""Largest number of paths in a question."""
MOST_FILES = 2_000
"""Largest number of files examined per question, including the files of its directories."""
LONGEST_NAMED = 1_024
"""Largest number of characters of a path to look up in the code tree."""
MOST_NAMED = 3
"""Largest number of files that one name or end of a path stands for."""
PathFilter = Annotated[
    Many[str], Field(description="only nodes below this path, such as /services, or about code there")
]
"""The parameter `path` of lists; `PathMatcher` applies it."""
SYMBOLS_LOOKED = 20
"""Number of symbols to compare with a name."""
is_name = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::)[\w$]+)*").fullmatch
"""Matches the name of a symbol, such as ``sign`` or ``Session.renew``."""
MANY_WORDS = 3
"""Number of words in a row, without a slash or a dot, that make a text with a path a sentence."""
_SEPARATORS = re.compile(r"[,\n]")
_NO_PATH = re.compile(r"[^\w./@+~%-]")
_MORE_OF_NAME = re.compile(r"[\w-]|\.\w")


@dataclass(frozen=True, slots=True)
class Places:
    """Paths relative to the code tree, each once, in the requested order.

    `asked` are the requested paths, directories with a slash at their end. `files` are the requested files and the
    files below the directories. `outside` are the paths, as given, outside the tree. `more` files were not examined.
    `absent` are the paths in `asked` without a file, as far as the caller may know.
    """

    asked: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    more: int = 0
    absent: tuple[str, ...] = ()


def places(session: Session, workspace: Workspace, texts: Sequence[str]) -> Places:
    """Locate the paths of a question in the code tree.

    Raises:
        Limit: There are more than `MOST_PATHS`.
    """
    given = [one for text in texts for one in separated(session, workspace, text)]
    if len(given) > MOST_PATHS:
        raise Limit(
            f"a call has at most {MOST_PATHS} paths, this one has {len(given)}",
            at="paths",
            next="Name their directories instead.",
        )
    sees, caller = session.sight(workspace.id), _Caller.of(session, workspace)
    asked, found, outside, absent = dict[str, None](), dict[str, None](), dict[str, None](), dict[str, None]()
    more = 0
    for text in given:
        place = caller.place(text)
        if place is None:
            outside[text.strip()] = None
            continue
        inside = _directory(workspace, place)
        files = [] if inside is None else _files_below(workspace, *inside, sees)
        if inside is None or (sees is not None and not files and not sees(inside[0])):
            # A slash would reveal the existence of a directory whose files are all hidden from the caller.
            asked[place] = found[place] = None
            if caller.misses(place):
                absent[place] = None
            continue
        asked[f"{place.rstrip('/')}/" if place else ""] = None
        for path in files:
            if len(found) < MOST_FILES:
                found[path] = None
            elif path not in found:
                more += 1
    return Places(tuple(asked), tuple(found), tuple(outside), more, tuple(absent))


def locate(session: Session, workspace: Workspace, text: str) -> str | None:
    """Return the path of a text from the top of the code tree; None if it is outside. A path that exists only in the
    caller's directory starts there. The file need not exist."""
    return _Caller.of(session, workspace).place(text)


def locate_existing(session: Session, workspace: Workspace, text: str) -> str | None:
    """Like `locate`, but None if the code tree has nothing at the path."""
    caller = _Caller.of(session, workspace)
    found = caller.place(text)
    return None if found is None or caller.misses(found) else found


@dataclass(frozen=True, slots=True)
class PathMatcher:
    """A filter by paths: the nodes at or below one of them, and nodes with a relation to code there.

    A path may be a glob; its first slash is optional.
    """

    globs: tuple[Glob, ...]

    @classmethod
    def of(cls, session: Session, workspace: Workspace, texts: Sequence[str]) -> PathMatcher:
        """The filter for these paths.

        Raises:
            Invalid: One of them is a URI, or cannot be a path.
        """
        return cls(tuple(_glob(session, workspace, text) for text in texts))

    def contains(self, uri: Uri) -> bool:
        """Whether the node is at or below one of the paths."""
        return any(glob.covers(place_of(uri)) for glob in self.globs)

    def concerns(self, uri: Uri, targets: Iterable[Uri]) -> bool:
        """Whether the node, or code among the targets of its relations, is at or below one of the paths."""
        return self.contains(uri) or any(self.contains(one) for one in targets if scheme_of(one) in IN_CODE)


def _glob(session: Session, workspace: Workspace, text: str) -> Glob:
    if "://" in text:
        advice = Advice("Write its path, or see one node with ", Do("history", uri=text), ".")
        raise Invalid("this is a URI, not a path", at="path", next=advice)
    steps, find = text.split("/"), locate_existing
    if steps[0] == "." or ".." in steps:  # no path from the top: it has one place, even after its file is deleted
        find = locate
    found = None if "*" in text else find(session, workspace, text)
    if found is None and ".." in steps and "*" not in text:
        raise Invalid(
            "this path is outside the code tree", at="path", next="Give a path below the top of the code tree."
        )
    uri = uri_at("dir", workspace.id, found) if found else None
    path = "/".join(place_of(uri)) if uri is not None else "" if found == "" else text
    path = path.removeprefix("./").removesuffix("/**").strip("/")
    try:
        return Glob(f"/{path}/**" if path else "/**")
    except KgdError as error:
        error.at = "path"
        raise


def sentences(session: Session, workspace: Workspace, texts: Sequence[str]) -> list[str]:
    """The texts that are sentences, not paths: ``how long do sessions last?``, or an error text with a colon.

    Other texts are sentences if they have two words in a row and no path, or `MANY_WORDS` words in a row beside one.
    """
    caller = _Caller.of(session, workspace)

    def is_path(text: str) -> bool:
        place = caller.place(text)
        if place is None or is_known(session, workspace, place):
            return place is not None
        return caller.other is not None and not caller.misses(place)

    return [text for text in texts if _is_sentence(text) and not is_path(text)]


def names(session: Session, workspace: Workspace, texts: Sequence[str]) -> dict[str, bool]:
    """The texts that are names, such as ``sign`` or ``Session.renew``, and whether the code has a symbol of the name.

    A name is one word without a slash, at which the code tree has nothing; with a dot, only the name of a symbol.
    """
    caller = _Caller.of(session, workspace)
    sees = session.sight(workspace.id)

    def is_symbol(name: str) -> bool:
        found = workspace.text_so_far().search(name, types=["symbol"], limit=SYMBOLS_LOOKED, files=False, sees=sees)
        written = (name_of(hit.uri).partition("~")[0] for hit in found)
        return any(one == name or one.endswith(f".{name}") for one in written)

    found = dict[str, bool]()
    for text in texts if caller.root is not None else ():
        name = text.strip().strip(QUOTES).rstrip("?").removesuffix("()")
        place = caller.place(text) if is_name(name) else None
        if place and caller.misses(place) and ((known := is_symbol(name)) or "." not in name):
            found[text] = known
    return found


def is_known(session: Session, workspace: Workspace, path: str) -> bool:
    """Whether the code tree has a file or directory at a path from its top, as far as the caller may know."""
    if session.principal is None:
        root = workspace.layout.code_tree
        return root is not None and os.path.lexists(root / path[:LONGEST_NAMED])
    sees = session.sight(workspace.id) or anybody
    uris = (uri_at(scheme, workspace.id, path) for scheme in CODE_TREE)
    return any(uri is not None and workspace.in_overlay(uri) and sees(uri) for uri in uris)


def is_directory(workspace: Workspace, path: str) -> bool:
    """Whether the code tree has a directory at a path from its top."""
    uri = uri_at("dir", workspace.id, path)
    return uri is not None and workspace.in_overlay(uri)


class OtherPath(NamedTuple):
    """Another path of a file, under which facts about it are stored: a former one, or the path after a rename that the
    checked-out code does not have yet. `label` has both paths in words: ``src/old.py, now src/new.py``."""

    path: str
    label: str
    is_former: bool


def other_paths(session: Session, workspace: Workspace, paths: Sequence[str]) -> dict[str, list[OtherPath]]:
    """The former and later paths of each of these files and folders; former ones only if the caller may see the code's
    history."""
    found: dict[str, list[OtherPath]] = {}
    if paths and session.sees_code_history(workspace):
        former = CodeHistory.of(workspace).former(paths, committed=session.principal is not None)
        found = {path: [OtherPath(was, f"{was}, now {path}", True) for was in some] for path, some in former.items()}
    for path in paths:
        known = {one.path for one in found.get(path, ())}  # of a file that was renamed back
        later = (now for now in later_paths(session, workspace, path) if now not in known)
        if others := [OtherPath(now, f"{path}, now {now}", False) for now in later]:
            found[path] = [*found.get(path, ()), *others]
    return found


def later_paths(session: Session, workspace: Workspace, path: str) -> list[str]:
    """The readable paths to which the facts about a file or folder, or about a folder above it, were moved, sorted.

    None of them if the code tree has both the path and the new one: then these are two files. Takes a look-up for each
    step of the path.
    """
    freshness = Freshness.of(workspace)
    place, slash = path.rstrip("/"), "/" if path.endswith("/") else ""
    uri = uri_at("file", workspace.id, place)
    moved = workspace.graph.resolve(uri) if uri else None
    found = {path_of(moved)} if moved and moved != uri and scheme_of(moved) == "file" else set[str]()
    for one in (place, *filter(None, above(place))):
        found |= {now + place[len(one) :] for now in freshness.renames_from(one)}
    if not found:
        return []
    sees, is_here = session.sight(workspace.id) or anybody, is_known(session, workspace, place)

    def is_its(now: str) -> bool:
        uri = uri_at("dir" if slash else "file", workspace.id, now)
        return uri is not None and sees(uri) and not (is_here and is_known(session, workspace, now))

    return [f"{now}{slash}" for now in sorted(found - {place}) if is_its(now)]


def symbol_in(workspace: Workspace, path: str, symbol: Uri) -> Uri | None:
    """The URI of a definition as if it were in the file at another path; None if no URI can have that path."""
    file = uri_at("symbol", workspace.id, path)
    return Uri(f"{file}/{symbol.rpartition('/')[2]}") if file else None


def named(session: Session, workspace: Workspace, text: str) -> list[Uri]:
    """The readable file or directory of the code tree at the path in a text. Without one, those whose names or paths
    end with the text; none if there are more than `MOST_NAMED`."""
    text = text.strip(QUOTES)
    if not any(sign in text for sign in "/\\."):
        return []
    sees = session.sight(workspace.id) or anybody
    place = _Caller.of(session, workspace).place(text) or ""
    for scheme in ("file", "dir") if place else ():
        uri = uri_at(scheme, workspace.id, place)
        if uri is not None and workspace.in_overlay(uri) and sees(uri):
            return [uri]
    found = workspace.text_so_far().files_called(text, sees, stored=True)
    return found if len(found) <= MOST_NAMED else []


def absent(session: Session, workspace: Workspace, text: str) -> str:
    """The path that a whole text gives, if the code tree has neither a file nor a directory there; otherwise empty.

    A text such as ``read/write`` is no path: its last part has no extension, and the tree has no directory ``read``.
    """
    text = text.strip(QUOTES)
    caller = _Caller.of(session, workspace)
    place = caller.place(text) if "/" in text and not any(map(str.isspace, text)) else None
    if not place or caller.root is None or not caller.misses(place):
        return ""
    folder, _, name = place.rstrip("/").rpartition("/")
    has_extension = "." in name[1:-1]
    return place if has_extension or (folder and not caller.misses(folder)) else ""


def similar(workspace: Workspace, path: str, sees: visibility.Sees | None) -> str:
    """``; similar: src/auth.py`` with the files of paths similar to a missing path; empty without any."""
    uri = uri_at("file", workspace.id, path)
    found = addressing.similar(workspace, uri, sees, CODE_TREE) if uri is not None else []
    like = [like for one in found if (like := path_of(one)) != path.rstrip("/")]
    return f"; similar: {', '.join(like)}" if like else ""


def correction(session: Session, workspace: Workspace, texts: Sequence[str]) -> str:
    """Report the first path of a filter that neither the code nor a node has, with similar paths.

    Empty if there is none, and for the holder of a token.
    """
    for text in texts if session.principal is None else ():
        place = text.removesuffix("/**")
        path = place.strip("/")
        is_pattern = not path or "*" in path
        if is_pattern or locate_existing(session, workspace, place) is not None or _has_nodes(workspace, path):
            continue
        uri = uri_at("concept", workspace.id, path)
        like = ", ".join(addressing.similar(workspace, uri, None)) if uri is not None else ""
        advice = f"Did you mean {like}?" if like else "Give a path from the top of the code tree, or a node's path."
        return printable(f"There is nothing at or below {text[:200]}. {advice}")
    return ""


def _has_nodes(workspace: Workspace, path: str) -> bool:
    """Whether a node is at or below a path, under any scheme."""
    texts = workspace.text_so_far()
    uris = (uri for scheme in OWNED if (uri := uri_at(scheme, workspace.id, path)) is not None)
    return any(uri in workspace.graph or texts.between(f"{uri}/", f"{uri}0", 1) for uri in uris)


def _is_sentence(text: str) -> bool:
    words = text.split()
    if text.rstrip().endswith("?") or ": " in text.strip():
        return len(words) > 1
    least = MANY_WORDS if any(map(_has_path_sign, words)) else 2
    runs = (groupby(part.split(), _has_path_sign) for part in _SEPARATORS.split(text))
    return any(not is_path and len(list(run)) >= least for part in runs for is_path, run in part)


def _has_path_sign(word: str) -> bool:
    return any(sign in word.rstrip(".,;:!") for sign in "/\\.")


def above(path: str) -> Iterator[str]:
    """The directories that contain a path, the nearest first, the top ("") last."""
    path = path.rstrip("/")
    while path:
        path = path.rpartition("/")[0]
        yield path


def is_named(path: str, text: str) -> bool:
    """Whether a text names this path by its last two names or more, such as ``auth/session.py``.

    All names in the text must be names of the path: ``app/src/auth/session.py`` is another file than
    ``web/src/auth/session.py``. Before an absolute path or an address there may be more. Linear in the text.
    """
    names = path.split("/")
    tail = "/".join(names[-2:])
    front = "/".join(["", *names[:-2], ""])
    at = text.find(tail)
    while at >= 0:
        end = at + len(tail)
        if not _MORE_OF_NAME.match(text, end):  # first, since a short name occurs within many words
            lead = _NO_PATH.split(text[max(0, at - LONGEST_NAMED) : at])[-1].removeprefix("./")
            if not lead or (lead.endswith(front) if lead[0] == "/" else front.endswith(f"/{lead}")):
                return True
        at = text.find(tail, end)
    return False


def common_directory(paths: Iterable[str]) -> str:
    """The deepest directory that contains all of these paths; "" is the top."""
    folders = [path.rstrip("/") if path.endswith("/") else path.rpartition("/")[0] for path in paths]
    return os.path.commonpath(folders) if folders and all(folders) else ""


def separated(session: Session, workspace: Workspace, text: str) -> list[str]:
    """The paths in a text: one path, or several separated by commas or newlines."""
    if not _SEPARATORS.search(text):
        return [text] if text.strip() else []
    if "\n" not in text and is_known(session, workspace, text.strip()):
        return [text]
    return [one for one in _SEPARATORS.split(text) if one.strip()]


@dataclass(frozen=True, slots=True)
class _Caller:
    """The base of relative paths: the code tree, and the caller's folder in it.

    `other` is the top of another worktree or clone of the code, if the caller is in one. The holder of a token has
    no base. `knows` returns whether they may see a file; its name may look like a file and a line.
    """

    workspace: str
    root: Path | None = None
    inside: str = ""
    other: Path | None = None
    knows: Callable[[str], bool] | None = None

    @classmethod
    def of(cls, session: Session, workspace: Workspace) -> _Caller:
        root, cwd = workspace.layout.code_tree, session.cwd
        if session.principal is not None:  # absolute paths of another machine have no meaning here
            return cls(workspace.id, knows=partial(is_known, session, workspace))
        if root is None or cwd is None:
            return cls(workspace.id, root)
        other = worktrees.another(workspace, cwd)
        inside = normalise(f"{cwd}/", root) if other is None else None
        if inside is not None:
            return cls(workspace.id, root, inside)
        return cls(workspace.id, root, normalise(f"{cwd}/", other) or "", other)

    def place(self, text: str) -> str | None:
        """The path from the top of the tree. A path that exists only in the caller's folder, or begins with `./`,
        starts at that folder."""
        if self.knows is not None and self.knows(text.strip()):
            return text.strip()
        found = normalise(text, self.other, workspace=self.workspace) if self.other is not None else None
        found = normalise(text, self.root, workspace=self.workspace) if found is None else found
        if not self.inside or self.root is None:
            return found
        from_here = text.strip() == "." or text.strip().startswith(("./", ".\\"))
        if found is None or from_here or self.misses(found):
            near = self._near(text)
            if near is not None and (found is None or from_here or not self.misses(near)):
                return near
        return found

    def misses(self, place: str) -> bool:
        """Whether there is no file at the path; False if the caller has no code tree."""
        tops = [top for top in (self.root, self.other) if top is not None]
        return bool(tops) and not any(os.path.lexists(top / place) for top in tops)

    def _near(self, text: str) -> str | None:
        plain = text.strip()
        if not plain or plain.startswith(("/", "\\")) or "://" in plain:
            return None
        return normalise(self.inside + plain.replace("\\", "/"), None)


def _directory(workspace: Workspace, place: str) -> tuple[Uri, Directory] | None:
    overlay = overlay_of(workspace)
    uri = uri_at("dir", workspace.id, place)
    found = overlay.view.find(uri) if overlay is not None and uri is not None else None
    return (uri, found) if uri is not None and isinstance(found, Directory) else None


def _files_below(workspace: Workspace, uri: Uri, directory: Directory, sees: visibility.Sees | None) -> list[str]:
    found = below(workspace.id, uri, directory)
    files = (path_of(one) for one in found if scheme_of(one) == "file" and (sees is None or sees(one)))
    return list(islice(files, 10 * MOST_FILES))
