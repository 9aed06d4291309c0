"""Reports of a change: the way to the next page, and the message that this page shows once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kgd.errors import MALFORMED
from kgd.ui.error_words import next_step
from kgd.ui.rendering import sentence
from kgd.ui.visit import Redirect

SHOWN = 10
"""Number of digits of a commit in a message."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message, and the commit in a workspace that it reports; without a commit there is nothing to undo."""

    text: str
    commit: str = ""
    workspace: str = ""

    @property
    def parts(self) -> tuple[str, str, str]:
        """The text before the commit, the digits of the commit in the text, and the text after it."""
        return self.text.partition(self.commit[:SHOWN]) if self.commit else (self.text, "", "")

    def written(self) -> str:
        """Return the notice as a text that `read` accepts."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Notice | None:
        """Return the notice of a text; None for an empty text. A text of an earlier version is the message itself."""
        try:
            return cls(**json.loads(text)) if text else None
        except MALFORMED:
            return cls(text)


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
    warnings = (_ended(sentence(next_step(one))) for one in answer.get("warnings", ()))
    like = (f"It may duplicate {', '.join(one['like'])}." for one in answer.get("similar", ()))
    return Redirect(to, " ".join(filter(None, (told, *warnings, *like, more))), undo=commit)


def _ended(text: str) -> str:
    """A text with a full stop, unless it ends as a sentence."""
    return text if text.endswith((".", "?", "!")) else f"{text}."
