"""Merges in real repositories: every replica makes the same commit, and no edit, name or decision is lost."""

from __future__ import annotations

import random

import pytest

from kgd.codec import bulk, documents, front_matter, paths
from kgd.codec.settings import Settings, decode_settings, encode_settings
from kgd.errors import Invalid, Unavailable
from kgd.git.objects import FILE, ObjectId, Signature, make, trailers, tree_body
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.model.change import Settle
from kgd.model.conflict import PLACE, TWIN, WHOLE, Conflict, conflict_of, disagreement
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.merging.files import record_files
from kgd.workspace.merging.histories import merge_commits, merged_tree
from kgd.workspace.merging.trees import merge_trees
from kgd.workspace.publishing import adoption
from kgd.workspace.publishing.adoption import merge_commit
from kgd.workspace.workspace import Workspace
from tests.builders import change, new_layout, upsert, uri

NONE: frozenset[str] = frozenset()
Files = dict[str, bytes]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    return new_layout(tmp_path_factory.mktemp("merge")).open()


class Histories:
    """Commits of whole trees, one line each."""

    def __init__(self, store: ObjectStore) -> None:
        self.store, self.time = store, 1_700_000_000

    def commit(self, files: Files, *parents: ObjectId) -> ObjectId:
        staging = Staging(self.store, None)
        for path, data in {"kgd.yaml": encode_settings(Settings("ws")), **files}.items():
            staging.put(path, data)
        self.time += 1
        made = staging.commit(staging.write_tree(), parents, Signature("Ann", "ann@example.org", self.time), "x")
        self.store.release(self.store.write(staging.objects))
        return made

    def merge(self, ours: ObjectId, theirs: ObjectId) -> ObjectId:
        staging = Staging(self.store, self.store.tree_of(ours))
        made = merge_commit(self.store, staging, ours, theirs, NONE)
        self.store.release(self.store.write(staging.objects))
        return made

    def files(self, commit: ObjectId) -> Files:
        return {f.path: self.store.read(f.id) for f in self.store.files(self.store.tree_of(commit))}

    def nodes(self, commit: ObjectId) -> dict[Uri, Node]:
        found = (documents.decode(data) for path, data in self.files(commit).items() if path.startswith("nodes/"))
        return {node.uri: node for node in found}

    def conflicts(self, commit: ObjectId) -> list[Conflict]:
        files = self.files(commit).items()
        return [documents.decode_conflict(data) for path, data in files if path.startswith("conflicts/")]


@pytest.fixture
def past(store: ObjectStore) -> Histories:
    return Histories(store)


def node(where: str = "a", /, **fields: object) -> Files:
    made = Node(uri(where), **fields)  # type: ignore[arg-type]
    return {paths.path_of(made.uri): documents.encode(made)}


def test_two_daemons_that_merge_one_pair_make_the_same_commit(past: Histories) -> None:
    base = past.commit(node(name="a") | node("b"))
    one, two = past.commit(node(summary="x") | node("b"), base), past.commit(node() | node("b", name="y"), base)
    made = past.merge(one, two)
    assert made == past.merge(two, one)
    commit = past.store.commit(made)
    assert commit.parents == tuple(sorted((one, two)))
    assert commit.author == commit.committer
    assert commit.committer.time == max(past.store.commit(side).committer.time for side in (one, two))
    assert dict(trailers(commit.message)) == {"Kgd-Op": "merge", "Kgd-Rules": "1"}


def test_the_tree_of_a_merge_can_be_read_before_it_is_written(past: Histories) -> None:
    base = past.commit(node())
    one, two = past.commit(node(summary="never written"), base), past.commit(node(tags=("t",)), base)
    tree = merged_tree(past.store, [two, one], NONE)
    assert not past.store.exists(tree.id)
    blob = tree.store.entry(tree.id, "nodes/concept/a.yaml")
    assert documents.decode(tree.store.read(blob or b"")) == Node(uri("a"), summary="never written", tags=("t",))
    assert tree.id == past.store.tree_of(past.merge(one, two))
    with pytest.raises(Invalid):
        merged_tree(past.store, [one], NONE)


def test_unknown_merge_rules_are_not_guessed(past: Histories) -> None:
    base = past.commit({})
    newer = encode_settings(Settings("ws", merge_rules=2))
    one, two = past.commit({"kgd.yaml": newer, **node()}, base), past.commit({"kgd.yaml": newer, **node("b")}, base)
    with pytest.raises(Unavailable, match="version 2 of the merge rules"):
        merge_commits(past.store, one, two, NONE)
    older = past.commit(node("c"), base)
    assert set(past.nodes(past.merge(one, older))) == {uri("a"), uri("c")}


def test_a_node_moved_here_and_edited_there_is_one_node_at_the_new_place(past: Histories) -> None:
    base = past.commit(node(name="A", summary="s"))
    moved = past.commit(node("b", name="A!", summary="s", aliases=(uri("a"),)), base)
    edited = past.commit(node(name="A", summary="t"), base)
    merged = past.merge(moved, edited)
    assert past.nodes(merged) == {uri("b"): Node(uri("b"), name="A!", summary="t", aliases=(uri("a"),))}
    assert past.conflicts(merged) == []


def test_two_moves_of_one_node_are_one_node_and_a_conflict_about_its_name(past: Histories) -> None:
    base = past.commit(node(name="A"))
    one = past.commit(node("b", name="A", tags=("x",), aliases=(uri("a"),)), base)
    two = past.commit(node("c", name="A", tags=("y",), aliases=(uri("a"),)), base)
    merged = past.merge(one, two)
    assert past.nodes(merged) == {uri("c"): Node(uri("c"), name="A", tags=("x", "y"), aliases=(uri("a"), uri("b")))}
    (conflict,) = past.conflicts(merged)
    assert conflict.fields[PLACE].sides == (uri("b"), uri("c"))


def test_a_node_moved_to_a_name_that_the_other_side_freed_keeps_both_edits(past: Histories) -> None:
    base = past.commit(node(content="old\n"))
    moved = past.commit(node("b", content="old\nmoved\n", aliases=(uri("a"),)), base)
    taken = past.commit(node(content="edited\nold\n") | node("b", content="another\n"), base)
    merged = past.merge(moved, taken)
    assert set(past.nodes(merged)) == {uri("b")}
    said = str(past.files(merged).values())
    assert all(word in said for word in ("moved", "edited", "another"))


def test_a_move_against_a_deletion_keeps_the_node_and_records_the_deletion(past: Histories) -> None:
    base = past.commit(node(name="A") | node("z"))
    moved, deleted = (
        past.commit(node("b", name="A", aliases=(uri("a"),)) | node("z"), base),
        past.commit(node("z"), base),
    )
    merged = past.merge(moved, deleted)
    assert uri("b") in past.nodes(merged)
    (conflict,) = past.conflicts(merged)
    assert conflict.uri == uri("b")
    assert None in conflict.fields[WHOLE].sides


def test_a_deletion_made_without_seeing_a_conflict_is_a_further_conflict(past: Histories) -> None:
    base = past.commit(node(name="B") | node("z"))
    disputed = conflict_of(uri("a"), {"name": disagreement(None, ("A", "B"))})
    shown = past.commit(node(name="B") | node("z") | record_files([disputed], NONE), base)
    kept = past.merge(shown, past.commit(node("z"), base))
    assert past.nodes(kept)[uri("a")].name == "B"
    assert {name for c in past.conflicts(kept) for name in c.fields} == {"name", WHOLE}


def opened(past: Histories) -> tuple[ObjectId, Conflict]:
    base = past.commit(node(name="A") | node("z"))
    merged = past.merge(past.commit(node(name="B") | node("z"), base), past.commit(node(name="C") | node("z"), base))
    (conflict,) = past.conflicts(merged)
    return merged, conflict


def test_two_different_decisions_conflict_even_if_one_kept_the_served_value(past: Histories) -> None:
    merged, first = opened(past)
    shown, other = past.nodes(merged)[uri("a")].name, "B"
    assert shown == "C"
    kept, changed = past.commit(node(name=shown) | node("z"), merged), past.commit(node(name=other) | node("z"), merged)
    again = past.merge(kept, changed)
    (conflict,) = past.conflicts(again)
    assert conflict.fields["name"].sides == ("B", "C")
    assert conflict.id != first.id
    late = past.commit(node(name="B", tags=("late",)) | node("z"), merged)
    assert [c.id for c in past.conflicts(past.merge(again, late))] == [conflict.id]


def test_a_settled_conflict_stays_settled_in_criss_cross_merges(past: Histories) -> None:
    base = past.commit(node(name="A") | node("z"))
    x, y = past.commit(node(name="B") | node("z"), base), past.commit(node(name="C") | node("z"), base)
    settled = past.commit(node(name="B") | node("z"), past.merge(x, y))
    elsewhere = past.merge(past.commit(node(name="C") | node("z", name="Z"), y), x)
    assert past.conflicts(elsewhere)
    merged = past.merge(settled, elsewhere)
    assert past.conflicts(merged) == []
    assert past.nodes(merged)[uri("a")].name == "B"
    assert past.nodes(merged)[uri("z")].name == "Z"


def test_names_that_differ_by_case_alone_are_both_kept_and_reported(past: Histories) -> None:
    base = past.commit({})
    merged = past.merge(past.commit(node("Auth/x"), base), past.commit(node("auth/X"), base))
    assert set(past.nodes(merged)) == {uri("Auth/x"), uri("auth/X")}
    (conflict,) = past.conflicts(merged)
    assert conflict.fields[TWIN].sides == (uri("Auth/x"), uri("auth/X"))


def test_names_that_collide_on_one_side_are_reported_unless_that_was_settled(past: Histories) -> None:
    base = past.commit({})
    both = past.commit(node("x") | node("X"), base)
    other = past.commit(node("y"), base)
    (conflict,) = past.conflicts(past.merge(both, other))
    reported = past.commit(node("x") | node("X") | record_files([conflict], NONE), both)
    accepted = past.commit(node("x") | node("X"), reported)
    assert past.conflicts(past.merge(accepted, other)) == []


def test_a_replica_without_changes_reports_colliding_names_alike(past: Histories) -> None:
    base = past.commit(node("a"))
    nothing, twin = past.commit(node("a"), base), past.commit(node("a") | node("A"), base)
    merged = past.merge(nothing, twin)
    assert merged == past.merge(twin, nothing)
    (conflict,) = past.conflicts(merged)
    assert conflict.fields[TWIN].sides == (uri("A"), uri("a"))


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(n, marks=pytest.mark.slow) for n in range(12, 36))])
def test_a_merge_is_the_same_commit_from_either_side(past: Histories, seed: int) -> None:
    """Also if a side returned to the base, and in criss-cross histories."""
    rnd = random.Random(seed)
    names = ["a", "A", "b/x", "B/x"]

    def drawn(files: Files) -> Files:
        left = dict(files)
        for name in rnd.sample(names, rnd.randrange(3)):
            (path,) = node(name)
            if not left.pop(path, None) or rnd.random() < 0.6:
                left |= node(name, name=rnd.choice("PQ"))
        return left

    first = drawn(node("a"))
    base = past.commit(first)
    tips = [past.commit(rnd.choice([first, drawn(first)]), base) for _ in range(2)]
    for _ in range(3):
        merged = past.merge(*tips)
        assert merged == past.merge(*reversed(tips)), seed
        before = [past.files(tip) for tip in tips]
        tips = [past.commit(drawn(files), tip) for tip, files in zip(tips, before, strict=True)]
        held = past.files(merged)
        tips[rnd.randrange(2)] = past.commit(rnd.choice([held, drawn(held)]), merged)


def test_settings_merge_by_key_and_a_clash_is_recorded_under_their_own_uri(past: Histories) -> None:
    def settings(**others: object) -> Files:
        return {"kgd.yaml": encode_settings(Settings("ws", others=others))}

    base = past.commit(settings(color="red", size=1))
    one = past.commit(settings(color="blue", size=1, kinds={"people": "many"}), base)
    two = past.commit(settings(color="green", size=2), base)
    merged = past.merge(one, two)
    others = decode_settings(past.files(merged)["kgd.yaml"]).others
    assert (others["size"], others["kinds"]) == (2, {"people": "many"})
    (conflict,) = past.conflicts(merged)
    assert conflict.uri == "kgd://ws/settings"
    assert conflict.fields["color"].sides == ("blue", "green")


def test_memories_merge_their_front_matter_by_field_and_their_prose_by_line(past: Histories) -> None:
    path = "memories/2026-11-20-postgres.md"
    front = {"id": "decision://ws/postgres", "type": "decision", "date": "2026-11-20", "tags": ["db"]}
    base = past.commit({path: front_matter.encode(front, "one\ntwo\nthree\n")})
    one = past.commit({path: front_matter.encode({**front, "tags": ["db", "x"]}, "ONE\ntwo\nthree\n")}, base)
    two = past.commit({path: front_matter.encode({**front, "tags": ["y"]}, "one\ntwo\nTHREE\n")}, base)
    merged = past.merge(one, two)
    assert past.files(merged)[path] == front_matter.encode({**front, "tags": ["x", "y"]}, "ONE\ntwo\nTHREE\n")
    three = past.commit({path: front_matter.encode(front, "eins\ntwo\nthree\n")}, base)
    (conflict,) = past.conflicts(past.merge(one, three))
    assert conflict.uri == "decision://ws/postgres"
    assert list(conflict.fields) == ["memories/2026-11-20-postgres.md/prose"]


def test_messages_of_one_part_merge_one_by_one_and_chunks_come_from_one_source(past: Histories) -> None:
    def part(kind: str, *names: str, source: str = "", number: int = 0) -> Files:
        nodes = tuple(Node(Uri(f"{kind}://ws/t/{name}")) for name in names)
        return {f"bulk/{kind}/e3/t/{number}.yaml": bulk.encode(bulk.Part(nodes, source))}

    second = part("chunk", "9", source="a", number=1)
    base = past.commit(part("message", "1") | part("chunk", "1", source="a") | second)
    longer = part("chunk", "1", "2", source="b") | part("chunk", "9", "10", source="b", number=1)
    one = past.commit(part("message", "1", "2") | longer, base)
    two = past.commit(part("message", "1", "3") | part("chunk", "1", "3", source="c"), base)
    files = past.files(past.merge(one, two))
    assert files["bulk/message/e3/t/0.yaml"] == part("message", "1", "2", "3")["bulk/message/e3/t/0.yaml"]
    assert "bulk/chunk/e3/t/1.yaml" not in files
    assert files["bulk/chunk/e3/t/0.yaml"] == part("chunk", "1", "3", source="c")["bulk/chunk/e3/t/0.yaml"]


def test_log_entries_of_both_sides_are_kept_and_a_deleted_one_goes(past: Histories) -> None:
    def log(*names: str) -> Files:
        return {f"log/concept/ca/a/{name}.yaml": f"id: {name}\n".encode() for name in names}

    base = past.commit(log("1", "2"))
    merged = past.merge(past.commit(log("1", "2", "3"), base), past.commit(log("2", "4"), base))
    assert {path for path in past.files(merged) if path.startswith("log/")} == set(log("2", "3", "4"))


def test_a_file_here_and_a_folder_of_its_name_there_are_both_kept(past: Histories) -> None:
    base = past.commit({})
    one, two = past.commit({"notes": b"a file\n"}, base), past.commit({"notes/x.md": b"in a folder\n"}, base)
    made = past.merge(one, two)
    assert made == past.merge(two, one)
    assert {b"a file\n", b"in a folder\n"} <= set(past.files(made).values())


def test_a_merge_too_large_for_one_file_is_a_conflict_and_no_failure(past: Histories) -> None:
    base = past.commit(node(content="x\n"))
    one, two = (past.commit(node(content=f"x\n\n## 2026-01-0{n}\n" + f"{n}" * 200_000 + "\n"), base) for n in (1, 2))
    merged = past.merge(one, two)
    assert past.conflicts(merged)
    said = b"".join(past.files(merged).values())
    assert b"1" * 1000 in said
    assert b"2" * 1000 in said


def test_only_changed_files_are_read(past: Histories) -> None:
    many = {path: data for n in range(300) for path, data in node(f"area{n % 30}/n{n}").items()}
    base = past.commit(many)
    one, two = (
        past.commit(many | node("area1/n1", name="x"), base),
        past.commit(many | node("area2/n2", name="y"), base),
    )
    read = 0
    real = past.store.read

    def counted(id: ObjectId, limit: int = 1 << 26) -> bytes:
        nonlocal read
        read += 1
        return real(id, limit)

    past.store.read = counted  # type: ignore[method-assign]
    try:
        was, ours, theirs = (past.store.tree_of(commit) for commit in (base, one, two))
        merged = merge_trees(past.store, was, ours, theirs, NONE)
    finally:
        del past.store.read
    assert list(merged.files) == ["nodes/concept/area2/n2.yaml"]
    assert read < 30


def test_an_executable_bit_does_not_make_two_trees_of_one_merge(past: Histories) -> None:
    base = past.commit(node())
    one, two = past.commit(node() | {"run.sh": b"x\n"}, base), past.commit(node(name="B"), base)
    tree = past.store.tree(past.store.tree_of(one))
    odd = make("tree", tree_body({**tree, b"run.sh": (b"100755", tree[b"run.sh"][1])}))
    staging = Staging(past.store, None)
    executable = staging.commit(odd.id, [base], Signature("Ann", "ann@example.org", past.time), "x")
    past.store.release(past.store.write([odd, *staging.objects]))
    assert past.merge(executable, two) == past.merge(two, executable)
    assert past.store.lookup(past.store.tree_of(past.merge(executable, two)), "run.sh") == (FILE, tree[b"run.sh"][1])


def test_colliding_names_in_fetched_commits_are_reported_on_a_fast_forward(ws: Workspace) -> None:
    mine = Histories(ws.store)
    tip = bytes.fromhex(ws.tip)
    twins = mine.commit({**mine.files(tip), **node("x"), **node("X")}, tip)
    assert ws.run(adoption.merge(ws, twins), alone=True)
    assert [c.conflict.fields[TWIN].sides for c in ws.conflicts.find()] == [(uri("X"), uri("x"))]
    assert not ws.run(adoption.merge(ws, twins), alone=True)


def test_conflicts_of_every_kind_can_be_settled(ws: Workspace) -> None:
    path = "memories/2026-11-20-x.md"
    front = {"id": "concept://ws/m"}
    mine = Histories(ws.store)
    root = mine.files(bytes.fromhex(ws.tip))
    common = {"nodes/concept/m.yaml": node("m")["nodes/concept/m.yaml"], path: front_matter.encode(front, "a\n")}
    base = mine.commit({**root, **common, **node("moved"), **node("gone", name="g")}, bytes.fromhex(ws.tip))
    setting = [encode_settings(Settings("ws", others={"color": color})) for color in ("red", "green")]
    one = mine.commit(
        {
            **common,
            path: front_matter.encode(front, "b\n"),
            **node("to1", aliases=(uri("moved"),)),
            **node("Twin", name="one"),
            "kgd.yaml": setting[0],
        },
        base,
    )
    two = mine.commit(
        {
            **common,
            path: front_matter.encode(front, "c\n"),
            **node("to2", aliases=(uri("moved"),)),
            **node("gone", name="G"),
            **node("twin", name="two"),
            "kgd.yaml": setting[1],
        },
        base,
    )
    ws.run(adoption.merge(ws, one), alone=True)
    ws.run(adoption.merge(ws, two), alone=True)
    names = {name for found in ws.conflicts.find() for name in found.conflict.fields}
    assert names == {"memories/2026-11-20-x.md/prose", PLACE, TWIN, WHOLE, "color"}
    for found in ws.conflicts.find():
        ((name, disputed),) = found.conflict.fields.items()
        value = "b\n" if name.startswith("memories") else disputed.sides[0]
        ws.submit(change(Settle(found.id, {name: value})))
    left = {name for found in ws.conflicts.find() for name in found.conflict.fields}
    assert left == {"name"}, "the twins that became one have two names"
    files = mine.files(bytes.fromhex(ws.tip))
    assert files[path] == front_matter.encode(front, "b\n")
    assert decode_settings(files["kgd.yaml"]).others == {"color": "green"}
    nodes = mine.nodes(bytes.fromhex(ws.tip))
    assert nodes[uri("to1")].aliases == (uri("moved"), uri("to2"))
    assert nodes[uri("Twin")].aliases == (uri("twin"),)
    assert uri("twin") not in nodes


def test_a_defect_in_the_merge_of_a_node_loses_nothing_and_stops_no_other_file(
    past: Histories, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a defect")

    base = past.commit(node(name="A") | {"notes.md": b"a\n"})
    one = past.commit(node(name="one") | {"notes.md": b"a\n"}, base)
    two = past.commit(node(name="two") | {"notes.md": b"b\n"}, base)
    monkeypatch.setattr("kgd.workspace.merging.trees.merge_graphs", broken)
    monkeypatch.setattr("kgd.workspace.merging.files.merge", broken)
    files = past.files(past.merge(one, two))
    assert files["notes.md"] == b"b\n"
    said = b"".join(files.values())
    assert b"one" in said
    assert b"two" in said


def test_readers_of_the_graph_do_not_wait_while_merged_nodes_are_read(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws.submit(change(*(upsert(f"a{number}", summary="before") for number in range(20))))
    base, past = bytes.fromhex(ws.tip), Histories(ws.store)
    files = past.files(base)
    theirs = past.commit({path: data.replace(b"before", b"after") for path, data in files.items()}, base)
    ws.submit(change(upsert("b")))
    read, waited = ObjectStore.read, list[ObjectId]()

    def watched(self: ObjectStore, id: ObjectId, *limit: int) -> bytes:
        if ws.graph.lock._is_owned():  # type: ignore[attr-defined]
            waited.append(id)
        return read(self, id, *limit)

    monkeypatch.setattr(ObjectStore, "read", watched)
    ws.run(adoption.merge(ws, theirs))
    card = ws.graph.card(uri("a19"))
    assert card is not None
    assert card.summary == "after"
    assert not waited
