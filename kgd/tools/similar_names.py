"""Suggestions for a URI without a node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kgd.index.words import parts_of
from kgd.model.uri import Uri, scheme_of

if TYPE_CHECKING:
    from kgd.tools.visibility import Sees
    from kgd.workspace.workspace import Workspace

BESIDE, ALIKE = 500, 0.75
"""Largest number of nodes of a folder to compare with a missing name, and the lowest `difflib` ratio of similar names.
"""
BEGINNING = 4
"""Fewest letters of a word that count as the beginning of a similar word."""
NAME_WORDS = 30
"""Largest number of words of a name to compare."""
LOOKED = 30
"""Largest number of search results for the words of a missing name, before results of `PIECES` are dropped."""
PIECES = frozenset({"chunk", "message", "symbol"})
"""Schemes of parts of files and threads. They are suggested only for a missing URI of the same scheme."""


def similar(workspace: Workspace, uri: Uri, sees: Sees | None, limit: int = 3) -> list[str]:
    """Suggestions for a missing URI: nodes in its folder with a similar name, then search results whose names share
    half of the words of its name. None if there is no similar node.

    A concept may be a misspelt path, so files of the same folder are suggested too.

    Args:
        sees: Predicate for readable nodes, or None if unrestricted. Other nodes are not suggested.
        limit: The largest number of suggestions.
    """
    words = " ".join(uri.rpartition("://")[2].split("/")[1:]) or uri
    folder, _, name = uri.rpartition("/")
    folders = (folder.replace("concept://", "file://", 1), folder)
    near = [one for place in dict.fromkeys(folders) for one in _beside(workspace, place)]
    beside = {one.rpartition("/")[2]: one for one in near if sees is None or sees(Uri(one))}
    close = [beside[one] for one in get_close_matches(name, beside, n=limit, cutoff=ALIKE)]
    hits = (hit.uri for hit in workspace.text_so_far().search(words, limit=LOOKED, sees=sees))
    found = (hit for hit in hits if _is_near(name, hit, card.name if (card := workspace.graph.card(hit)) else ""))
    left_out = PIECES - {scheme_of(uri)}
    return [one for one in dict.fromkeys([*close, *found]) if one != uri and scheme_of(one) not in left_out][:limit]


def _beside(workspace: Workspace, folder: str) -> Sequence[str]:
    """Direct children of a folder of nodes, or files of a folder of the code tree, at most `BESIDE`."""
    if folder.startswith("file://") and workspace.overlay is not None:
        edges = workspace.overlay.out(Uri(f"dir{folder[4:]}"))
        return [edge.target for edge in islice(edges, BESIDE) if scheme_of(edge.target) == "file"]
    found = workspace.text_so_far().between(f"{folder}/", f"{folder}0", BESIDE)  # 0 is the character after the slash
    return [uri for uri in found if "/" not in uri[len(folder) + 1 :]]


def _is_near(name: str, uri: str, title: str) -> bool:
    """Whether the URI's last segment and the title have half of a name's words, complete, abbreviated or misspelt."""
    wanted, there = _name_words(name), _name_words(f"{uri.rpartition('/')[2]} {title}")
    begun = [word for word in there if len(word) >= BEGINNING]
    near = sum(
        bool(get_close_matches(word, there, n=1, cutoff=ALIKE))
        or (len(word) >= BEGINNING and any(one.startswith(word) or word.startswith(one) for one in begun))
        for word in wanted
    )
    return 0 < len(wanted) <= 2 * near


def _name_words(name: str) -> list[str]:
    found = re.findall(r"[^\W_]+", unquote(name))
    return list(dict.fromkeys(part.casefold() for word in found for part in parts_of(word) or [word]))[:NAME_WORDS]
