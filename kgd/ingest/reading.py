"""This file is where a document's bytes become text: here where they are plain, else in a limited process."""

from __future__ import annotations

from types import TracebackType

from kgd.ingest import formats
from kgd.ingest.limited import Limited
from kgd.ingest.readers import office, plain
from kgd.ingest.readers.text import TEXT_LIMIT, Text, Unreadable, characters

__all__ = ["Reading", "Text", "Unreadable"]


class Reading:
    """Reads one document after the other; a process that it needs for that is started by the first one and ends with
    it. For one thread."""

    def __init__(self) -> None:
        self._limited = Limited()

    def read(self, name: str, data: bytes) -> Text:
        """What is in a document. `name` tells its format where its first bytes do not.

        Raises:
            Unreadable: It cannot be taken in.
        """
        format = formats.format_of(name, data)
        if format in formats.OFFICE:
            office.require(format)
        if format in formats.BINARY or format == formats.HTML:
            return self._limited.read(format, data)
        text = characters(data)
        if len(text) > TEXT_LIMIT:
            raise Unreadable(f"it has more than {TEXT_LIMIT >> 20} MiB of text")
        if format == formats.MARKDOWN:
            return plain.markdown(text)
        if format == formats.RST:
            return plain.restructured(text)
        if format.startswith("code:"):
            return plain.code(text, format.removeprefix("code:"))
        return plain.plain(text)

    def close(self) -> None:
        self._limited.close()

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
