"""Ingest of documents and conversations, and reading a conversation."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from kgd.api import reading
from kgd.api.calling import Calling, NodeRef, uri_of
from kgd.api.values import Ingested, Message
from kgd.errors import NotFound, Unavailable
from kgd.model.uri import scheme_of

if TYPE_CHECKING:
    from kgd.api.connections import Progress

WAIT_SECONDS = 20
PAGE_TOKENS = 10_000


_is_ordered = re.compile("/[0-9A-HJKMNP-TV-Z]{26}$").search
"""Whether a message's URI ends in an id of kgd's, which sorts by time."""


class SourceOperations(Calling):
    """Documents and conversations."""

    def ingest(
        self,
        source: str | os.PathLike[str] | None = None,
        *,
        text: str | None = None,
        kind: str = "auto",
        uri: str | None = None,
        dry_run: bool = False,
        wait: bool = True,
        progress: Progress | None = None,
    ) -> Ingested:
        """Ingest a file, a folder or a text; a repeat updates only changed parts (docs/ingest.md).

        With neither, the code tree is read again. It is served from disk and needs no ingest.

        Args:
            kind: Its kind if it is not detected; docs/ingest.md lists the kinds.
            uri: The URI of its node, or the URL of its source.
            dry_run: Report the changes and write nothing.
            wait: Whether to wait for a job. It continues without this program.
            progress: Called with (done, total or None, message).

        Raises:
            KgdError: It cannot be read, or its format is unknown.
            Unavailable: The job failed. The same call continues it.
        """
        answer = self._call(
            "ingest",
            progress,
            source=None if source is None else os.fspath(source),
            text=text,
            kind=kind,
            uri=uri,
            dry_run=dry_run,
        )
        job = answer.get("job")
        while wait and job and answer["state"] == "running":
            answer = {**self._call("job", progress, id=job, wait=WAIT_SECONDS), "job": job}
        if failure := answer.get("failure"):
            raise Unavailable(f"the ingest failed: {failure}", at=answer["source"], next="Try it again.")
        return reading.ingested(answer)

    def message_history(self, thread: NodeRef, *, limit: int | None = None) -> list[Message]:
        """The messages of a thread in order; with a limit the last ones.

        Raises:
            NotFound: The thread does not exist.
        """
        found = self._found([uri_of(thread)], content=False)
        if not found or scheme_of(found[0].uri) != "thread":
            raise NotFound("there is no such thread", at=uri_of(thread), next="nodes(types=['thread']) lists them.")
        name = found[0].uri.split("/", 3)[3]
        if limit is None:
            listed = self._listed(namespace=name, types=["message"], content=True)
            found_by = {node.uri: node for node in listed if node.namespace == name}
            uris = list(found_by)
            if not all(map(_is_ordered, uris)):
                uris = [
                    one["uri"]
                    for page in self._pages("get", uris=[found[0].uri], include=["messages"], budget=PAGE_TOKENS)
                    for node in page["nodes"]
                    for one in node.get("messages", ())
                ]
            return [reading.message(found_by[uri]) for uri in uris if uri in found_by]
        newest = list[str]()
        for page in self._pages("get", uris=[found[0].uri], include=["messages_back"], budget=PAGE_TOKENS):
            newest += [one["uri"] for node in page["nodes"] for one in node.get("messages", ())]
            if len(newest) >= limit:
                break
        return [reading.message(node) for node in self._found(newest[:limit][::-1], content=True)]
