"""The message that the next page of a session shows once."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

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
        except (ValueError, TypeError):
            return cls(text)
