"""This file is where path patterns of areas are checked, and matched: which areas a file belongs to (docs/areas.md).

All patterns of a workspace are one trie of segments: what a path costs grows with the patterns that share its
beginning, not with all of them. A segment with wildcards is matched by hand, never by a regular expression: patterns
come from content, and one that backtracks would stop the daemon.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product

from kgd.errors import Invalid, Limit
from kgd.model.uri import Uri

MAX_CHARACTERS = 512
MAX_ALTERNATIVES = 64
"""Patterns that the braces of one stand for."""

ANY = "**"
_WILD = re.compile(r"[*?\[]").search
_DRIVE = re.compile(r"[A-Za-z]:").match
_COUNTED = re.compile(r"\{[^{},/]*\.\.[^{},/]*\}").search
_CLASS = re.compile(r"\[[!^]?\]?[^\]/]*\]").match

Segments = tuple[str, ...]


def check_pattern(text: str, at: str) -> str:
    """The pattern as it is stored: without `./`, doubled slashes and blanks around it; `src/` is `src/**`.

    Raises:
        Invalid: It could not be matched as it is written, or leads out of the code tree; placed at `at`.
    """
    pattern = text.strip()
    if not pattern:
        raise _refused(text, "it is empty", at, "Write a path or glob such as src/pages/**.")
    if len(pattern) > MAX_CHARACTERS:
        raise _refused(text, f"it has {len(pattern)} characters, and at most {MAX_CHARACTERS} are allowed", at, "")
    if not pattern.isprintable():
        raise _refused(text, "it has control characters", at, "Leave them out.")
    if "\\" in pattern:
        raise _refused(text, "it has a backslash", at, "Write / between segments, and [*] for a * that is meant.")
    if pattern.startswith("/") or _DRIVE(pattern):
        raise _refused(text, "it is absolute", at, "Write it relative to the top of the code tree.")
    if pattern.startswith("!"):
        raise _refused(text, "a pattern cannot exclude", at, "List what belongs to the area; [!] is the character.")
    segments = [segment for segment in pattern.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise _refused(text, "it has a segment '..'", at, "Write it relative to the top of the code tree.")
    if pattern.endswith("/") or not segments:
        segments.append(ANY)
    kept = "/".join(s for n, s in enumerate(segments) if s != ANY or n == 0 or segments[n - 1] != ANY)
    _compiled(kept, at)
    return kept


class Matcher:
    """Which of many entries have a pattern that a path matches.

    `*`, `?` and `[...]` stay inside a segment, `**` as a segment is any number of them. A pattern without wildcards is
    a file, or a directory with everything below it. A path with a slash at its end is a directory, which `dir/**`
    matches too. Names are compared by case, in Unicode's composed form. A pattern that `check_pattern` would refuse
    matches nothing.

    One thread at a time. `put` and `remove` cost what the entry has of patterns, whatever else is there.
    """

    def __init__(self, entries: Iterable[tuple[Uri, Sequence[str]]] = ()) -> None:
        self._root = _Branch()
        self._kept: dict[Uri, frozenset[Segments]] = {}
        self.steps = 0
        """What all answers so far cost: about as many millionths of a second."""
        for uri, patterns in entries:
            self.put(uri, patterns)

    def put(self, uri: Uri, patterns: Sequence[str]) -> None:
        """These are the entry's patterns, in place of those it had."""
        wanted: set[Segments] = set()
        for pattern in patterns:
            try:
                wanted.update(_compiled(check_pattern(pattern, ""), ""))
            except Invalid:  # a file edited by hand may say anything; the rest of it still counts
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

    def remove(self, uri: Uri) -> None:
        """The entry matches nothing any more; one that is not there is none."""
        self.put(uri, ())

    def matches(self, path: str, most: int | None = None) -> list[Uri]:
        """The entries with a pattern that matches the path, in the order of their URIs.

        Args:
            path: Relative to the code tree, as `kgd.areas.places.normalise` gives it.
            most: How many `steps` there may be then; patterns come from anybody, and may be made to be slow.

        Raises:
            Limit: There were more.
        """
        segments = _composed(path).split("/")
        found: set[Uri] = set()
        waiting = [(self._root, 0)]
        entered: dict[int, int] = {}
        last = len(segments) - (not segments[-1])  # a slash at the end: there is something below, whatever its name
        while waiting:
            branch, depth = waiting.pop()
            self.steps += 1
            if most is not None and self.steps > most:
                raise Limit("these are too many paths for the patterns here", at="paths", next="Ask about fewer.")
            if branch.below and depth < len(segments):
                found.update(branch.below)
            if (anywhere := branch.anywhere) is not None:
                # A `**` may swallow any number of segments; from where another way entered it, all was gone on with.
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

    def begins(self, folder: str) -> bool:
        """Whether a pattern begins with this directory as it is spelt, or is it. O(segments)."""
        branch: _Branch | None = self._root
        for segment in _composed(folder).split("/"):
            branch = branch.literal.get(segment) if branch is not None else None
        return branch is not None


class _Branch:
    """What may follow a beginning that patterns have in common."""

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
        """Takes it out, and the branches that nothing is on any more."""
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
            self.wild[segment] = (_fits(segment), _Branch())
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
    """The patterns without braces that it stands for, as segments.

    Raises:
        Invalid: A class or brace has no end, or there are too many alternatives.
    """
    if counted := _COUNTED(pattern):
        raise _refused(pattern, f"'{counted[0]}' counts nothing here", at, "List the alternatives, or write [1-9].")
    made = [tuple(_composed(text).split("/")) for text in _spread(pattern, at)]
    for segments in made:
        if ".." in segments or "" in segments:
            raise _refused(pattern, "one of its alternatives has an empty segment or '..'", at, "List them one by one.")
        for segment in segments:
            if _is_wild(segment) and segment != ANY:
                _tokens(segment, pattern, at)
    return made


def _spread(pattern: str, at: str) -> list[str]:
    """The pattern with its braces written out. As shells do it, braces without a comma are themselves."""
    if pattern.count("{") > MAX_ALTERNATIVES:  # they may stand inside each other, as deep as that
        raise _refused(pattern, f"it has more than {MAX_ALTERNATIVES} braces", at, "Use wildcards.")
    return _alternatives(pattern, 0, "", pattern, at)[0]


def _alternatives(text: str, start: int, ends: str, whole: str, at: str) -> tuple[list[str], int]:
    """What stands from `start` to the first of `ends` outside of classes and inner braces, written out."""
    made, index = [""], start
    while index < len(text) and text[index] not in ends:
        char = text[index]
        if char == "[" and (found := _CLASS(text, index)):
            made, index = [one + found[0] for one in made], found.end()
        elif char == "{":
            choices, index = _choices(text, index, whole, at)
            made = [head + tail for head, tail in product(made, choices)]
        else:
            made, index = [one + char for one in made], index + 1
        if len(made) > MAX_ALTERNATIVES:
            raise _refused(whole, f"its braces stand for more than {MAX_ALTERNATIVES} patterns", at, "Use wildcards.")
    return made, index


def _choices(text: str, start: int, whole: str, at: str) -> tuple[list[str], int]:
    options: list[str] = []
    index, commas = start, -1
    while index == start or (index < len(text) and text[index] != "}"):
        found, index = _alternatives(text, index + 1, ",}", whole, at)
        options, commas = options + found, commas + 1
        if index >= len(text):
            raise _refused(whole, "a brace has no end", at, "Close it with }, or write [{] for the character.")
    return (options, index + 1) if commas else (["{" + one + "}" for one in options], index + 1)


Token = Callable[[str], bool] | str | None
"""One character: itself, a class of them, or None for any number of any."""


def _fits(segment: str) -> Callable[[str], bool]:
    """Whether a name is one that the segment stands for. A name that is spelt like the segment always is: there are
    folders called `[slug]`."""
    if "?" in segment or "[" in segment:
        tokens = _tokens(segment, segment, "")
        return lambda name: name == segment or _run(tokens, name)
    first, *middle, last = re.sub(r"\*+", "*", segment).split("*")
    least = len(first) + len(last)
    if not middle:
        return lambda name: len(name) >= least and name.startswith(first) and name.endswith(last)

    def fits(name: str) -> bool:
        if len(name) < least or not name.startswith(first) or not name.endswith(last):
            return False
        at, end = len(first), len(name) - len(last)
        for part in middle:
            found = name.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True

    return fits


def _run(tokens: Sequence[Token], name: str) -> bool:
    """Only the last `*` is tried further on, which is enough; O(tokens x characters)."""
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


def _tokens(segment: str, whole: str, at: str) -> list[Token]:
    tokens: list[Token] = []
    index = 0
    while index < len(segment):
        char = segment[index]
        if char == "[":
            found = _CLASS(segment, index)
            if found is None:
                raise _refused(whole, "a class has no end in its segment", at, "Close it with ], or write [[] for [.")
            tokens.append(_class(found[0][1:-1], whole, at))
            index = found.end()
            continue
        if char == "*":
            if not tokens or tokens[-1] is not None:
                tokens.append(None)
        else:
            tokens.append(_any if char == "?" else char)
        index += 1
    return tokens


def _any(char: str) -> bool:
    return True


def _class(inside: str, whole: str, at: str) -> Callable[[str], bool]:
    negated = inside[0] in "!^"
    text = inside[1:] if negated else inside
    if any(mark in text for mark in ("[:", "[.", "[=")):
        raise _refused(whole, "named classes are not known here", at, "Write the characters or ranges, as in [a-z0-9].")
    if not text:
        raise _refused(whole, "a class is empty", at, "Write the characters between [ and ].")
    ranges: list[tuple[str, str]] = []
    index = 0
    while index < len(text):
        low = high = text[index]
        if text[index + 1 : index + 2] == "-" and index + 2 < len(text):
            high = text[index + 2]
            index += 2
        if low > high:
            raise _refused(whole, f"the range {low}-{high} runs backwards", at, f"Write {high}-{low}.")
        ranges.append((low, high))
        index += 1
    return lambda char: any(low <= char <= high for low, high in ranges) != negated


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _refused(pattern: str, why: str, at: str, next: str) -> Invalid:
    shown = pattern if len(pattern) <= 80 else f"{pattern[:80]}…"
    return Invalid(f"'{shown}' is no pattern for paths: {why}", at=at, next=next)
