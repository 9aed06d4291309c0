"""Files of nodes for the vectors: canonical files of awkward values, hand-written files, and refused files."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from kgd.codec import documents, paths
from kgd.errors import KgdError
from kgd.model.fields import plain
from kgd.model.node import Json, Node, Relation, Source
from kgd.model.uri import OWNED, Uri, build, encode_segment, parse
from tests.codec.made import AWKWARD_NAMES, PIECES

CANONICAL = 120
UNSORTED = 17
UNKNOWN = 24
"""Canonical files with keys that format 1 does not define."""
NUMBERS: list[Json] = [
    0,
    -1,
    2**63 - 1,
    -(2**63),
    0.5,
    1.0,
    -0.0,
    1e-05,
    1e16,
    1.5e300,
    1e22,
    123456789.125,
    0.0001,
    True,
    False,
    None,
]
KEYS = ["a", "A-b", "a b", "a.b", "yes", "null", "1", "-", "é", 'a"b', "k: v", "_x", ""]
OUTSIDE = [
    "https://example.com/a",
    "https://example.com/a?b#c",
    "https://example.com/",
    "mailto:ann@example.com",
    "s3://b/k/l",
    "x-y.z+1://h/a",
    "https://example.com/" + "long/" * 60,
    "urn:isbn:0451450523",
    "https://h/" + "ü" * 60,
]
BY_HAND = [
    "# why\nuri: {u}\nname: A # short\n",
    "uri: '{u}'\nname: \"A\"\n",
    "name: A\nuri: {u}\n",
    "{{uri: {u}, tags: [b, a, b]}}\n",
    "uri: {u}\ntags: [yes, no, on]\n",
    "uri: {u}\ntags:\n  - b\n  - a\n",
    "uri: {u}\ncontent: >\n  folded\n  text\n",
    "uri: {u}\ncontent: |2\n   indented\n",
    "uri: {u}\ndata: {{n: 010, h: 0x10, o: 0o10, f: 1e3, d: 2026-11-20, t: True}}\n",
    "uri: {u}\ndata: {{a: ~, b: null, c: Null, d: .5, e: 1_000, f: 12:30:45}}\n",
    "uri: {u}\r\nname: A\r\n",
    "\ufeffuri: {u}\n",
    "uri: {u}\nname: ''\nsummary:\ntags: []\ndata: {{}}\n",
    "uri: {u}\ntype: concept\n",
    "uri: {u}\nrelations:\n- {{target: concept://ws/b, type: uses, weight: 1.0}}\n",
    "uri: {u}\nrelations: [{{type: uses, target: concept://ws/c}}, {{weight: 0.0, target: tag://ws/b, type: uses}}]\n",
    "uri: {u}\naliases: [concept://ws/z, concept://ws/b]\n",
    "uri: {u}\nsource: {{id: x, type: url}}\n",
    "---\nuri: {u}\n...\n",
    "uri: {u}\nname: a\n  b\n",
    "uri: {u}\n\n\nname: A\n\n",
    "uri: {u}\ndata:\n  z: 1\n  a: {{b: [1, [2]]}}\n",
    "uri: {u}",
    "uri: {u}\ntype: decision\ntags: [API, Db]\n",
    "? uri\n: {u}\n",
    'uri: {u}\ncontent: "a\\tb\\u00e9\\n"\n',
    "uri: {u}\nlabel: x\n",
    "uri: {u}\nrelations: [{{type: uses, target: concept://ws/b, color: red}}]\n",
    "sumary: x # a mistake\nuri: {u}\nZ: [1, {{b: 1, a: ~}}]\n",
    "uri: {u}\nempty:\nlist: []\nmap: {{}}\ntext: ''\nno: false\n",
    "uri: {u}\nsource: {{ref: main, id: x, type: url, at: 2026-11-20}}\n",
    "uri: {u}\nrelations:\n- {{since: 1, weight: 1, target: concept://ws/b, a: [], type: uses, data: {{}}}}\n",
]
REFUSED = [
    "",
    "uri: concept://ws/other\n",
    "uri: {u}\nuri: {u}\n",
    "uri: {u}\nname: [a]\n",
    "- {u}\n",
    "uri: {u}\nname: &a A\n",
    "uri: {u}\ndata: {{a: &x 1, b: *x}}\n",
    "uri: {u}\nname: !!str A\n",
    "%YAML 1.2\n---\nuri: {u}\n",
    "uri: {u}\n---\nuri: {u}\n",
    "uri: {u}\ndata: {{<<: {{a: 1}}}}\n",
    "uri: {u}\n<<<<<<< ours\nname: A\n",
    "uri: {u}\nname: [a\n",
    "uri: {u}\nsummary: " + "x" * 101 + "\n",
    "uri: {u}\nname: " + "x" * 256 + "\n",
    'uri: {u}\nname: "a\\nb"\n',
    'uri: {u}\ntags: [" a"]\n',
    "uri: {u}\ntags: [1]\n",
    "uri: {u}\ndata: [a]\n",
    "uri: {u}\ndata: {{1: a}}\n",
    "uri: {u}\nrelations:\n- type: uses\n",
    "uri: {u}\nrelations: [{{type: uses, target: concept://ws/b, weight: 2}}]\n",
    "uri: {u}\nrelations: [{{type: uses, target: concept://ws/b}}, {{target: concept://ws/b, type: uses}}]\n",
    "uri: {u}\nsource: {{type: url}}\n",
    "uri: {u}\ndata: {{n: 9223372036854775808}}\n",
    "uri: {u}\ndata: {{n: .inf}}\n",
    "uri: {u}\naliases: [kgd://ws/x]\n",
    "uri: {u}\naliases: [concept://ws/a%2fb]\n",
    "uri: {u}\naliases: [concept://ws]\n",
    'uri: {u}\naliases: ["https://a b"]\n',
    "uri: {u}\ndata: " + "{{a: " * 17 + "1" + "}}" * 17 + "\n",
    "uri: {u}\nname: a\x07b\n",
    'uri: {u}\ndata: {{"a\\tb": 1}}\n',
    "uri: {u}\ndata: {{" + "k" * 257 + ": 1}}\n",
    "uri: {u}\n\tname: A\n",
    "uri: {u}\nnode: a\n",
    "uri: {u}\nopen: true\n",
    "uri: {u}\ntwin: a\n",
    "uri: {u}\nmemories: []\n",
    "uri: {u}\ndetail: a\n",
    "uri: {u}\nkgd: a\n",
    "uri: {u}\nkgd_by: a\n",
    "uri: {u}\nsource: {{type: a, id: b, open: 1}}\n",
    "uri: {u}\nrelations: [{{type: uses, target: concept://ws/b, kgdx: 1}}]\n",
    'uri: {u}\n"a\\tb": 1\n',
    "uri: {u}\n" + "k" * 257 + ": 1\n",
    "uri: {u}\nx: " + "[" * 16 + "]" * 16 + "\n",
]


def node_files() -> list[dict[str, Json]]:
    """The vectors: a path and a text; the values of the node, or null where it is refused; the canonical text."""
    found = _canonical("made", CANONICAL)
    uri = Uri("concept://ws/a")
    for kind, texts in (("by hand", BY_HAND), ("refused", REFUSED)):
        for number, text in enumerate(texts, 1):
            found.append(_vector(f"{kind} {number}", paths.path_of(uri), text.format(u=uri)))
    for number in range(UNSORTED):
        node = _node(Random(f"flow {number}"), plain_text=True)
        found.append(_vector(f"unsorted {number}", paths.path_of(node.uri), _unsorted(node)))
    return found + _canonical("unknown keys", UNKNOWN, unknown=True)


def _canonical(name: str, count: int, *, unknown: bool = False) -> list[dict[str, Json]]:
    found: list[dict[str, Json]] = []
    number = 0
    while len(found) < count:
        number += 1
        try:
            node = _node(Random(f"{'unknown' if unknown else 'node'} {number}"), unknown=unknown)
            found.append(_vector(f"{name} {number}", paths.path_of(node.uri), documents.encode(node).decode()))
        except KgdError:
            continue  # a control character in a label, say
    return found


def _vector(name: str, path: str, text: str) -> dict[str, Json]:
    try:
        node = documents.decode(text.encode(), at=path)
    except KgdError:
        node = None
    if node is None or paths.path_of(node.uri) != path:
        return {"name": name, "path": path, "text": text, "node": None}
    return {
        "name": name,
        "path": path,
        "text": text,
        "node": plain(node),
        "canonical": documents.encode(node).decode(),
    }


def _unsorted(node: Node) -> str:
    """The file with its lines of the first level in the opposite order."""
    blocks: list[str] = []
    for line in documents.encode(node).decode().splitlines(keepends=True):
        if line[0] in " -\n" and blocks:
            blocks[-1] += line
        else:
            blocks.append(line)
    return "# by hand\n" + "".join(reversed(blocks))


def _node(chance: Random, *, plain_text: bool = False, unknown: bool = False) -> Node:
    def text(most: int = 5) -> str:
        return "".join(chance.choices(["a", "b c", "d\n"] if plain_text else PIECES, k=chance.randint(0, most)))

    def line() -> str:
        return text().replace("\n", " ")[:100]

    def value(depth: int = 0) -> Json:
        kind = chance.randint(0, 9 if depth < 3 else 6)
        if kind < 4:
            return text()
        if kind < 7:
            return chance.choice(NUMBERS)
        if kind == 7:
            return [value(depth + 1) for _ in range(chance.randint(0, 3))]
        return {chance.choice(KEYS): value(depth + 1) for _ in range(chance.randint(0, 3))}

    def some(chances: float) -> bool:
        return chance.random() < chances

    def others(most: int) -> dict[str, Json]:
        names = [*KEYS, "license", "sumary", "Tags", "a/b"]
        return {chance.choice(names): value() for _ in range(chance.randint(0, most))}

    node = Node(
        _uri(chance),
        type=chance.choice(["", "", "idea", "no", "a: b"]),
        name=line() if some(0.5) else "",
        summary=line() if some(0.5) else "",
        content=text(9) if some(0.6) else "",
        tags=tuple(chance.sample(["b", "a", "null", "x y", "Ä", "1"], chance.randint(0, 3))),
        data={chance.choice(KEYS): value() for _ in range(chance.randint(0, 4))},
        source=Source(text(), text()) if some(0.2) else None,
        relations=tuple(
            Relation(type, _uri(chance), chance.choice([0, 1, 0.5, 1e-05]), {"k": value(2)} if some(0.3) else {})
            for type in chance.sample(["uses", "owns", "a b"], chance.randint(0, 2))
        ),
        aliases=tuple(_uri(chance) for _ in range(chance.randint(0, 1))),
    )
    if not unknown:
        return node
    return replace(
        node,
        others=others(4) | {"license": value()},
        source=node.source and replace(node.source, others=others(2)),
        relations=tuple(replace(relation, others=others(2)) for relation in node.relations),
    )


def _uri(chance: Random) -> Uri:
    if chance.random() < 0.2:
        return parse(chance.choice(OUTSIDE))
    schemes = sorted(OWNED)
    names = [chance.choice(AWKWARD_NAMES) for _ in range(chance.randint(1, 3))]
    if chance.random() < 0.5:
        names = [name for name in (b"auth", b"src", b"main.py", b"Ann Lee") if chance.random() < 0.5] or [b"x"]
    while sum(len(encode_segment(name)) for name in names) > 600:
        names.pop()
    return build(chance.choice(schemes), "ws", names or [b"x"])
