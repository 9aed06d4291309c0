"""Exact names: finds nodes and files by a name in any case style, qualified or not; and labels of documents.

`getUserName`, `get_user_name` and `GetUserName` have the same folded form. A qualified name such as
`QuerySet.get_or_create` or `db.models.Model` is looked up by its last part; the parts before it must occur in the same
order in the node's path.

A label is a name, a tag or a key of data, by which a document is looked up as a whole. It is a hash of 48 bits, so it
takes a fraction of the text's space, and two texts share one only by an unlikely accident. A document lists its labels,
so that its removal needs no second index.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise

from kgd.index import words
from kgd.index.database import hashed
from kgd.model.uri import Uri, is_owned, name_of

MAX_NAME = 120
LONGEST_PATH = 1_024
_NUMBERED = ("chunk://", "message://")
"""Schemes whose last segment is a number or a time."""
MOST_NAMED = 400
"""Maximum number of nodes with one name to consider."""
MOST_WORDS = 6
"""Maximum number of words in a question that may be a name as a whole."""
_APART = re.compile(r"::|->|[./#:\\]+")
_NUMBER = re.compile(r"~\d+\Z")
_IDENTIFIER = re.compile(r"`([^`\n]{2,120})`|([^\W\d]\w*(?:(?:::|->|[./#:\\-])\w+)*(?:\(\))?)")


Sees = Callable[[Uri], bool]

NAME, TAG, KEY = "name", "tag", "key"


def fold(name: str) -> str:
    """The letters and digits of a name, in lower case.

    >>> fold("getUserName") == fold("get_user_name") == fold("Get-User name")
    True
    """
    return "".join(filter(str.isalnum, name.casefold()))[:MAX_NAME]


def labels_of(uri: Uri, name: str, aliases: Iterable[str]) -> set[int]:
    """The labels for the names of a node: its whole name, the last part of a qualified name, the end of its URI, and
    its aliases."""
    last = _NUMBER.sub("", name).rpartition(".")[2] if uri.startswith("symbol://") else ""
    end = name_of(uri) if is_owned(uri) and not uri.startswith(_NUMBERED) else ""
    folded = {fold(each) for each in (_NUMBER.sub("", name), last, end if not last else "", *aliases)} - {""}
    return {label(NAME, each) for each in folded}


def asked_in(query: str) -> list[str]:
    """The names in a question: the whole question if it is short, and words written like identifiers."""
    text = query.strip()
    whole = [text.strip("`\"'()?")] if text and len(text) <= MAX_NAME and len(text.split()) <= MOST_WORDS else []
    inside = [quoted or plain for quoted, plain in _IDENTIFIER.findall(text)]
    return list(dict.fromkeys([*whole, *(one.removesuffix("()") for one in inside if _is_identifier(one))]))


def _is_identifier(word: str) -> bool:
    """Whether a word in a sentence is written like code: with a punctuation mark or a capital letter inside, or with a
    call's brackets."""
    return bool(
        "_" in word.strip("_")
        or word.endswith("()")
        or _APART.search(word)
        or (not word.isupper() and any(a.islower() and b.isupper() for a, b in pairwise(word)))
    )


def find(connection: sqlite3.Connection, name: str, lanes: Sequence[int], sees: Sees) -> dict[Uri, bool]:
    """The nodes with this name in these lanes that `sees` accepts, and whether each is spelled exactly like it.

    Returns at most `MOST_NAMED` nodes for the whole name or, if there are none, for its last part.
    """
    parts = [part for part in _APART.split(name.removesuffix("()")) if part]
    if not parts:
        return {}
    asked = list(dict.fromkeys([fold(name.removesuffix("()")), fold(parts[-1])]))
    found: dict[Uri, bool] = {}
    for folded in filter(None, asked):
        rows = connection.execute(
            "SELECT docs.uri, docs.name FROM labels CROSS JOIN docs ON docs.id = labels.doc WHERE labels.label = ?"
            f" AND docs.lane IN ({', '.join(str(int(lane)) for lane in lanes)}) ORDER BY docs.uri",
            (label(NAME, folded),),
        )
        before = [fold(part) for part in parts[:-1]] if folded == fold(parts[-1]) and len(parts) > 1 else []
        for uri, own in islice((row for row in rows if sees(row[0])), MOST_NAMED):
            if not before or _in_order(before, uri, own):
                found.setdefault(uri, parts[-1] in (own, own.rpartition(".")[2], uri.rpartition("/")[2]))
        if found:
            break
    return found


def _in_order(parts: Sequence[str], uri: Uri, name: str) -> bool:
    """Whether these parts occur in this order in a node's path and qualified name."""
    path = [fold(piece) for piece in re.split(r"[/.]", uri.partition("://")[2])] + [fold(p) for p in name.split(".")]
    rest = iter(path)
    return all(any(part == piece for piece in rest) for part in parts)


def find_files(connection: sqlite3.Connection, name: str, sees: Sees, *, stored: bool = False) -> list[Uri]:
    """Files of this name, path or dotted module, and directories of this path, that `sees` accepts; shorter paths
    first, at most `MOST_NAMED`. `name` may be the end of a path. Those with a stored node are omitted unless
    `stored`, because `find` finds the node by its name."""
    parts = [part for part in re.split(r"[/\\]+", words.clean(name)) if part not in ("", ".")]
    if not parts or len(name) > LONGEST_PATH:
        return []
    before, last = parts[:-1], parts[-1]
    bare = "" if stored else " AND NOT EXISTS (SELECT 1 FROM docs WHERE docs.uri = files.uri)"
    rows = _files(connection, f"files.name = ? COLLATE NOCASE{bare}", last, sees)
    if not rows and len(parts) == 1 and len(modules := [part for part in _APART.split(name) if part]) > 1:
        before, last = modules[:-1], modules[-1]
        rows = _files(connection, f"files.name LIKE ? ESCAPE '!'{bare}", re.sub(r"([%_!])", r"!\1", last) + ".%", sees)
    asked = [part.casefold() for part in before]
    fitting = [
        uri
        for uri, path in rows
        if (path.casefold().split("/")[-1 - len(asked) : -1] == asked if asked else uri.startswith("file:"))
    ]
    return sorted(fitting, key=lambda uri: (uri.count("/"), uri))


def _files(connection: sqlite3.Connection, condition: str, value: str, sees: Sees) -> list[tuple[Uri, str]]:
    rows = connection.execute(f"SELECT uri, path FROM files WHERE {condition} ORDER BY uri", (value,))
    return list(islice((row for row in rows if sees(row[0])), MOST_NAMED))


def label(kind: str, text: str) -> int:
    return hashed(kind, text) >> 16
