"""The words of the pages: labels of fields instead of the parameters of a call, and types of relations as phrases."""

from __future__ import annotations

import re

from kgd.errors import Advice, Do, KgdError
from kgd.model.node import NODE_FIELDS
from kgd.tools import entries

LABELS = {row.name: row.label.capitalize() for row in NODE_FIELDS} | {
    "area": "Area",
    "author": "Author",
    "cost": "Largest cost",
    "direction": "Direction",
    "expires": "Expires",
    "from": "Start at",
    "knowledge": "Knowledge",
    "max_cost": "Largest cost",
    "message": "Reason",
    "moleculeId": "Group",
    "namespace": "Path",
    "nodes": "Shown, at most",
    "path": "Path",
    "paths": "Paths",
    "query": "Words",
    "since": "From",
    "start": "Start at",
    "target": "Target",
    "task": "Task",
    "text": "Markdown",
    "to": "New URI",
    "until": "To",
    "verbs": "Permissions",
    "weight": "Cost",
}
"""The label of each parameter and each field of a form."""
_SUBJECT = re.compile(r"(['`]?)(\w+)\1(?= (?:has|must|may)\b)").match
_LINE = re.compile(r"(line \d+ of )(\w+)\Z").match
_PARAMETER = re.compile(r"([a-z]+(?:[A-Z_]\w*)?)(\[\d+\].*)?\Z").match
_PAGE_WORDS = {"atom": "area", "molecule": "group", "node": "fact"}
_WORDS = re.compile(r"`[^`\n]*`|(?<!\w)'([^'\n]+)'(?!\w)|(?<![\w:/-])(atom|molecule|node)(?=s?\b(?![\w:/-]))")
"""A command, a quoted value, or a noun that is another word on the pages."""


def message(text: str) -> str:
    """Return the message of an error in the words of the pages.

    >>> message("'summary' has 200 characters"), message("there is no such molecule")
    ('Summary has 200 characters', 'there is no such group')
    >>> message("'gone' is named in 3 texts, but no node has that name")
    '“gone” is named in 3 texts, but no fact has that name'
    >>> message("no node has the author 'atom node'; try `kgd put node`")
    'no fact has the author “atom node”; try `kgd put node`'
    """
    subject = _SUBJECT(text)
    if subject and subject[2] in LABELS:
        text = LABELS[subject[2]] + text[subject.end() :]
    return _WORDS.sub(lambda found: f"“{found[1]}”" if found[1] else _PAGE_WORDS.get(found[0], found[0]), text)


def place(at: str) -> str:
    """Return the place of an error; empty for a parameter that no page shows.

    A single word without a label may be a value, such as the name of a branch, and is shown.

    >>> place("start[0]"), place("changes[0].uri"), place("line 1 of data"), place("src/auth"), place("main")
    ('Start at', '', 'line 1 of Data', 'src/auth', 'main')
    """
    if line := _LINE(at):
        return line[1] + LABELS.get(line[2], line[2])
    parameter = _PARAMETER(at)
    return LABELS.get(parameter[1], at if at.isalpha() and at.islower() else "") if parameter else at


def next_step(text: str) -> str:
    """Return a next step in the words of the pages."""
    said = text.said(lambda do: entries()[do.operation]["page"]) if isinstance(text, Advice) else text
    return message(said)


def advises(text: str, *operations: str) -> bool:
    """Whether a warning names one of these operations as the next step."""
    parts = text.parts if isinstance(text, Advice) else ()
    return any(isinstance(part, Do) and part.operation in operations for part in parts)


def labelled(error: KgdError, **labels: str) -> KgdError:
    """Return the error with the label of its field, for a form whose label differs from `LABELS`."""
    parameter = _PARAMETER(error.at)
    if parameter and parameter[1] in labels:
        error.at = labels[parameter[1]]
    return error


INCOMING = {
    "about": "is the subject of",
    "calls": "is called by",
    "cites": "is cited by",
    "contains": "is in",
    "depends_on": "is needed by",
    "explains": "is explained by",
    "has": "belongs to",
    "imports": "is imported by",
    "made": "was made by",
    "owns": "is owned by",
    "part_of": "consists of",
    "related_to": "is related to",
    "replaces": "is replaced by",
    "summarised_by": "summarises",
    "summarises": "is summarised by",
    "superseded_by": "supersedes",
    "supersedes": "is superseded by",
    "uses": "is used by",
    "works_on": "is worked on by",
}
"""Phrases for incoming relations, from the target's point of view."""


VERBS = {
    "about": "is about",
    "explained_by": "is explained by",
    "implemented_in": "is implemented in",
    "part_of": "is part of",
    "related_to": "is related to",
    "signed_with": "is signed with",
    "summarised_by": "is summarised by",
    "superseded_by": "is superseded by",
}
"""Phrases for relations whose words have no verb."""


def verb_of(type: str, is_incoming: bool) -> str:
    """Return a type of relation as the verb of a sentence about this node: ``is about``, ``is used by``."""
    return words_of(type, is_incoming) if is_incoming else VERBS.get(type, words_of(type))


def words_of(type: str, is_incoming: bool = False) -> str:
    """Return a type of relation as a phrase between this node and the other nodes: ``depends on``, ``is used by``.

    The incoming phrase of any other type names the type: ``needs`` becomes ``“needs” from``.
    """
    words = " ".join(type.replace("_", " ").split()) or type
    return INCOMING.get(type, f"“{words}” from") if is_incoming else words


def sentence(text: str) -> str:
    """Capitalise a text, unless it starts with an address, a path or the name of kgd."""
    first = text.partition(" ")[0]
    if {"/", "#", "_", "`"} & set(first) or first == "kgd":
        return text
    return text[:1].upper() + text[1:]
