"""This file is where a document's bytes become text: here where they are plain, else in a limited process."""

from __future__ import annotations

from types import TracebackType

from kgd.ingest import formats
from kgd.ingest.readers import plain
from kgd.ingest.readers.text import Text, Unreadable, characters

__all__ = ["Reading", "Text", "Unreadable"]


class Reading:
    """Reads one document after the other; what it needs for that is started by the first one and ends with it."""

    def read(self, name: str, data: bytes) -> Text:
        """What is in a document. `name` tells its format where its first bytes do not.

        Raises:
            Unreadable: It cannot be taken in.
        """
        format = formats.format_of(name, data)
        if format in formats.BINARY or format == formats.HTML:
            raise Unreadable(f"{format} is not read yet")
        text = characters(data)
        if format == formats.MARKDOWN:
            return plain.markdown(text)
        if format == formats.RST:
            return plain.restructured(text)
        if format.startswith("code:"):
            return plain.code(text, format.removeprefix("code:"))
        return plain.plain(text)

    def close(self) -> None:
        pass

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
