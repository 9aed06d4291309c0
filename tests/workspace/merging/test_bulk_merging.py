"""Threads and documents that grew on two sides merge by node: nothing is lost, and every part stays a file."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from kgd.codec import bulk, documents, paths
from kgd.codec.settings import Settings, encode_settings
from kgd.git.objects import ObjectId, Signature
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.model.node import NODE_BYTES, Node
from kgd.model.uri import Uri
from kgd.workspace import parts
from kgd.workspace.merging import parts as merge_parts
from kgd.workspace.parts import Folder, NodeFiles
from kgd.workspace.publishing.adoption import merge_commit
from tests.builders import new_layout

NONE: frozenset[str] = frozenset()
SETTINGS = {"kgd.yaml": encode_settings(Settings("ws"))}
Nodes = Mapping[Uri, Node | None]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    return new_layout(tmp_path_factory.mktemp("merge")).open()


class Line:
    """Commits as kgd makes them for changes of nodes."""

    def __init__(self, store: ObjectStore) -> None:
        self.store, self.time = store, 1_700_000_000

    def commit(
        self, nodes: Nodes, parent: ObjectId | None = None, files: Mapping[str, bytes | None] | None = None
    ) -> ObjectId:
        staging = Staging(self.store, self.store.tree_of(parent) if parent else None)
        folders: dict[str, dict[Uri, bytes | None]] = {}
        for uri, node in nodes.items():
            folders.setdefault(paths.part_folder_of(uri) or "", {})[uri] = documents.encode(node) if node else None
        made: dict[str, bytes | None] = {**({} if parent else SETTINGS), **(files or {})}
        for path, inside in folders.items():
            folder = Folder(path, staging, lambda uri: None)
            folder.fill(inside)
            made |= folder.files()
        for path, data in made.items():
            staging.put(path, data) if data is not None else staging.remove(path)
        return self._written(staging, staging.commit(staging.write_tree(), [parent] if parent else [], self._by(), "x"))

    def merge(self, ours: ObjectId, theirs: ObjectId) -> ObjectId:
        """The one commit that both sides make."""
        one, two = (self._merged(a, b) for a, b in ((ours, theirs), (theirs, ours)))
        assert one == two
        return one

    def nodes(self, commit: ObjectId) -> dict[Uri, Node]:
        """The nodes in parts; every part is readable, and no node is in two."""
        found: dict[Uri, Node] = {}
        for file in self.store.files(self.store.tree_of(commit)):
            if paths.is_part_path(file.path):
                data = self.store.read(file.id)
                assert len(data) <= NODE_BYTES
                nodes = {node.uri: node for node in bulk.decode(data, at=file.path).nodes}
                assert nodes
                assert not nodes.keys() & found.keys()
                found |= nodes
        return found

    def conflicts(self, commit: ObjectId) -> list[str]:
        return [
            f.path for f in self.store.files(self.store.tree_of(commit)) if f.path.startswith(("conflicts/", "kept/"))
        ]

    def files(self, commit: ObjectId) -> dict[str, bytes]:
        return {f.path: self.store.read(f.id) for f in self.store.files(self.store.tree_of(commit))}

    def _merged(self, ours: ObjectId, theirs: ObjectId) -> ObjectId:
        staging = Staging(self.store, self.store.tree_of(ours))
        return self._written(staging, merge_commit(self.store, staging, ours, theirs, NONE))

    def _written(self, staging: Staging, commit: ObjectId) -> ObjectId:
        self.store.release(self.store.write(staging.objects))
        return commit

    def _by(self) -> Signature:
        self.time += 1
        return Signature("Ann", "ann@example.org", self.time)


@pytest.fixture
def line(store: ObjectStore) -> Line:
    return Line(store)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that a few nodes fill."""
    monkeypatch.setattr(parts, "OPEN_BYTES", 900)
    monkeypatch.setattr(parts, "WRITTEN", parts.Capacity(2_000, 400))
    monkeypatch.setattr(merge_parts, "READABLE", parts.Capacity(4_000, 800))


def message(number: int, **fields: str) -> Node:
    return Node(Uri(f"message://ws/talk/{number:04d}"), **fields)  # type: ignore[arg-type]


def by_uri(*nodes: Node) -> dict[Uri, Node]:
    return {node.uri: node for node in nodes}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 12))])
def test_changes_of_different_nodes_and_fields_all_survive_a_merge_by_either_side(line: Line, seed: int) -> None:
    rnd = random.Random(seed)
    model = by_uri(*(message(n, content="x" * rnd.choice((10, 300))) for n in range(rnd.choice((0, 3, 30)))))
    base = line.commit(model)
    expected: dict[Uri, Node] = dict(model)
    touched = sorted(model)
    rnd.shuffle(touched)
    tips = []
    for side in range(3):
        tip = base
        for _ in range(rnd.randrange(1, 4)):
            changed: dict[Uri, Node | None] = {}
            for _ in range(rnd.choice((1, 8))):
                new = message(rnd.randrange(100, 5000) * 3 + side, content="y" * rnd.choice((1, 200, 700)))
                changed[new.uri] = new
            for uri in [touched.pop() for _ in range(min(len(touched), rnd.randrange(3)))]:
                changed[uri] = (
                    None if rnd.random() < 0.4 else message(int(uri[-4:]), content="edited " * rnd.choice((1, 200)))
                )
            tip = line.commit(changed, tip)
            for uri, node in changed.items():
                expected.pop(uri, None)
                expected |= {uri: node} if node else {}
        tips.append(tip)
    one, two, three = tips
    left = line.merge(line.merge(one, two), three)
    right = line.merge(one, line.merge(two, three))
    for merged in (left, right, line.merge(left, right)):
        assert line.nodes(merged) == expected
        assert line.conflicts(merged) == []


def test_different_fields_of_one_message_merge_and_the_same_field_conflicts(
    line: Line,
) -> None:
    base = line.commit(by_uri(message(1, name="a", summary="s"), message(2)))
    one = line.commit(by_uri(message(1, name="b", summary="s")), base)
    two = line.commit(by_uri(message(1, name="a", summary="t")), base)
    merged = line.merge(one, two)
    assert line.nodes(merged)[message(1).uri] == message(1, name="b", summary="t")
    clash = line.merge(one, line.commit(by_uri(message(1, name="c", summary="s")), base))
    assert [path.rpartition("/")[0] for path in line.conflicts(clash)] == ["conflicts/message/talk/0001"]
    gone = line.merge(one, line.commit({message(1).uri: None}, base))
    assert line.nodes(gone)[message(1).uri].name == "b", "an edit beats a deletion"


@pytest.mark.slow
def test_parts_filled_on_two_sides_merge_into_one_readable_file_that_the_next_write_splits(line: Line) -> None:
    base = line.commit(by_uri(message(0)))
    sides = [
        line.commit(by_uri(*(message(n, content="x" * 1000) for n in range(s, s + 90))), base) for s in (100, 200, 300)
    ]
    merged = line.merge(sides[0], sides[1])
    (whole,) = [data for path, data in line.files(merged).items() if path.startswith("bulk/")]
    assert bulk.PART_BYTES < len(whole) < NODE_BYTES
    written = line.commit(by_uri(message(100, content="shorter\n")), merged)
    parts = [data for path, data in line.files(written).items() if path.startswith("bulk/")]
    assert len(parts) == 2
    assert all(len(data) < bulk.PART_BYTES for data in parts)
    three = line.merge(merged, sides[2])
    assert len(line.nodes(three)) == 271, "more than a file may hold was parted by the merge"


@pytest.mark.usefixtures("small")
def test_a_message_edited_on_one_side_and_moved_on_the_other_is_edited_in_its_new_part(line: Line) -> None:
    base = line.commit(by_uri(*(message(n, content="x" * 250) for n in range(6))))
    grown = line.commit(by_uri(message(0, content="y" * 1500)), base)
    assert len(line.files(grown)) > len(line.files(base))
    edited = line.commit(by_uri(message(5, content="x" * 250, summary="edited there")), base)
    found = line.nodes(line.merge(grown, edited))
    assert found[message(5).uri].summary == "edited there"
    assert found[message(0).uri].content == "y" * 1500
    assert len(found) == 6


def test_a_node_with_its_own_file_here_and_in_a_part_there_is_one_node(line: Line) -> None:
    old = message(1, name="a", summary="s")
    own = paths.path_of(old.uri)
    base = line.commit({}, files={own: documents.encode(old)})
    new = line.commit(by_uri(message(1, name="b", summary="s")), base, {own: None})
    edited = line.commit({}, base, {own: documents.encode(message(1, name="a", summary="t"))})
    merged = line.merge(new, edited)
    assert line.nodes(merged) == by_uri(message(1, name="b", summary="t"))
    assert own not in line.files(merged)
    far = line.commit({}, base, {paths.path_of(message(2).uri): documents.encode(message(2))})
    assert set(line.files(line.merge(far, edited))) == {"kgd.yaml", own, paths.path_of(message(2).uri)}


def test_a_part_edited_by_hand_keeps_its_bytes_if_the_other_side_did_not_change_it(line: Line) -> None:
    base = line.commit(by_uri(message(1)))
    (path,) = [path for path in line.files(base) if path.startswith("bulk/")]
    by_hand = line.files(base)[path] + b"  name: 'by hand' # a word\n"
    one = line.commit({}, base, {path: by_hand})
    two = line.commit({Uri("message://ws/other/1"): Node(Uri("message://ws/other/1"))}, base)
    assert line.files(line.merge(one, two))[path] == by_hand
    both = line.merge(one, line.commit(by_uri(message(2)), base))
    assert line.nodes(both) == by_uri(message(1, name="by hand"), message(2))


def test_a_part_broken_on_one_side_loses_nothing_of_the_other(line: Line) -> None:
    base = line.commit(by_uri(message(1)))
    (path,) = [path for path in line.files(base) if path.startswith("bulk/")]
    broken = line.commit({}, base, {path: b"nodes: [\n"})
    files = line.files(line.merge(broken, line.commit(by_uri(message(2)), base)))
    kept = [data for at, data in files.items() if at == path or at.startswith("kept/")]
    assert b"nodes: [\n" in kept
    assert any(b"0002" in data for data in kept)


def test_the_view_lists_changes_of_nodes_and_none_of_parts(line: Line) -> None:
    base = line.commit(by_uri(message(1), message(2)))
    tip = line.commit({message(1).uri: None, **by_uri(message(2, name="b"), message(3))}, base)
    view = NodeFiles(line.store, NONE)
    changed = {path: (old, new) for path, old, new in view.diff(line.store.tree_of(base), line.store.tree_of(tip))}
    assert set(changed) == {paths.path_of(message(n).uri) for n in (1, 2, 3)}
    for n, (was, now) in {1: (message(1), None), 2: (message(2), message(2, name="b")), 3: (None, message(3))}.items():
        path = paths.path_of(message(n).uri)
        read = [documents.decode(view.read(blob)) if blob else None for blob in changed[path]]
        assert read == [was, now]
        assert view.entry(line.store.tree_of(tip), path) == changed[path][1]


def test_chunks_remade_on_one_side_keep_the_edits_of_the_other(line: Line) -> None:
    def chunk(number: int, text: str, *tags: str) -> Node:
        return Node(Uri(f"chunk://ws/book/{number:04d}"), content=text, tags=tags)

    def part(source: str, *nodes: Node) -> dict[str, bytes | None]:
        return {f"{folder}/0001.yaml": bulk.encode(bulk.Part(nodes, source))}

    folder = paths.part_folder_of(chunk(1, "").uri) or ""
    base = line.commit({}, files=part("old", chunk(1, "one\n"), chunk(2, "two\n")))
    tagged = line.commit({}, base, part("old", chunk(1, "one\n", "kept"), chunk(2, "two\n")))
    anew = line.commit({}, base, part("new", chunk(1, "ONE\n"), chunk(3, "three\n")))
    merged = line.merge(tagged, anew)
    assert {f"{folder}/0001.yaml": line.files(merged)[f"{folder}/0001.yaml"]} == part(
        "new", chunk(1, "ONE\n", "kept"), chunk(3, "three\n")
    )
    other = line.commit({}, base, part("other", chunk(1, "1\n"), chunk(2, "2\n")))
    assert line.nodes(line.merge(anew, other)) == by_uri(chunk(1, "1\n"), chunk(2, "2\n"))
    assert line.conflicts(line.merge(anew, other)) == []
