"""Random merges for the vectors: three versions of a small workspace, made by edits such as people make.

Every case is a pure function of its number. Histories are short but real: a base may be the result of a merge, so that
it holds open conflicts, which the sides then settle, edit, move or leave alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from kgd.codec import documents, front_matter, paths
from kgd.model.conflict import PLACE, TWIN, WHOLE, Conflict
from kgd.model.fields import with_field
from kgd.model.merge_graph import Graph, merge_graphs, renamed, with_decision
from kgd.model.node import Json, Node, Relation, Source
from kgd.model.uri import Uri
from kgd.workspace.merging.files import merge_file, record_files

Files = Mapping[str, str]
URIS = [
    Uri(text)
    for text in (
        "concept://ws/a",
        "concept://ws/b",
        "concept://ws/c/d",
        "entity://ws/Ann%20Lee",
        "file://ws/src/x.py",
        "decision://ws/2026-01-01-db",
        "https://example.com/a?q=1",
    )
]
TWINS = [Uri("concept://ws/a"), Uri("concept://ws/A"), Uri("concept://ws/a/x"), Uri("concept://ws/A/x")]
"""Names of which some file systems take two for one."""
WORDS = ["red", "green", "blue", "one", "two", "null", "Größe", "a: b"]
LINES = ["- one\n", "- two\n", "- three\n", "\n", "# Title\n", "end\n"]
BLOCKS = [
    "\n---[2026-01-01T00:00:00Z task:t1]---\nfirst\n",
    "\n---[2026-02-01T00:00:00Z task:t2]---\nsecond\n",
    "\n## 2026-03-01 log\n- third\n",
    "- undated\n",
    "\nplain end\n",
]
UNKNOWN = ["license", "license", "since", "since", "a/b", "~x", ""]
"""Keys that format 1 does not define."""
FROM_KEYS = 300
"""The first case about unknown keys."""
VALUES: list[Json] = [None, True, 1, 1.0, 0.5, "red", "green", ["x"], ["x", "y"], {"k": 1}, {"k": 2, "l": "x"}, 10**16]


@dataclass(frozen=True, slots=True)
class Case:
    """The files of three trees to merge."""

    name: str
    base: Files
    a: Files
    b: Files


def case(number: int) -> Case:
    """The case with this number."""
    chance = Random(f"merge {number}")
    kind = ("fields", "text", "moves", "open", "files")[number % 5] if number < FROM_KEYS else "keys"
    trivial_too = number % 20 == 0
    while True:
        made = _files(chance) if kind == "files" else map(_tree, _histories(chance, kind))
        base, a, b = made
        dull = kind == "open" and not any(path.startswith("conflicts/") for path in (*base, *a))
        if trivial_too or not (dull or a == b or base in (a, b)):
            return Case(f"{number}: {kind}", base, a, b)


def _tree(graph: Graph) -> Files:
    files = {paths.path_of(uri): documents.encode(node) for uri, node in graph.nodes.items()}
    files |= record_files(graph.conflicts.values(), frozenset())
    return {path: data.decode() for path, data in sorted(files.items())}


# ---- nodes


def _histories(chance: Random, kind: str) -> tuple[Graph, Graph, Graph]:
    count = {"fields": 1, "text": 1, "moves": 3, "open": 2, "keys": 1}[kind]
    known = TWINS if kind == "moves" and chance.random() < 0.2 else URIS
    uris = known[:count] if chance.random() < 0.6 else chance.sample(known, count)
    start = Graph({uri: _node(chance, uri) for uri in uris if chance.random() < 0.9})
    a, b = _side(chance, start, kind, known), _side(chance, start, kind, known)
    if kind != "open" and (kind != "keys" or chance.random() < 0.5):
        return start, a, b
    merged, third = merge_graphs(start, a, b).graph, _side(chance, start, kind)
    if chance.random() < 0.7:
        return merged, _side(chance, merged, kind), _side(chance, merged, kind)
    return start, _side(chance, merged, kind), third


def _side(chance: Random, graph: Graph, kind: str, known: list[Uri] = URIS) -> Graph:
    for _ in range(chance.randint(1, 3)):
        step = chance.choice(_STEPS[kind])
        graph = step(chance, graph, known) if step in (_add, _move) else step(chance, graph)
    return graph


def _edit(chance: Random, graph: Graph) -> Graph:
    if not graph.nodes:
        return graph
    node = chance.choice(list(graph.nodes.values()))
    for _ in range(chance.randint(2, 5)):
        node = chance.choice(_EDITS)(chance, node)
    return replace(graph, nodes={**graph.nodes, node.uri: node})


def _write(chance: Random, graph: Graph) -> Graph:
    if not graph.nodes:
        return graph
    node = _content(chance, chance.choice(list(graph.nodes.values())))
    return replace(graph, nodes={**graph.nodes, node.uri: node})


def _add(chance: Random, graph: Graph, known: list[Uri] = URIS) -> Graph:
    uri = chance.choice(known)
    return graph if uri in graph.nodes else replace(graph, nodes={**graph.nodes, uri: _node(chance, uri)})


def _delete(chance: Random, graph: Graph) -> Graph:
    if not graph.nodes:
        return graph
    return _without(graph, chance.choice(list(graph.nodes)))


def _without(graph: Graph, gone: Uri) -> Graph:
    return Graph(
        {uri: node for uri, node in graph.nodes.items() if uri != gone},
        {id: c for id, c in graph.conflicts.items() if c.uri != gone},
    )


def _move(chance: Random, graph: Graph, known: list[Uri] = URIS) -> Graph:
    free = [uri for uri in known if uri not in graph.nodes]
    if not graph.nodes or not free:
        return graph
    old, new = chance.choice(list(graph.nodes)), chance.choice(free[:2])
    about = [c.at(new) for c in graph.conflicts.values() if c.uri == old]
    left = _without(graph, old)
    node = renamed(graph.nodes[old], new)
    return Graph({**left.nodes, new: node}, {**left.conflicts, **{c.id: c for c in about}})


def _settle(chance: Random, graph: Graph) -> Graph:
    """Decide one open conflict as `resolve_conflicts` does, or delete its record as a person may."""
    open = [c for c in graph.conflicts.values() if TWIN not in c.fields]
    if not open:
        return graph
    conflict = chance.choice(open)
    ((field, disputed),) = conflict.fields.items()
    left = Graph(graph.nodes, {id: c for id, c in graph.conflicts.items() if id != conflict.id})
    if chance.random() < 0.3:
        return left
    value = chance.choice([*disputed.sides, *([chance.choice(WORDS)] if field in ("name", "summary") else [])])
    if field == WHOLE and value is None:
        return _without(left, conflict.uri)
    node = with_decision(graph.nodes.get(conflict.uri), conflict.uri, field, value)
    if node is None or (field == PLACE and (node.uri != conflict.uri and node.uri in graph.nodes)):
        return left
    others = [c.at(node.uri) for c in left.conflicts.values() if c.uri == conflict.uri]
    rest = _without(left, conflict.uri)
    return Graph({**rest.nodes, node.uri: node}, {**rest.conflicts, **{c.id: c for c in others}})


def _edit_disputed(chance: Random, graph: Graph) -> Graph:
    """Write another value into a field in dispute, while its record stays."""
    open = [c for c in graph.conflicts.values() if c.uri in graph.nodes]
    if not open:
        return graph
    conflict: Conflict = chance.choice(open)
    field = next(iter(conflict.fields))
    node = graph.nodes[conflict.uri]
    if field in ("name", "summary"):
        node = with_field(node, field, chance.choice(WORDS))
    elif field == "content":
        node = _content(chance, node)
    else:
        return _edit(chance, graph)
    return replace(graph, nodes={**graph.nodes, node.uri: node})


def _edit_unknown(chance: Random, graph: Graph) -> Graph:
    """Set or remove keys that format 1 does not define: of a node, its source and a relation."""
    if not graph.nodes:
        return graph
    node = chance.choice(list(graph.nodes.values()))
    for _ in range(chance.randint(1, 4)):
        node = replace(node, others=_others(chance, node.others))
        if chance.random() < 0.4:
            node = _relation(chance, node)
        if node.relations and chance.random() < 0.7:
            relation = chance.choice(node.relations)
            node = node.with_relation(replace(relation, others=_others(chance, relation.others)))
        if chance.random() < 0.4:
            source = node.source or Source("url", "x")
            node = replace(node, source=replace(source, others=_others(chance, source.others)))
    return replace(graph, nodes={**graph.nodes, node.uri: node})


def _edit_record(chance: Random, graph: Graph) -> Graph:
    """Set an unknown key of a conflict record."""
    if not graph.conflicts:
        return graph
    conflict = chance.choice(list(graph.conflicts.values()))
    edited = replace(conflict, others=_others(chance, conflict.others))
    return replace(graph, conflicts={**graph.conflicts, conflict.id: edited})


def _others(chance: Random, others: Mapping[str, Json]) -> dict[str, Json]:
    changed = {**others, chance.choice(UNKNOWN): chance.choice(VALUES)}
    return {key: value for key, value in changed.items() if value is not None or chance.random() < 0.2}


_STEPS: dict[str, list[Callable[..., Graph]]] = {
    "fields": [_edit, _edit, _edit, _edit, _edit, _edit, _delete, _add],
    "text": [_write, _write, _edit],
    "moves": [_edit, _edit, _move, _move, _move, _add, _delete],
    "open": [_edit, _edit, _write, _settle, _settle, _edit_disputed, _move, _delete],
    "keys": [*[_edit_unknown] * 8, *[_edit_record] * 3, _settle, _move, _delete],
}


def _node(chance: Random, uri: Uri) -> Node:
    node = Node(uri)
    for _ in range(chance.randint(1, 6)):
        node = chance.choice(_EDITS)(chance, node)
    return node


def _name(chance: Random, node: Node) -> Node:
    return replace(node, name=chance.choice(["", *WORDS]))


def _summary(chance: Random, node: Node) -> Node:
    return replace(node, summary=chance.choice(["", *WORDS]))


def _type(chance: Random, node: Node) -> Node:
    return replace(node, type=chance.choice(["", "idea", "service"]))


def _content(chance: Random, node: Node) -> Node:
    lines = node.content.splitlines(keepends=True)
    match chance.randint(0, 7):
        case 0:
            return replace(node, content="")
        case 1:
            return replace(node, content="".join(chance.choices(LINES, k=chance.randint(1, 6))))
        case 2 if lines:
            lines.pop(chance.randrange(len(lines)))
        case 3:
            lines.insert(chance.randint(0, len(lines)), chance.choice(LINES))
        case 4 if lines:
            lines[chance.randrange(len(lines))] = chance.choice(LINES)
        case 5:
            return replace(node, content=node.content.rstrip("\n"))
        case _:
            for _ in range(chance.randint(1, 2)):
                lines.append(chance.choice(BLOCKS))
            text = "".join(lines)
            return replace(node, content=text.lstrip("\n") if chance.random() < 0.5 else text)
    return replace(node, content="".join(lines))


def _tags(chance: Random, node: Node) -> Node:
    return replace(node, tags=tuple(chance.sample(["a", "b", "API", "api", "Ä"], chance.randint(0, 3))))


def _source(chance: Random, node: Node) -> Node:
    return replace(node, source=chance.choice([None, Source("url", "x"), Source("url", "y"), Source("", "")]))


def _data(chance: Random, node: Node) -> Node:
    key = chance.choice(["x", "x", "owner~/", "lastTaskId", "paths", "paths", "cites", "deep", "deep"])
    value = chance.choice(VALUES)
    if key in ("paths", "observations", "cites") and chance.random() < 0.8:
        value = chance.sample(["z", "a", "m", 1, True, {"k": 1}], chance.randint(0, 4))
    if key == "lastTaskId" and chance.random() < 0.8:
        value = chance.choice(["t1", "t2", "t10"])
    if key == "deep":
        value = {"in": {chance.choice("pq"): chance.choice(VALUES[1:])}, chance.choice("rs"): chance.choice(VALUES[1:])}
    data = {**node.data, key: value}
    return replace(node, data={k: v for k, v in data.items() if v is not None})


def _relation(chance: Random, node: Node) -> Node:
    type, target = chance.choice(["uses", "uses", "owns"]), chance.choice(URIS[:2])
    if chance.random() < 0.3:
        return replace(node, relations=tuple(r for r in node.relations if r.key != (type, target)))
    data: dict[str, Json] = {} if chance.random() < 0.5 else {chance.choice(["why", "position"]): chance.randint(0, 3)}
    return node.with_relation(Relation(type, target, chance.choice([0, 0.25, 0.5, 1]), data))


_EDITS = [_name, _summary, _type, _content, _tags, _source, _data, _data, _relation, _relation]


# ---- other files


def _files(chance: Random) -> tuple[Files, Files, Files]:
    make = chance.choice([_settings, _memory, _notes, _logs, _broken])
    found = make(chance), make(chance), make(chance)
    return _disputed(chance, make, found) if make in (_settings, _memory) and chance.random() < 0.5 else found


def _disputed(
    chance: Random, make: Callable[[Random], Files], found: tuple[Files, Files, Files]
) -> tuple[Files, Files, Files]:
    """A base that is itself a merge, with its conflicts, of which the sides settle or edit some."""
    path = next((path for files in found for path in files), "")
    was, ours, theirs = (files[path].encode() if path in files else None for files in found)
    merged = merge_file(path, was, ours, theirs)
    base = {p: d.decode() for p, d in record_files(merged.conflicts, frozenset()).items()}
    base |= {path: merged.data.decode()} if merged.data else {}

    def side() -> Files:
        files = {p: text for p, text in base.items() if p == path or chance.random() < 0.7}
        return {**files, **make(chance)} if chance.random() < 0.6 else files

    return base, side(), side()


def _broken(chance: Random) -> Files:
    """A node whose file may be no YAML, no node, or not there."""
    path = paths.path_of(URIS[0])
    texts = ["name: [open\n", "uri: concept://ws/other\n", "uri: concept://ws/a\nname: 'A'\n", "<<<<<<< x\n"]
    if chance.random() < 0.5:
        return {path: documents.encode(_node(chance, URIS[0])).decode()}
    return {} if chance.random() < 0.2 else {path: chance.choice(texts)}


def _settings(chance: Random) -> Files:
    values: dict[str, Json] = {"workspace": "ws", "format": 1, "merge_rules": 1}
    for key in sorted(chance.sample(["alpha", "beta", "gamma"], chance.randint(0, 3))):
        values[key] = chance.choice([1, 2, {"k": chance.choice(["x", "y"])}, {"k": "x", "l": 1}, ["p"]])
    from kgd.codec import canonical

    return {"kgd.yaml": canonical.dump(values)}


def _memory(chance: Random) -> Files:
    if chance.random() < 0.1:
        return {}
    front: dict[str, Json] = {"id": "decision://ws/db", "type": "decision", "date": "2026-01-01"}
    front["tags"] = sorted(chance.sample(["a", "b", "c"], chance.randint(1, 3)))
    if chance.random() < 0.5:
        front["status"] = chance.choice(["open", "done"])
    prose = "\nIntro\n" + "".join(f"\n{chance.choice(WORDS)}\n" for _ in range(chance.randint(1, 2)))
    return {"memories/2026-01-01-db.md": front_matter.encode(front, prose).decode()}


def _notes(chance: Random) -> Files:
    lines = ["one\n", "two\n", "three\n", "four\n"]
    lines[chance.randrange(4)] = chance.choice(["ONE\n", "x\n", ""])
    files = {"notes.md": "".join(lines), "other.yaml": f"a: {chance.randint(0, 2)}\n"}
    if chance.random() < 0.2:
        files.pop(chance.choice(sorted(files)))
    return files


def _logs(chance: Random) -> Files:
    from kgd.codec import documents
    from kgd.model.change import LogEntry

    files: dict[str, str] = {}
    for n in range(1, 5):
        if chance.random() < 0.6:
            id, at = f"01KA000000000000000000000{n}", f"2026-01-0{n}T00:00:00.000Z"
            entry = LogEntry(id, Uri("molecule://ws/auth"), f"task:t{n}", "Rotated the keys", at)
            files[paths.log_path(entry.parent, id)] = documents.encode_entry(entry).decode()
    return files
