"""Search of a workspace for duplicates, outdated facts, needless relations and old nodes to summarise.

All results are as of one commit, among nodes that the caller may read and propose changes to. Costs time linear in the
nodes examined, at most `MOST_LOOKED`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from kgd import compression
from kgd.compression import SUMMARY, Change, Group, Old, Pruned, Superseded, clusters
from kgd.graph.edges import Edge
from kgd.graph.succession import successor
from kgd.mentions.candidates import may_be_double, merged
from kgd.mentions.mentions import Mentions
from kgd.model.access import Verb, may
from kgd.model.change import Edit, Unrelate
from kgd.model.node import SUPERSEDES, Node
from kgd.model.uri import Uri, is_owned, scheme_of, workspace_of
from kgd.tools.session import Session
from kgd.tools.suggestions import suggestions
from kgd.workspace.proposals.records import bundle_id
from kgd.workspace.usage import Usage
from kgd.workspace.workspace import Workspace

DAY = 86_400
MOST_LOOKED = 20_000
"""Largest number of nodes that one call examines."""
MOST_BROKEN = 10_000
"""Largest number of broken links that one call examines."""
MOST_OLD = 2_000
"""Largest number of old nodes that one call reads to group them."""
MOST_GROUPS = 40
"""Largest number of groups of old nodes in one result."""
MOST_NEAR = 50
TOLD_EVERY = 500


@dataclass(slots=True)
class Found:
    """Possible changes, and groups of nodes to summarize. `cut`: whether a limit left nodes out."""

    changes: list[Change] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    cut: bool = False


class Looking:
    """One search, for one caller.

    Args:
        below: A path in the form of `namespace_of`; only nodes at or below it are changed. Empty for all nodes.
        old: Seconds without a change or a read after which a node is old, and after which a broken link is dropped.
    """

    def __init__(self, session: Session, workspace: Workspace, below: str, old: int) -> None:
        self._session, self._workspace, self._below = session, workspace, below.strip("/")
        self.base = bytes.fromhex(workspace.tip)
        self._tree = workspace.store.tree_of(self.base)
        self._before = workspace.now() - old
        self._sees = session.sight(workspace.id)
        self._policy = workspace.policy
        self._taken: set[Uri] = set()
        self._nodes: dict[Uri, Node | None] = {}
        self.found = Found()

    def look(self, kinds: Collection[str]) -> Found:
        """Find changes of these kinds, no two of which change the same node."""
        marks = list(self._stale())
        for stale in marks:
            self._taken |= {stale.old, stale.new}
        if "mark" in kinds:
            for stale in marks:
                self._propose(Change("mark", (stale.old,), stale.reason, compression.marking(stale), stale.new))
        groups = list(self._groups())
        for group in groups:
            self._taken.update(group.nodes)
        if "merge" in kinds:
            self.found.changes += [change for group in groups if (change := self._merge(group))]
        if "prune" in kinds:
            for change in self._prunings():
                self._propose(change)
        if "summary" in kinds:
            self.found.groups = list(islice(self._old_groups(), MOST_GROUPS))
        return self.found

    def id_of(self, change: Change) -> str:
        """Id of a change. The id is derived from the kind, the evidence, and the current content of the nodes."""
        return bundle_id(change.kind, change.evidence, *(f"{uri} {self._blob(uri)}" for uri in change.nodes))

    # ---- candidate nodes

    @cached_property
    def _uris(self) -> list[Uri]:
        """URIs of the nodes that may be changed, sorted."""
        graph = self._workspace.graph
        listed = sorted(uri for uri in graph.uris() if self._may(uri))
        self.found.cut = len(listed) > MOST_LOOKED
        return listed[:MOST_LOOKED]

    def _may(self, uri: Uri) -> bool:
        path = uri.split("/", 3)[3] if uri.count("/") > 2 else ""
        if self._below and path != self._below and not path.startswith(f"{self._below}/"):
            return False
        sees = self._sees is None or self._sees(uri)
        return sees and may(self._session.principal, self._policy, Verb.PROPOSE, uri)

    def _blob(self, uri: Uri) -> str:
        blob = self._workspace.store.entry(self._tree, self._workspace.path(uri))
        return blob.hex() if blob else ""

    def _is_whole(self, uri: Uri) -> bool:
        """Whether the node has a file of its own that is unchanged since the search began."""
        card = self._workspace.graph.card(uri)
        return card is not None and card.blob is not None and card.blob.hex() == self._blob(uri)

    def _node(self, uri: Uri) -> Node | None:
        if uri not in self._nodes:
            self._nodes[uri] = self._workspace.readable(uri) if self._is_whole(uri) else None
        return self._nodes[uri]

    def _out(self, uri: Uri) -> Sequence[Edge]:
        """The stored relations to targets that the caller may see; a hidden target must not be a reason for a
        change."""
        edges = self._workspace.graph.out(uri)
        return edges if self._sees is None else [edge for edge in edges if self._sees(edge.target)]

    def _updated(self, uri: Uri) -> int:
        version = self._workspace.node_version(uri)
        return version.updated_at if version else self._workspace.now()

    def _propose(self, change: Change) -> None:
        if all(self._node(uri) is not None for uri in change.nodes):
            self.found.changes.append(change)

    def _each(self, uris: Sequence[Uri], doing: str) -> Iterator[Uri]:
        for number, uri in enumerate(uris):
            if number % TOLD_EVERY == 0:
                self._session.progress(number, len(uris), doing)
            yield uri

    # ---- outdated facts

    def _stale(self) -> Iterator[Superseded]:
        seen: set[Uri] = set()
        told = (
            one
            for uri in self._each(self._uris, "looking for superseded facts")
            if any(edge.type.lower() == SUPERSEDES for edge in self._out(uri))
            for one in compression.by_relation(uri, self._out)
        )
        for one in (*told, *self._contradicting()):
            node = self._node(one.old) if one.old not in seen and self._may(one.old) else None
            if node is not None and not compression.is_marked(one.old, node.tags, self._out):
                seen.add(one.old)
                yield one

    def _contradicting(self) -> Iterator[Superseded]:
        for pair in self._same:
            how = compression.contradiction(pair, self._tags, self._out)
            found = compression.by_contradiction(pair, how, self._tags, self._updated) if how else None
            if found is not None and not compression.says(self._out(found.old), found.new, SUPERSEDES):
                yield found

    def _tags(self, uri: Uri) -> tuple[str, ...]:
        node = self._node(uri)
        return node.tags if node else ()

    # ---- duplicates

    @cached_property
    def _doubles(self) -> list[tuple[Uri, Uri, float, str]]:
        found = suggestions.double(self._workspace)
        allowed = (one for one in found if self._may(one.keep) and self._may(one.drop))
        return [(one.keep, one.drop, one.score, one.reason) for one in allowed]

    @cached_property
    def _same(self) -> list[tuple[Uri, Uri]]:
        """Pairs with equal names."""
        return [(keep, drop) for keep, drop, score, _ in self._doubles if score >= 1]

    def _groups(self) -> Iterator[compression.Duplicates]:
        pairs = (
            (keep, drop, reason)
            for keep, drop, _, reason in self._doubles
            if not {keep, drop} & self._taken
            and not compression.are_apart(keep, drop, self._out)
            and not compression.contradiction((keep, drop), self._tags, self._out)
            and not self._stands_back(keep)
            and not self._stands_back(drop)
            and not compression.are_unrelated(self._content(keep), self._content(drop))
        )
        yield from compression.groups(pairs)

    def _stands_back(self, uri: Uri) -> bool:
        node = self._node(uri)
        return node is None or compression.is_marked(uri, node.tags, self._out)

    def _content(self, uri: Uri) -> str:
        node = self._node(uri)
        return node.content if node else ""

    def _merge(self, group: compression.Duplicates) -> Change | None:
        nodes = [node for uri in group.nodes if (node := self._node(uri))]
        if len(nodes) != len(group.nodes):
            return None
        keep, drops = nodes[0], nodes[1:]
        versions = [self._workspace.version(self._workspace.path(node.uri), anew=True) for node in nodes]
        reasons = [f"{uri}: {reason}" for uri, reason in group.drops.items()]
        lost = sorted({key for node in drops for key, value in node.data.items() if _is_lost(keep, key, value)})
        if lost:
            reasons.append(f"of data.{', data.'.join(lost)} only the value of {keep.uri} is kept")
        return Change("merge", group.nodes, "; ".join(reasons), merged(keep, drops, versions))

    # ---- relations

    def _prunings(self) -> Iterator[Change]:
        by_source: dict[Uri, dict[tuple[str, Uri], str]] = {}
        for one in self._pruned():
            if self._may(one.source) and one.source not in self._taken and one.target not in self._taken:
                by_source.setdefault(one.source, {}).setdefault((one.type, one.target), one.reason)
        for source, said in sorted(by_source.items()):
            edits: list[Edit] = []
            reasons = []
            for (type, target), reason in sorted(said.items()):
                stored = self._stored(source, type, target)
                edits += [Unrelate(source, at, type) for at in stored]
                reasons += [f"{type} {at}: {reason}" for at in stored]
            if edits:
                self._taken.add(source)
                evidence = " ".join(f"{type} {target}" for type, target in sorted(said))
                yield Change("prune", (source,), "; ".join(reasons), tuple(edits), evidence)

    def _stored(self, source: Uri, type: str, target: Uri) -> list[Uri]:
        """Targets of the stored relation, as written in the file; empty if it is absent or has data."""
        node = self._node(source)
        found = node.relations if node else ()
        resolve = self._workspace.graph.resolve
        return [one.target for one in found if one.type == type and not one.data and resolve(one.target) == target]

    def _pruned(self) -> Iterator[Pruned]:
        derived = Mentions.of(self._workspace)
        derived.catch_up()

        def named(uri: Uri) -> Collection[Uri]:
            return set(derived.mentioned(uri))

        for uri in self._each(self._uris, "looking at relations"):
            yield from compression.redundant(uri, self._out)
            yield from compression.mentioned(uri, self._out, named)
        if self._session.principal is None:  # others must not learn what users of this machine read
            yield from compression.unwalked(Usage.of(self._workspace).tally())
        yield from self._broken()

    def _broken(self) -> Iterator[Pruned]:
        """Links that have been broken for too long: since the source's last write or the target's deletion, if that is
        later.
        """
        workspace = self._workspace
        for link in workspace.broken_links(MOST_BROKEN):
            if not self._may(link.source) or workspace_of(link.target) not in (None, workspace.id):
                continue  # a workspace that is unknown on this machine may exist for others
            gone = workspace.node_version(link.target) if _has_file(link.target) else None
            since = max(self._updated(link.source), gone.updated_at if gone else 0)
            if since < self._before:
                days = (workspace.now() - since) // DAY
                yield Pruned(
                    link.source, link.target, link.type, f"its target has been missing for at least {days} days"
                )

    # ---- old nodes

    def _old_groups(self) -> Iterator[Group]:
        meaning = self._workspace.meaning
        near = self._near if meaning.share else None
        for found in clusters(self._old(), near):
            ids = bundle_id(SUMMARY, *(f"{node.uri} {self._blob(node.uri)}" for node in found))
            yield Group(ids, found)

    def _near(self, node: Old, within: Sequence[Uri]) -> Iterable[tuple[Uri, float]]:
        """Similar nodes with their similarity: 0 for the farthest text of the workspace, 1 for an equal text. The scale
        is relative because models differ in the cosine of two unrelated texts.
        """
        meaning, text = self._workspace.meaning, node.text[:2_000]
        floor = meaning.nearest(text, 1).floor
        if floor >= 1:
            return []
        hits = meaning.nearest(text, MOST_NEAR, within=within).hits
        return [(uri, (cosine - floor) / (1 - floor)) for uri, cosine in hits]

    def _old(self) -> Iterator[Old]:
        recent = Usage.of(self._workspace).read_since(self._before) if self._session.principal is None else set()
        found = 0
        for uri in self._each(self._uris, "looking for old nodes"):
            card = self._workspace.graph.card(uri)
            if card is None or uri in recent or uri in self._taken or not _may_be_summed_up(uri, card.type):
                continue
            updated = self._updated(uri)
            if updated >= self._before or successor(self._workspace.graph, uri, self._sees):
                continue
            node = self._node(uri)
            text = _text(node) if node else ""
            if node is not None and text and not compression.is_marked(uri, node.tags, self._out):
                yield Old(uri, node.type, node.tags, text, updated)
                found += 1
            if found >= MOST_OLD:
                return


def _is_lost(keep: Node, key: str, value: object) -> bool:
    return key in keep.data and keep.data[key] != value and not isinstance(value, list)


def _has_file(uri: Uri) -> bool:
    """Whether nodes of this kind are stored as files, so that the history may contain the node's deletion."""
    return is_owned(uri) and scheme_of(uri) not in ("chunk", "message", "file", "dir", "symbol")


def _may_be_summed_up(uri: Uri, type: str) -> bool:
    return may_be_double(uri, type) and type not in (SUMMARY, "resource")


def _text(node: Node) -> str:
    """The text of a node; empty if it has only a name."""
    said = [part.strip() for part in (node.summary, node.content) if part.strip()]
    said += [f"- {one}" for one in node.data.get("observations") or () if isinstance(one, str)]
    return "\n".join([node.title, *said]) if said else ""
