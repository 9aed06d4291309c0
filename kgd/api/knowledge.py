"""Queries (by words, meaning, edges, tags, or for a task), history, and ingest of documents and conversations."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Literal

from kgd.api import values
from kgd.api.calling import Calling, NodeRef, Progress, texts, uri_of
from kgd.api.values import (
    ChunkResult,
    Commit,
    Context,
    Cut,
    Edge,
    GraphResult,
    Ingested,
    Message,
    Node,
    Reached,
    Step,
    Walk,
)
from kgd.errors import NotFound, Unavailable
from kgd.model.uri import scheme_of

PAGE_TOKENS = 10_000
PAGE_NODES = 500
MOST_NEAR = 10_000
FOR_CONTEXT = 30
"""Largest number of hits that `get_context` packs into a text."""


class KnowledgeOperations(Calling):
    """Retrieval, with method names from the unified graph and the tagged memory."""

    def retrieve(
        self,
        query: str,
        *,
        namespace: str = "",
        node_types: Sequence[str] = (),
        edge_types: Sequence[str] = (),
        max_depth: int = 1,
        limit: int = 10,
        min_similarity: float = 0.0,
        content: bool = False,
        since: str | None = None,
        until: str | None = None,
    ) -> GraphResult:
        """The nodes that answer a question, with their edges, and for each node the path by which it was found.

        Words and meaning find seeds; edges add related nodes.

        Args:
            node_types: Types of the hits; all if empty.
            edge_types: Types of the edges to follow.
            max_depth: Largest number of edges between a seed and a hit; 0 for seeds only.
            min_similarity: Smallest cosine of the vectors, 0..1.
            content: Whether to read full texts.
            since: Start of the period of the hits, as a date or time such as ``2026-05`` or ``last week``; `until` is
                its end.

        Raises:
            Invalid: The question is empty, or `since` or `until` is not a date.
            Unavailable: `min_similarity` was given, but there are no vectors (yet).
        """
        return values.result(
            self._call(
                "retrieve",
                query=query,
                namespace=namespace,
                types=texts(node_types),
                edge_types=texts(edge_types),
                max_depth=max_depth,
                limit=limit,
                min_similarity=min_similarity,
                content=content,
                since=since,
                until=until,
            )
        )

    def search_chunks(
        self, query: str, *, limit: int = 10, namespace: str = "", min_similarity: float = 0.0
    ) -> list[ChunkResult]:
        """The chunks of documents that answer a question, with their text, best first."""
        found = self.retrieve(
            query, namespace=namespace, node_types=["chunk"], limit=limit, min_similarity=min_similarity, content=True
        )
        return [values.chunk(node, path) for node, path in zip(found.nodes, found.paths, strict=True)]

    def find_related(self, node: NodeRef, depth: int = 1, *, edge_types: Sequence[str] = ()) -> list[Node]:
        """The nodes at most `depth` edges away in either direction, the nearest first; without full texts.

        At most 10,000 nodes; `traverse` returns more about each node.
        """
        return self._near(node, depth, "both", edge_types)

    def get_context(self, namespace: str, query: str, *, max_characters: int = 8_000) -> str:
        """The texts of a namespace that answer a question, joined into one. The best texts come first, each under its
        name and URI, and in full as long as there is room. Empty if nothing is found.
        """
        found = self.retrieve(query, namespace=namespace, limit=FOR_CONTEXT, content=True)
        parts, left = list[str](), max_characters
        for node in found.nodes:
            part = f"# {node.name} ({node.uri})\n\n{node.content or node.summary}".strip() + "\n"
            if len(part) + 1 > left:
                if not parts:
                    parts.append(part[:left])
                break
            parts.append(part)
            left -= len(part) + 1
        return "\n".join(parts)

    def get_connected(self, node: NodeRef, depth: int = 1) -> list[Node]:
        """The nodes reached over at most `depth` outgoing edges, without the node itself and without full texts."""
        return self._near(node, depth, "out", ())

    def query_by_tags(
        self, tags: Sequence[str], limit: int = 10, *, types: Sequence[str] = (), namespace: str = ""
    ) -> list[Node]:
        """The nodes with any of the tags, most matching tags first, then newest; without full texts."""
        answer = self._call(
            "retrieve", tags=texts(tags), types=texts(types), namespace=namespace, limit=limit, max_depth=0
        )
        return [values.node(one) for one in answer["nodes"]]

    def gather_context(
        self,
        task: str = "",
        *,
        question: str = "",
        paths: Sequence[str] = (),
        budget: int = 4_000,
        since: str | None = None,
        until: str | None = None,
    ) -> Context:
        """Summaries of the knowledge to read before a task: decisions, patterns, gotchas and similar tasks.

        Args:
            task: The URI of a task, or its subject in words.
            paths: Files and directories to change.
            budget: Approximate size in tokens; a token is taken to be four bytes.
            since: Start of the period of the items, as a date or time such as ``2026-05`` or ``last week``; `until` is
                its end.
        """
        return values.context(
            self._call(
                "context", task=task, question=question, paths=texts(paths), budget=budget, since=since, until=until
            )
        )

    def traverse(
        self,
        start: NodeRef | Sequence[NodeRef],
        *,
        max_cost: float | None = 1.0,
        max_depth: int | None = None,
        edge_types: Sequence[str] = (),
        types: Sequence[str] = (),
        direction: Literal["out", "in", "both"] = "out",
        limit: int = 1_000,
    ) -> Walk:
        """The nodes whose cheapest path costs at most `max_cost`, cheapest first, including the start.

        The walk continues in other registered workspaces.

        Args:
            max_cost: None for no limit.
            limit: Largest number of nodes; `Walk.cut` reports omissions.

        Raises:
            NotFound: No start exists.
        """
        starts = [start] if isinstance(start, str | Node) else list(start)
        nodes, edges, broken = list[Reached](), dict[tuple[str, str, str], Edge](), dict[tuple[str, str, str], Edge]()
        paths, cut, cursor = dict[str, tuple[Step, ...]](), tuple[Cut, ...](), None
        while True:
            page = self._call(
                "traverse",
                max_cost=max_cost,
                start=[uri_of(one) for one in starts],
                max_depth=max_depth,
                edge_types=texts(edge_types),
                types=texts(types),
                direction=direction,
                budget=PAGE_TOKENS,
                include="edges",
                max_nodes=max(1, min(PAGE_NODES, limit - len(nodes))),
                cursor=cursor,
            )
            nodes += values.walked(page["nodes"], paths)
            edges |= {(one["source"], one["target"], one["type"]): values.value_of(Edge, one) for one in page["edges"]}
            for one in page["broken_links"]:
                broken[one["source"], one["target"], one["type"]] = values.value_of(
                    Edge, {"weight": 1.0, **one, "broken": True}
                )
            cursor = page.get("cursor")
            if cursor is None or len(nodes) >= limit:
                cut = tuple(values.value_of(Cut, one) for one in page["cut"] if cursor or one["limit"] != "budget")
                return Walk(tuple(nodes), tuple(edges.values()), cut, tuple(broken.values()))

    def path(
        self,
        start: NodeRef,
        to: NodeRef,
        *,
        max_cost: float | None = None,
        max_depth: int | None = None,
        edge_types: Sequence[str] = (),
        direction: Literal["out", "in", "both"] = "both",
    ) -> tuple[Reached, ...]:
        """The nodes of the cheapest path from `start` to `to`, both included; empty if no path is within the limits.

        Raises:
            NotFound: `start` or `to` does not exist.
        """
        answer = self._call(
            "traverse",
            start=[uri_of(start)],
            to=uri_of(to),
            max_cost=max_cost,
            max_depth=max_depth,
            edge_types=texts(edge_types),
            direction=direction,
            budget=PAGE_TOKENS,
        )
        return () if "unreached" in answer else tuple(values.walked(answer["nodes"], {}))

    def history(
        self,
        node: NodeRef | None = None,
        *,
        limit: int = 20,
        since: str | None = None,
        until: str | None = None,
        author: str | None = None,
        diff: bool = False,
    ) -> list[Commit]:
        """The commits of the workspace, or of one node, newest first.

        Args:
            since: Start of the period, as a date or time such as ``2026-05`` or ``last week``; `until` is its end.
            diff: Whether to include the changes, field by field.
        """
        found, cursor = list[Commit](), None
        while len(found) < limit:
            page = self._call(
                "history",
                uri=None if node is None else uri_of(node),
                since=since,
                until=until,
                author=author,
                diff=diff,
                limit=min(200, limit - len(found)),
                cursor=cursor,
            )
            found += (values.value_of(Commit, one) for one in page["commits"])
            cursor = page.get("cursor")
            if cursor is None:
                break
        return found

    def _near(
        self, node: NodeRef, depth: int, direction: Literal["out", "both"], edge_types: Sequence[str]
    ) -> list[Node]:
        walk = self.traverse(
            node, max_cost=None, max_depth=depth, direction=direction, edge_types=edge_types, limit=MOST_NEAR
        )
        near = [one for one in walk.nodes if one.path]
        known = {one.uri: one for one in self._found([one.uri for one in near], content=False)}
        # Nodes on a hub are not read again: the walk described them.
        return [known.get(one.uri) or Node(one.uri, one.type, one.name, one.summary, trust="remote") for one in near]


WAIT_SECONDS = 20


_is_ordered = re.compile("/[0-9A-HJKMNP-TV-Z]{26}$").search
"""Whether a message's URI ends in an id made by kgd, which sorts by time."""


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

        Without a source or text, the code tree is read again; it is served from disk, and need not be ingested.

        Args:
            kind: The kind of the source, if kgd cannot detect it; docs/ingest.md lists the kinds.
            uri: The URI of the node to create, or the URL of the source.
            dry_run: Report the changes and write nothing.
            wait: Whether to wait for a job, which continues even if this program ends.
            progress: Called with (done, total or None, message).

        Raises:
            KgdError: The source cannot be read, or its format is unknown.
            Unavailable: The job failed. Repeat the call to continue the job.
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
        return values.ingested(answer)

    def message_history(self, thread: NodeRef, *, limit: int | None = None) -> list[Message]:
        """The messages of a thread in order; with a limit, only the last ones.

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
            return [values.message(found_by[uri]) for uri in uris if uri in found_by]
        newest = list[str]()
        for page in self._pages("get", uris=[found[0].uri], include=["messages_back"], budget=PAGE_TOKENS):
            newest += [one["uri"] for node in page["nodes"] for one in node.get("messages", ())]
            if len(newest) >= limit:
                break
        return [values.message(node) for node in self._found(newest[:limit][::-1], content=True)]
