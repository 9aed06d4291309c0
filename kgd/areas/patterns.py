"""Paths in the code tree in any spelling, and path patterns of areas: validation and matching (docs/areas.md).

All patterns of a workspace form one trie of segments, so the cost of a path depends only on the patterns that begin
like it. Wildcards are matched without regular expressions: patterns are untrusted, and backtracking could stop the
daemon.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from urllib.parse import unquote_to_bytes

from kgd.errors import Invalid, KgdError, Limit
from kgd.model import uri as uris
from kgd.model.globs import has_parts
from kgd.model.uri import Uri
from kgd.workspace.writing.admission import MAX_PATTERN

LONGEST, LONGEST_NAME, DEEPEST = 4096, 255, 128
"""Limits of a path: characters, bytes of a name, number of names. Real code trees stay below these limits."""
_LINES = re.compile(r"(?:(?::\d+){1,2}(?:-\d+)?|#L\d+(?:-L?\d+)?)$")
_DRIVE_PATH = re.compile(r"[A-Za-z]:/").match
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://").match


def normalise(text: str, code_tree: Path | None, *, workspace: str = "") -> str | None:
    """The path relative to the top of the code tree, with `/` between names; None if it is outside.

    Accepts absolute and relative paths, backslashes, `file:` URIs, surrounding whitespace, and line numbers in the
    style of editors and compilers (`a.py:12`, `a.py#L12`). A final slash of a directory is kept; the top itself is "".
    The file need not exist.

    Args:
        workspace: Workspace of accepted `file://<workspace>/` and `dir://<workspace>/` URIs; any if empty.
    """
    text = text.strip().strip("\"'`")
    if not text or len(text) > LONGEST or not _is_name(text):
        return None
    found = _found(text, code_tree, workspace)
    return found if found is None or _may_be_there(found) else None


def _found(text: str, code_tree: Path | None, workspace: str) -> str | None:
    if _SCHEME(text):
        return _of_uri(text, code_tree, workspace)
    if not _is_there(code_tree, text):
        text = _LINES.sub("", text)
        if not _is_there(code_tree, text):
            text = text.replace("\\", "/")
    return _inside(text, code_tree)


def _may_be_there(path: str) -> bool:
    """Whether the path is within the limits, which bound the cost of matching."""
    names = path.split("/")
    return len(names) <= DEEPEST and (
        len(path) <= LONGEST_NAME // 4 or all(len(os.fsencode(n)) <= LONGEST_NAME for n in names)
    )


def _of_uri(text: str, code_tree: Path | None, workspace: str) -> str | None:
    scheme, _, rest = text.partition("://")
    if scheme.lower() not in uris.CODE_TREE:
        return None
    rest = _LINES.sub("", rest)
    host, slash, path = rest.partition("/")
    if not host or (host == "localhost" and workspace != host):  # a file URI of another program
        path = unquote_to_bytes(path).decode("utf-8", "surrogateescape")
        return _inside(path if _DRIVE_PATH(path) else f"/{path}", code_tree)
    if workspace and host != workspace:
        return None
    if not slash or path in ("", "_"):
        return ""
    try:
        segments = [uris.decode_segment(segment) for segment in path.strip("/").split("/")]
    except KgdError:
        return None
    inside = _inside(b"/".join(segments).decode("utf-8", "surrogateescape"), None)
    is_directory = scheme.lower() == "dir" or path.endswith("/")
    return f"{inside}/" if inside and is_directory and not inside.endswith("/") else inside


def _inside(text: str, code_tree: Path | None) -> str | None:
    if text.startswith("/") or _DRIVE_PATH(text):
        return _below(text, code_tree) if code_tree is not None else None
    path = posixpath.normpath(text)
    if path == ".":
        return ""
    if path == ".." or path.startswith("../"):
        return None
    return f"{path}/" if text.endswith(("/", "/.")) else path


def _below(text: str, code_tree: Path | None) -> str | None:
    """An absolute path relative to the tree. Symbolic links above the tree are resolved; links inside it are not."""
    tops = dict.fromkeys((os.fspath(code_tree or ""), os.path.realpath(code_tree or "")))
    for path in (text, os.path.realpath(text)):
        for top in tops:
            relative = os.path.relpath(os.path.normpath(path), top)
            if relative == ".":
                return ""
            if relative != ".." and not relative.startswith(f"..{os.sep}"):
                return f"{relative}/" if text.endswith("/") else relative
    return None


def _is_name(text: str) -> bool:
    """Whether the text is a possible file name."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _is_there(code_tree: Path | None, text: str) -> bool:
    """Whether a file has exactly this name. Checked only for names that end like a line number or have a backslash."""
    if code_tree is None or not ("\\" in text or _LINES.search(text)):
        return False
    try:
        return os.path.lexists(code_tree / text)
    except (OSError, ValueError):
        return False


class_at = re.compile(r"\[[!^]?\]?[^\]/]*\]").match

Token = Callable[[str], bool] | str | None
"""A token of a segment: a character, a class of characters, or None for any number of any characters."""


def fits_to(segment: str) -> Callable[[str], bool]:
    """A predicate for the names that match a segment. The literal spelling always matches: some folders are called
    `[slug]`.
    """
    if "?" in segment or "[" in segment:
        tokens = tokens_of(segment, segment, "")
        return lambda name: name == segment or _run(tokens, name)
    parts = re.sub(r"\*+", "*", segment).split("*")
    return lambda name: has_parts(name, parts)


def _run(tokens: Sequence[Token], name: str) -> bool:
    """Match greedily; retrying only the last `*` suffices. O(tokens x characters)."""
    at = index = resume = 0
    anchor = -1
    while at < len(name):
        token = tokens[index] if index < len(tokens) else ""
        if token is None:
            anchor, resume = index, at
            index += 1
        elif token == name[at] or (callable(token) and token(name[at])):
            at, index = at + 1, index + 1
        elif anchor >= 0:
            resume += 1
            at, index = resume, anchor + 1
        else:
            return False
    return all(token is None for token in tokens[index:])


def tokens_of(segment: str, whole: str, at: str) -> list[Token]:
    tokens: list[Token] = []
    index = 0
    while index < len(segment):
        char = segment[index]
        if char == "[":
            found = class_at(segment, index)
            if found is None:
                raise refused(whole, "a class is not closed in its segment", at, "Close it with ], or use [[] for [.")
            tokens.append(_class(found[0][1:-1], whole, at))
            index = found.end()
            continue
        if char == "*":
            if not tokens or tokens[-1] is not None:
                tokens.append(None)
        else:
            tokens.append((lambda char: True) if char == "?" else char)
        index += 1
    return tokens


def _class(inside: str, whole: str, at: str) -> Callable[[str], bool]:
    negated = inside[0] in "!^"
    text = inside[1:] if negated else inside
    if any(mark in text for mark in ("[:", "[.", "[=")):
        raise refused(whole, "named classes are not supported", at, "Use characters or ranges, as in [a-z0-9].")
    if not text:
        raise refused(whole, "a class is empty", at, "Put characters between [ and ].")
    ranges: list[tuple[str, str]] = []
    index = 0
    while index < len(text):
        low = high = text[index]
        if text[index + 1 : index + 2] == "-" and index + 2 < len(text):
            high = text[index + 2]
            index += 2
        if low > high:
            raise refused(whole, f"the range {low}-{high} is reversed", at, f"Use {high}-{low}.")
        ranges.append((low, high))
        index += 1
    return lambda char: any(low <= char <= high for low, high in ranges) != negated


def refused(pattern: str, why: str, at: str, next: str) -> Invalid:
    shown = pattern if len(pattern) <= 80 else f"{pattern[:80]}…"
    return Invalid(f"'{shown}' is not a valid path pattern: {why}", at=at, next=next)


MAX_ALTERNATIVES = 64
"""Largest number of patterns to which the braces of one pattern expand."""

ANY = "**"
_WILD = re.compile(r"[*?\[]").search
_DRIVE = re.compile(r"[A-Za-z]:").match
_COUNTED = re.compile(r"\{[^{},/]*\.\.[^{},/]*\}").search

Segments = tuple[str, ...]


def check_pattern(text: str, at: str) -> str:
    """The normalised pattern: without `./`, doubled slashes and surrounding whitespace; `src/` becomes `src/**`.

    Raises:
        Invalid: The pattern is malformed, or points outside the code tree; the error's place is `at`.
    """
    pattern = text.strip()
    if not pattern:
        raise refused(text, "it is empty", at, "Use a path or glob such as src/pages/**.")
    if len(pattern) > MAX_PATTERN:
        raise refused(text, f"it has {len(pattern)} characters; the limit is {MAX_PATTERN}", at, "")
    if not pattern.isprintable():
        raise refused(text, "it has control characters", at, "Remove them.")
    if "\\" in pattern:
        raise refused(text, "it has a backslash", at, "Use / between segments, and [*] for a literal *.")
    if pattern.startswith("/") or _DRIVE(pattern):
        raise refused(text, "it is absolute", at, "Make it relative to the top of the code tree.")
    if pattern.startswith("!"):
        raise refused(text, "a pattern cannot exclude", at, "List only files of the area; for a literal !, write [!].")
    segments = [segment for segment in pattern.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise refused(text, "it has a segment '..'", at, "Make it relative to the top of the code tree.")
    if pattern.endswith("/") or not segments:
        segments.append(ANY)
    kept = "/".join(s for n, s in enumerate(segments) if s != ANY or n == 0 or segments[n - 1] != ANY)
    _compiled(kept, at)
    return kept


class Matcher:
    """Finds the entries that have a pattern for a path.

    `*`, `?` and `[...]` match within a segment; `**` as a segment matches any number of segments. A pattern without
    wildcards matches a file, or a directory with everything below it. A path with a final slash is a directory, and
    `dir/**` matches it too. Names are case-sensitive and compared in Unicode's composed form. Invalid patterns match
    nothing.

    Not thread-safe. The cost of `put` depends only on the patterns of its entry.
    """

    def __init__(self, entries: Iterable[tuple[Uri, Sequence[str]]] = ()) -> None:
        self._root = _Branch()
        self._kept: dict[Uri, frozenset[Segments]] = {}
        self.steps = 0
        """Cost of all answers so far, roughly in microseconds."""
        for uri, patterns in entries:
            self.put(uri, patterns)

    def put(self, uri: Uri, patterns: Sequence[str]) -> bool:
        """Replace the entry's patterns; returns whether they changed."""
        wanted: set[Segments] = set()
        for pattern in patterns:
            try:
                wanted.update(_compiled(check_pattern(pattern, ""), ""))
            except Invalid:  # files edited by hand may have invalid patterns; the valid ones are still used
                continue
        before = self._kept.get(uri, frozenset())
        for segments in before - wanted:
            self._root.discard(segments, uri)
        for segments in wanted - before:
            self._root.add(segments, uri)
        if wanted:
            self._kept[uri] = frozenset(wanted)
        else:
            self._kept.pop(uri, None)
        return wanted != before

    def matches(self, path: str, most: int | None = None) -> list[Uri]:
        """The entries with a pattern that matches the path, sorted.

        Args:
            path: Relative to the code tree, as `normalise` returns it.
            most: Largest value of `steps`; untrusted patterns may be slow on purpose.

        Raises:
            Limit: Matching takes more steps.
        """
        segments = _composed(path).split("/")
        found: set[Uri] = set()
        waiting = [(self._root, 0)]
        entered: dict[int, int] = {}
        last = len(segments) - (not segments[-1])  # a final slash: a directory, matched by patterns for its content
        while waiting:
            branch, depth = waiting.pop()
            self.steps += 1
            if most is not None and self.steps > most:
                raise Limit(
                    "too many paths to check against this workspace's patterns",
                    at="paths",
                    next="Ask about fewer paths.",
                )
            if branch.below and depth < len(segments):
                found.update(branch.below)
            if (anywhere := branch.anywhere) is not None:
                # A `**` matches any number of segments; depths from which it was already entered need no second visit.
                before = entered.get(id(anywhere), last + 1)
                if depth < before:
                    entered[id(anywhere)] = depth
                    waiting += [(anywhere, further) for further in range(depth, before)]
            if depth == last:
                found.update(branch.here)
                continue
            segment = segments[depth]
            if (literal := branch.literal.get(segment)) is not None:
                waiting.append((literal, depth + 1))
            self.steps += len(branch.wild) * (1 + len(segment) // 4)
            for fits, further_on in branch.wild.values():
                if fits(segment):
                    waiting.append((further_on, depth + 1))
        return sorted(found)

    def begin(self) -> Front:
        """The start of a walk through a tree and its patterns: the top."""
        return self._front(frozenset(), frozenset(), (self._root,))

    def into(self, front: Front, name: str, upto: int | None = None) -> Front:
        """The front one folder deeper. Raises Limit if `steps` exceeds `upto`."""
        return self._front(front.owners, front.lasting, self._step(front, name, upto))

    def owners(self, front: Front, name: str, upto: int | None = None) -> frozenset[Uri]:
        """The result of `matches` for a file of this name in that folder. Raises as `into` does."""
        found = [branch.here for branch in self._step(front, name, upto) if branch.here]
        self.steps += sum(map(len, found))
        return front.owners.union(*found) if found else front.owners

    def _step(self, front: Front, name: str, upto: int | None) -> list[_Branch]:
        """The branches to which this name leads. Branches after a `**` stay active as well."""
        name, found = _composed(name), list[_Branch]()
        self.steps += 1 + len(front.active)
        if upto is not None and self.steps > upto:
            raise Limit(
                "too many paths to check against this workspace's patterns", at="paths", next="Ask about fewer paths."
            )
        for branch in front.active:
            if (literal := branch.literal.get(name)) is not None:
                found.append(literal)
            self.steps += len(branch.wild) * (1 + len(name) // 4)
            found += [further_on for fits, further_on in branch.wild.values() if fits(name)]
        return found

    def _front(self, owners: frozenset[Uri], lasting: frozenset[_Branch], here: Iterable[_Branch]) -> Front:
        branches, anywhere = dict.fromkeys(here), set[_Branch]()
        waiting = list(branches)
        while waiting:
            after = waiting.pop().anywhere
            if after is not None and after not in lasting and after not in anywhere:
                anywhere.add(after)
                waiting.append(after)
        if anywhere:
            lasting = lasting | anywhere
        every = dict.fromkeys((*branches, *lasting))
        below = [branch.below for branch in every if branch.below and not branch.below <= owners]
        if below:
            owners = owners.union(*below)
            self.steps += len(owners)
        return Front(owners, lasting, tuple(branch for branch in every if branch.literal or branch.wild))

    def begins(self, folder: str) -> bool:
        """Whether a pattern is this directory, or begins with it, literally. O(segments)."""
        branch: _Branch | None = self._root
        for segment in _composed(folder).split("/"):
            branch = branch.literal.get(segment) if branch is not None else None
        return branch is not None


@dataclass(frozen=True, slots=True)
class Front:
    """The state of all patterns in one folder: entries that match everything in it, and branches that may match more.

    Valid while the matcher does not change.
    """

    owners: frozenset[Uri]
    lasting: frozenset[_Branch]
    active: tuple[_Branch, ...]

    @property
    def is_settled(self) -> bool:
        """Whether everything below belongs to `owners` and to no other entry."""
        return not self.active

    def settled(self, *, none: bool = False) -> Front:
        """The front without active patterns and, with `none`, without owners."""
        return Front(frozenset() if none else self.owners, frozenset(), ()) if none or self.active else self


class _Branch:
    """A node of the trie: the ways in which patterns with a common beginning continue."""

    __slots__ = ("anywhere", "below", "here", "literal", "wild")

    def __init__(self) -> None:
        self.literal: dict[str, _Branch] = {}
        self.wild: dict[str, tuple[Callable[[str], bool], _Branch]] = {}
        self.anywhere: _Branch | None = None
        self.here: set[Uri] = set()
        self.below: set[Uri] = set()

    def add(self, segments: Segments, uri: Uri) -> None:
        branch = self
        for number, segment in enumerate(segments):
            if segment == ANY and number == len(segments) - 1:
                branch.below.add(uri)
                return
            branch = branch._enter(segment)
        branch.here.add(uri)
        if not any(map(_is_wild, segments)):
            branch.below.add(uri)

    def discard(self, segments: Segments, uri: Uri) -> None:
        """Remove an entry, and any branches that become empty."""
        way = [self]
        for segment in segments[:-1] if segments[-1] == ANY else segments:
            way.append(way[-1]._enter(segment))
        way[-1].here.discard(uri)
        way[-1].below.discard(uri)
        for segment, (before, branch) in reversed(list(zip(segments, pairwise(way), strict=False))):
            if not branch._is_empty:
                return
            before._leave(segment)

    def _enter(self, segment: str) -> _Branch:
        if segment == ANY:
            if self.anywhere is None:
                self.anywhere = _Branch()
            return self.anywhere
        if not _is_wild(segment):
            return self.literal.setdefault(segment, _Branch())
        if segment not in self.wild:
            self.wild[segment] = (fits_to(segment), _Branch())
        return self.wild[segment][1]

    def _leave(self, segment: str) -> None:
        if segment == ANY:
            self.anywhere = None
        elif _is_wild(segment):
            del self.wild[segment]
        else:
            del self.literal[segment]

    @property
    def _is_empty(self) -> bool:
        return not (self.literal or self.wild or self.anywhere or self.here or self.below)


def _is_wild(segment: str) -> bool:
    return _WILD(segment) is not None


def _compiled(pattern: str, at: str) -> list[Segments]:
    """The expansions of a pattern's braces, as segments.

    Raises:
        Invalid: A class or brace is not closed, or there are too many alternatives.
    """
    if counted := _COUNTED(pattern):
        raise refused(pattern, f"'{counted[0]}' is not supported", at, "List the alternatives, or use [1-9].")
    made = [tuple(_composed(text).split("/")) for text in _spread(pattern, at)]
    for segments in made:
        if ".." in segments or "" in segments:
            raise refused(
                pattern, "one of its alternatives has an empty segment or '..'", at, "Write separate patterns."
            )
        for segment in segments:
            if _is_wild(segment) and segment != ANY:
                tokens_of(segment, pattern, at)
    return made


def _spread(pattern: str, at: str) -> list[str]:
    """The pattern with its braces expanded. As in shells, braces without a comma are literal."""
    if pattern.count("{") > MAX_ALTERNATIVES:  # also limits the nesting
        raise refused(pattern, f"it has more than {MAX_ALTERNATIVES} braces", at, "Use wildcards.")
    return _alternatives(pattern, 0, "", pattern, at)[0]


def _alternatives(text: str, start: int, ends: str, whole: str, at: str) -> tuple[list[str], int]:
    """The expansions of the text from `start` to the first of `ends` outside of classes and inner braces."""
    made, index = [""], start
    while index < len(text) and text[index] not in ends:
        char = text[index]
        if char == "[" and (found := class_at(text, index)):
            made, index = [one + found[0] for one in made], found.end()
        elif char == "{":
            choices, index = _choices(text, index, whole, at)
            made = [head + tail for head, tail in product(made, choices)]
        else:
            made, index = [one + char for one in made], index + 1
        if len(made) > MAX_ALTERNATIVES:
            raise refused(whole, f"its braces expand to more than {MAX_ALTERNATIVES} patterns", at, "Use wildcards.")
    return made, index


def _choices(text: str, start: int, whole: str, at: str) -> tuple[list[str], int]:
    options: list[str] = []
    index, commas = start, -1
    while index == start or (index < len(text) and text[index] != "}"):
        found, index = _alternatives(text, index + 1, ",}", whole, at)
        options, commas = options + found, commas + 1
        if index >= len(text):
            raise refused(whole, "a brace is not closed", at, "Close it with }, or use [{] for the character.")
    return (options, index + 1) if commas else (["{" + one + "}" for one in options], index + 1)


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)
