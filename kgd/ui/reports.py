"""The way from a change to the next page, which reports the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgd.ui.notices import SHOWN
from kgd.ui.rendering import sentence, spoken
from kgd.ui.visit import Redirect

NOTHING = "Nothing was changed."


def reported(
    to: str, answer: Mapping[str, Any], done: str = "Saved", nothing: str = NOTHING, more: str = ""
) -> Redirect:
    """Redirect to a page that reports a change with its commit, its warnings and similar nodes, and can undo it.

    Args:
        answer: The answer of a tool that writes.
        done: The words before the commit, which `nothing` replaces without one.
        more: A last sentence.
    """
    commit = answer.get("commit") or ""
    told = f"{done} with commit {commit[:SHOWN]}." if commit else nothing
    warnings = (f"{sentence(spoken(one))}." for one in answer.get("warnings", ()))
    like = (f"It may duplicate {', '.join(one['like'])}." for one in answer.get("similar", ()))
    return Redirect(to, " ".join(filter(None, (told, *warnings, *like, more))), undo=commit)
