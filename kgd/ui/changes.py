"""Values of a node as editable text, and differences between versions as rows and marked text of a page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kgd.codec import canonical
from kgd.codec.documents import read_mapping
from kgd.errors import Invalid, KgdError
from kgd.model.change import subject_from
from kgd.model.fields import split
from kgd.model.node import NODE_FIELDS, Json
from kgd.model.text_merge import common_parts
from kgd.model.uri import name_of, scheme_of
from kgd.tools.nodes import UNSEEN_MESSAGE
from kgd.ui.node_reading import titles
from kgd.ui.visit import Visit
from kgd.ui.words import words_of

AT = "data"
VERIFIED = "data/verified"
"""The field that records the verified versions of cited code."""
FIRST = ("name", "summary", "content", "tags")
"""The fields that are shown first, in the order of the form; the others follow in the order of the answer."""


def as_text(value: Json) -> str:
    """Return a value as text: a list as lines, nested values as YAML."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return "\n".join(value)
    if isinstance(value, Mapping) and value:
        return mapping_text(value)
    return canonical.dump({"x": value}, depth=canonical.DEPTH + 4).removeprefix("x:").strip()


def mapping_text(values: Mapping[str, Json]) -> str:
    """Return the data of a node as YAML; empty without data."""
    return canonical.dump(values, depth=canonical.DEPTH + 4) if values else ""


def mapping_of(text: str) -> dict[str, Json]:
    """Parse the data of a node from YAML.

    Raises:
        Invalid: The text is not valid data; names the line.
    """
    if not text.strip():
        return {}
    try:
        return dict(read_mapping(text.encode(), AT))
    except KgdError as error:
        place = error.at.removeprefix(f"{AT}:")
        where = f"line {place} of data" if place.isdigit() else AT
        raise Invalid(error.message, at=where, next=error.next or "Write one 'key: value' per line.") from error
    except UnicodeEncodeError:
        raise Invalid(
            "the data contains an unpaired surrogate, which is not a character", at=AT, next="Delete that character."
        ) from None


LONGEST_MARK = 20_000
"""Largest number of characters of one stretch that a page shows."""
WORDS_LIMIT = 4_000
"""Largest number of words of a changed stretch to compare one by one; a longer one is shown as deleted and inserted."""
AROUND = 120
"""Number of characters of unchanged text that are shown before and after a change."""
LONGEST_GIST = 90
"""Largest number of characters of a row's gist."""
LONGEST_BRIEF, AROUND_BRIEF = 240, 30
"""Largest number of characters of a brief difference, a third for each stretch; and of text around a change."""
APART = 3
"""Smallest number of unchanged words that separates two changes."""
WHOLE = 3
"""Smallest number of words that both versions change in a rewritten text."""
GAP = " … "
PROSE = ("name", "summary", "content", "detail")
"""Fields with prose, whose difference reports that they were empty."""
TITLES = {row.name: row.label for row in NODE_FIELDS} | {
    "node": "the whole fact",
    "twin": "two facts of one name",
    "data/paths": "files",
    "data/status": "status",
    "data/moleculeId": "group",
}
LONG = ("content", "memories", "node", "twin")
"""First parts of fields whose value is too long for a gist."""
DESCRIPTIONS = {
    "put": "changed",
    "relate": "related",
    "unrelate": "removed a relation",
    "append to": "added text",
    "untag": "removed tags",
    "verify": "verified",
    "resolve": "resolved a conflict",
    "settle": "resolved a conflict",
    "delete": "deleted",
    "move": "changed the URI",
    "review: revert": "reverted",
    "review: take back": "reverted",
}
"""Descriptions of generated commit subjects, by the words of the subject before the node's URI."""
GENERATED = (*DESCRIPTIONS, "change", "log", "revert")
"""The words before the node's URI in a generated subject."""
WITH_REASONS = ("put", "resolve", "submit", "accept", "commit", "revert")
"""Operations whose commits have the author's message, if the author wrote one; ``commit`` is a commit made with git."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_WORD = re.compile(r"\w+(?:['’.-]\w+)*|\s+|[^\w\s]")
_SENTENCE = re.compile(r"(?:[^.!?\n]|[.!?](?!\s))+(?:[.!?]+|\Z)?\s*|\s+|[.!?]+\s*")
_CUT = re.compile(r"… \(\d+ characters\)\Z").search
"""Matches the end of a text that did not fit into an answer."""

Kind = Literal["same", "del", "ins"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of text: in both versions, or only in the older or newer one."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Lines of the older version beside the lines of the newer version that replace them."""

    before: tuple[Mark, ...]
    after: tuple[Mark, ...]

    @property
    def is_same(self) -> bool:
        return self.before == self.after


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A changed field."""

    title: str
    marks: tuple[Mark, ...]
    name: str = ""
    """The field's path, by which a tool knows it."""
    target: str = ""
    """The name of the target, if the field is a relation and the name is known."""

    @property
    def pairs(self) -> list[Pair]:
        """The marks as two columns."""
        return side_by_side(self.marks)

    @property
    def is_rewritten(self) -> bool:
        """Whether the versions have too little in common to mark their words."""
        return rewritten(self.marks) is not None

    @property
    def is_prose(self) -> bool:
        return self.name in PROSE

    @property
    def was_empty(self) -> bool:
        """Whether a change filled in a text."""
        return self.is_prose and all(mark.kind == "ins" for mark in self.marks)

    @property
    def brief(self) -> tuple[Mark, ...]:
        """The first differences with a little of the surrounding text, for a row."""
        return shortened(self.marks, LONGEST_BRIEF, AROUND_BRIEF)

    @property
    def gist(self) -> str:
        """The change in a few words: ``status: open → done``; the title alone for a long text."""
        head, *rest = split(self.name) if self.name else [""]
        before, after = self.text("same", "del"), self.text("same", "ins")
        if head == "relations" and len(rest) == 2:
            change = f"{'' if after else 'no longer '}{words_of(rest[0])} {self.target or name_of(rest[1])}"
            return f"{change}: {', '.join(after.splitlines())}" if before and after else change
        if head in LONG or self.name == VERIFIED or before == after == "":
            return self.title
        if "\n" in f"{before}{after}" and before != after:
            told = (("added", self.items("ins")), ("removed", self.items("del")))
            text = ", ".join(f"{word} {', '.join(items)}" for word, items in told if items)
        else:
            text = after if before in ("", after) else f"{before} → {after or 'nothing'}"
        return f"{self.title}: {', '.join(text.splitlines())}"

    def text(self, *kinds: Kind) -> str:
        """Return the marks of these kinds as one text."""
        return "".join(mark.text for mark in self.marks if mark.kind in kinds)

    def items(self, kind: Kind) -> list[str]:
        """Return the lines of the marks of a kind."""
        return [line for mark in self.marks if mark.kind == kind for line in mark.text.split("\n") if line.strip()]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A changed node, or a changed file that is not a node's, for which `uri` is empty."""

    uri: str
    name: str
    change: str
    fields: tuple[FieldRow, ...]
    is_cut: bool = False
    """Whether the answer shortened a text of the row."""
    reverted: str = ""
    """The commit that reverted the change."""
    is_approved: bool = False
    """Whether the reader approved the change."""
    stale: Mapping[str, Any] | None = None
    """Why the node is stale."""
    is_disputed: bool = False
    """Whether the node has an open conflict."""
    commits: tuple[str, ...] = ()
    at: str = ""
    """The commits of the change, oldest first, and the time of the last one."""

    @property
    def type(self) -> str:
        """The scheme of the URI, which is the type of most nodes; ``concept`` for a file that is not a node's."""
        return scheme_of(self.uri) if self.uri else "concept"

    @property
    def label(self) -> str:
        """The current name, the name in the change if the node is new or deleted, or the URI."""
        own = next((one for one in self.fields if one.name == "name"), None) if self.change != "changed" else None
        return self.name or (own.marks[0].text if own and own.marks else "") or self.uri

    @property
    def main(self) -> FieldRow | None:
        """The changed field that a closed row shows as a difference; None if `gist` describes it better."""
        known = {one.name: one for one in self.fields} if self.change == "changed" else {}
        return next((known[name] for name in ("summary", "content", "name") if name in known), None)

    @property
    def others(self) -> int:
        """The number of changed fields besides the main one."""
        return sum(one.name != VERIFIED for one in self.fields) - 1

    @property
    def gist(self) -> str:
        """The new summary in one line, or else the changed fields; empty if the summary repeats the name.

        A new node without a summary is known by its content.
        """
        known = {one.name: one.text("same", "ins") for one in self.fields}
        text = known.get("summary", "")
        if text and text.rstrip(".") == self.label.rstrip("."):
            return ""
        if not text and self.change == "created":
            text = known.get("content", "").strip().partition("\n")[0]
        left_out = ("name", VERIFIED) if self.change == "created" else (VERIFIED,) if len(self.fields) > 1 else ()
        text = text.strip() or "; ".join(one.gist for one in self.fields if one.name not in left_out)
        return text if len(text) <= LONGEST_GIST else f"{text[:LONGEST_GIST]}…"


def reason_of(commit: Mapping[str, Any]) -> str:
    """Return the message that the author of a commit wrote; empty if kgd generated it or the reader may not see it."""
    message, nodes = str(commit["message"]).strip(), commit["nodes"]
    if commit.get("operation") not in WITH_REASONS or not nodes or message == UNSEEN_MESSAGE:
        return ""
    if commit["operation"] == "revert":  # the rest names the reverted commits
        message = "" if message.startswith(("revert: ", "restore: ")) else message.partition("\n\n")[0]
    is_generated = any(message.startswith(f"{verb} {uri}"[:100]) for verb in GENERATED for uri in nodes)
    return "" if is_generated or any(_relation_in(message, uri) for uri in nodes) else message


def reasons_of(visit: Visit, commits: Iterable[str]) -> dict[str, str]:
    """Return the messages that the authors of commits wrote, by commit. Costs one call for each commit."""
    found = {}
    for commit in dict.fromkeys(filter(None, commits)):
        for one in visit.tried("history", commit=commit).get("commits", ()):  # a restricted reader may see none
            if reason := reason_of(one):
                found[commit] = reason
    return found


def description_of(subject: str, uri: str) -> str:
    """Describe the change that a generated commit subject reports; empty for a subject that an author wrote."""
    if verb := _relation_in(subject, uri):
        return DESCRIPTIONS[verb]
    verb, found, told = subject.partition(f" {uri}")
    return DESCRIPTIONS.get(verb, "") if found and told[:2] in ("", ": ") else ""


def _relation_in(subject: str, uri: str) -> str:
    """``relate`` or ``unrelate`` if a generated subject reports one relation of the node, otherwise empty."""
    rest = subject.removeprefix("unlink ")
    words = rest.split()
    if len(words) != 3 or words[0] not in (uri, subject_from(uri)):
        return ""
    return "relate" if rest == subject else "unrelate"


def titled(field: str, names: Mapping[str, str] | None = None) -> str:
    """Return the label of a field: ``data/owner`` is *owner (data)*. The target of a relation has its name in `names`,
    or else its URI."""
    head, *rest = split(field)
    match head:
        case "relations" if len(rest) >= 2:
            what = f", its {' / '.join(rest[2:])}" if len(rest) > 2 else ""
            return f"relation “{words_of(rest[0])}” to {(names or {}).get(rest[1]) or rest[1]}{what}"
        case "data" if rest and field not in TITLES:
            return f"{' / '.join(rest)} (data)"
        case "memories" if rest:
            what = {"": "whole file", "prose": "text"}.get("/".join(rest[1:]), " / ".join(rest[1:]))
            return f"{what} of memories/{rest[0]}"
    return TITLES.get(field, " / ".join([head, *rest]))


def written(value: Json) -> str:
    """Return a field's value as text; a relation without data is shown by its cost."""
    if isinstance(value, Mapping) and set(value) == {"weight"} and isinstance(value["weight"], int | float):
        return f"cost {value['weight']:g}"
    return as_text(value)


def are_lists(*values: Json) -> bool:
    """Whether all values are lists or absent, and at least one is a list."""
    return any(isinstance(one, list) for one in values) and all(one is None or isinstance(one, list) for one in values)


def is_cut(value: Json) -> bool:
    """Whether an answer shortened a text in the value."""
    if isinstance(value, Mapping):
        return any(map(is_cut, value.values()))
    if isinstance(value, list):
        return any(map(is_cut, value))
    return isinstance(value, str) and _CUT(value) is not None


def lines_of(text: str) -> list[str]:
    """Split a text into lines, each with its line feed."""
    return _LINE.findall(text)


def stretches(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yield pairs of stretches that cover both sequences in order; the members of a pair are equal or differ."""
    at_old = at_new = 0
    for run in common_parts(old, new):
        if run.old > at_old or run.new > at_new:
            yield old[at_old : run.old], new[at_new : run.new]
        at_old, at_new = run.old + run.length, run.new + run.length
        yield old[run.old : at_old], new[run.new : at_new]
    if at_old < len(old) or at_new < len(new):
        yield old[at_old:], new[at_new:]


def marked(old: str, new: str, *, around: int = AROUND) -> list[Mark]:
    """Compare two texts and return the newer text, with deleted words in their place.

    Changed sentences are compared word by word, or as a whole if they share less than half of their words. Changes
    with few words between them are joined.

    Args:
        around: Characters of unchanged text that stay before and after a change.
    """
    found: list[Mark] = []
    for one, two in stretches(lines_of(old), lines_of(new)):
        if one == two:
            _add(found, "same", "".join(two))
            continue
        for before, after in _compared("".join(one), "".join(two)):
            if before == after:
                _add(found, "same", "".join(after))
            else:
                _add(found, "del", "".join(before))
                _add(found, "ins", "".join(after))
    return [_cut(mark, n, len(found), around) for n, mark in enumerate(found)]


def _compared(old: str, new: str) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    for before, after in stretches(_SENTENCE.findall(old), _SENTENCE.findall(new)):
        one, two = "".join(before), "".join(after)
        words = _WORD.findall(one), _WORD.findall(two)
        found = list(stretches(*words)) if one != two and max(map(len, words)) <= WORDS_LIMIT else []
        shared = sum(_words_in(kept) for kept, other in found if kept == other)
        is_close = found and 2 * shared >= min(map(_words_in, words))
        yield from _phrases(found) if is_close else [([one], [two])]


def _phrases(found: Iterable[tuple[Sequence[str], Sequence[str]]]) -> list[tuple[Sequence[str], Sequence[str]]]:
    """Join changes of one line with fewer than `APART` words between them, if at least one of them replaces words."""
    joined: list[tuple[Sequence[str], Sequence[str]]] = []
    for old, new in found:
        if old != new and len(joined) > 1:
            (was, now), (kept, same) = joined[-2:]
            is_phrase = kept == same and _words_in(kept) < APART and "\n" not in "".join(kept)
            if is_phrase and ((was and now) or (old and new)):
                joined[-2:] = [([*was, *kept, *old], [*now, *kept, *new])]
                continue
        joined.append((old, new))
    return joined


def rewritten(found: Sequence[Mark]) -> tuple[str, str] | None:
    """Return the older and the newer text if they share less than a third of their words, so that a page shows one
    after the other; None if marked words help a reader."""
    counts: Counter[Kind] = Counter()
    for mark in found:
        counts[mark.kind] += _words_in(_WORD.findall(mark.text[:LONGEST_MARK]))
    if any(mark.kind == "same" and GAP in mark.text for mark in found):
        return None  # a part of what they share is not shown
    least = counts["same"] + min(counts["del"], counts["ins"])
    if min(counts["del"], counts["ins"]) < WHOLE or 3 * counts["same"] >= least:
        return None
    old, new = ("".join(one.text for one in found if one.kind != without) for without in ("ins", "del"))
    return old.rstrip(), new.rstrip()


def newer(*versions: Sequence[Mark]) -> list[list[Mark]]:
    """Return the newer texts with their new words marked. If one of them is rewritten, none is marked: marks in the
    others alone would look like a recommendation."""
    kept = [[mark for mark in found if mark.kind != "del"] for found in versions]
    if any(map(rewritten, versions)):
        return [[Mark("same", "".join(mark.text for mark in found))] for found in kept]
    return kept


def _words_in(tokens: Sequence[str]) -> int:
    return sum(one[:1].isalnum() for one in tokens)


def _add(found: list[Mark], kind: Kind, text: str) -> None:
    if not text:
        return
    if found and found[-1].kind == kind:
        found[-1] = Mark(kind, found[-1].text + text)
    else:
        found.append(Mark(kind, text))


def marked_items(old: str, new: str) -> list[Mark]:
    """Compare two lists, written as one item per line, by item: an item is the same, deleted or inserted."""
    found: list[Mark] = []
    for one, two in stretches(old.split("\n") if old else (), new.split("\n") if new else ()):
        sides: tuple[tuple[Kind, Sequence[str]], ...] = (("same", one),) if one == two else (("del", one), ("ins", two))
        for kind, items in sides:
            for item in items:
                _add(found, "same", "\n" if found else "")
                _add(found, kind, item)
    return found


def _cut(mark: Mark, number: int, count: int, around: int) -> Mark:
    text = mark.text
    if mark.kind != "same" or len(text) <= 2 * around + len(GAP):
        return mark
    begin = text[:around] if number else ""
    end = text[-around:] if number < count - 1 else ""
    return Mark("same", begin + GAP + end)


def marks(old: str, new: str) -> tuple[Mark, ...]:
    """Compare two texts as `marked` does, with each stretch clipped to a length that a page can show."""
    return tuple(clipped(mark) for mark in marked(old, new))


def shortened(found: Sequence[Mark], most: int, around: int) -> tuple[Mark, ...]:
    """Shorten marked text to its first differences.

    A deleted text is never the last stretch if an inserted text replaces it.

    Args:
        most: Approximate largest number of characters, at most a third of them for each stretch.
        around: Characters of unchanged text before and after a change.
    """
    shown, room = list[Mark](), most
    for number, mark in enumerate(found):
        text = _cut(mark, number, len(found), around).text
        longest = min(max(room, around), most // 3)
        shown.append(Mark(mark.kind, text if len(text) <= longest else f"{text[:longest]}…"))
        room -= min(len(text), longest)
        if room <= 0 and mark.kind != "del":
            break
    return tuple(shown)


def side_by_side(found: Iterable[Mark]) -> list[Pair]:
    """Split marked text into rows of two columns. A row ends where both versions have the same line end, and before a
    line that neither version changes."""
    pairs: list[Pair] = []
    before: list[Mark] = []
    after: list[Mark] = []

    def end() -> None:
        pair = Pair(tuple(before), tuple(after))
        if pairs and pair.is_same and pairs[-1].is_same:
            text = pairs[-1].after[0].text + "".join(mark.text for mark in pair.after)
            pairs[-1] = Pair((Mark("same", text),), (Mark("same", text),))
        elif before or after:
            pairs.append(pair)
        before.clear()
        after.clear()

    for mark in found:
        for line in lines_of(mark.text) if mark.kind == "same" else [mark.text]:
            part = Mark(mark.kind, line)
            if mark.kind == "same" and all(not one or one[-1].text.endswith("\n") for one in (before, after)):
                end()
            before.extend([part] if mark.kind != "ins" else [])
            after.extend([part] if mark.kind != "del" else [])
            if mark.kind == "same" and line.endswith("\n"):
                end()
    end()
    return pairs


def clipped(mark: Mark) -> Mark:
    """Shorten a stretch to `LONGEST_MARK` characters."""
    if len(mark.text) <= LONGEST_MARK:
        return mark
    return Mark(mark.kind, f"{mark.text[:LONGEST_MARK]}… ({len(mark.text):,} characters)")


def named_in(diff: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the URIs whose names the rows of a diff show: its nodes, then the targets of their changed relations."""
    nodes = list(diff)
    targets = (target_of(name) for one in nodes for name in one["fields"])
    return [*(one["uri"] for one in nodes), *dict.fromkeys(filter(None, targets))]


def target_of(field: str) -> str:
    """Return the URI of a relation's target, from the field of the relation; empty for any other field."""
    head, *rest = split(field)
    return rest[1] if head == "relations" and len(rest) > 1 else ""


def rows(diff: Iterable[Mapping[str, Any]], names: Mapping[str, str] | None = None) -> list[NodeRow]:
    """Return the nodes of a tool's `diff`, each with its fields in reading order; `names` maps the URIs of `named_in`
    to names."""
    names = names or {}

    def fields(one: Mapping[str, Any]) -> Iterator[FieldRow]:
        for name in sorted(one["fields"], key=_reading_order):
            yield _row(name, one["change"], one["fields"][name], names)

    return [
        NodeRow(
            one["uri"],
            names.get(one["uri"], ""),
            one["change"],
            (
                *_reason(one),
                *fields(one),
            ),
            any(is_cut(value) for field in one["fields"].values() for value in (field["before"], field["after"])),
        )
        for one in diff
    ]


def _reason(one: Mapping[str, Any]) -> tuple[FieldRow, ...]:
    """Return why the file of an invalid node cannot be read, as a field."""
    return (FieldRow("cannot be read", (Mark("same", one["reason"]),), "reason"),) if one.get("reason") else ()


def _reading_order(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST) + (name == VERIFIED)


def _row(name: str, change: str, field: Mapping[str, Any], names: Mapping[str, str]) -> FieldRow:
    """Return a changed field. The ids of verified code are not for readers."""
    if name == VERIFIED:
        return FieldRow("verified", (Mark("same", "for the code of that time"),), name)
    return FieldRow(titled(name, names), _marks_of(change, field), name, names.get(target_of(name), ""))


def _marks_of(change: str, field: Mapping[str, Any]) -> tuple[Mark, ...]:
    before, after = field["before"], field["after"]
    if change == "created":
        return (clipped(Mark("same", written(after))),)
    if are_lists(before, after):
        return tuple(clipped(mark) for mark in marked_items(written(before or None), written(after or None)))
    return marks(written(before), written(after))


def previewed_commit(visit: Visit, would: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the commit of a dry run, for the template macro `commit_shown`."""
    if would is None:
        return {"message": "", "author": "", "rows": [], "more": 0}
    found = rows(would["diff"], titles(visit, named_in(would["diff"])))
    for one in would.get("files", ()):
        change = "created" if one["before"] is None else "deleted" if one["after"] is None else "changed"
        text = FieldRow("text", marks(one["before"] or "", one["after"] or ""))
        found.append(NodeRow("", one["path"], change, (text,)))
    return {"message": would["message"], "author": would["author"], "rows": found, "more": would.get("more_diff", 0)}
