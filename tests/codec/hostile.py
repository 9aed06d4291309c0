"""Hostile bytes, paths and URIs, and the error that each of them causes.

Other tests import the tables: what the codec refuses must be refused through every surface.
"""

from __future__ import annotations

from typing import NamedTuple

from kgd.errors import Invalid, KgdError, Limit, Refused

FULL = 256 * 1024
"""The most a node's file may hold."""

URI = b"uri: concept://ws/a\n"


class Hostile(NamedTuple):
    name: str
    data: bytes
    error: type[KgdError]


class HostileName(NamedTuple):
    text: str
    error: type[KgdError]


def filled(head: bytes, unit: bytes, tail: bytes = b"") -> bytes:
    """`head`, then `unit` as often as fits into a full file, then `tail`."""
    return head + unit * ((FULL - len(head) - len(tail)) // len(unit)) + tail


def numbered(head: bytes, line: bytes, count: int) -> bytes:
    return head + b"".join(line % i for i in range(count))


DEEP = [
    Hostile("4 KB of opening brackets", b"[" * 4096, Limit),
    Hostile("brackets behind a key", b"a: " + b"[" * 4000, Limit),
    Hostile("brackets a line", b"a: " + b"[\n" * 4000, Limit),
    Hostile("a full file of brackets", filled(b"a: ", b"["), Limit),
    Hostile("balanced brackets", b"a: " + b"[" * 2000 + b"]" * 2000, Limit),
    Hostile("braces inside each other", b"{a: " * 2000, Limit),
    Hostile("brackets and braces in turn", b"[{a: " * 1000, Limit),
    Hostile("dashes inside each other", URI + b"data:\n  a:\n    " + b"- " * 2000 + b"1\n", Limit),
    Hostile("an indent a line", b"".join(b" " * i + b"a:\n" for i in range(600)), Limit),
    Hostile("seventeen levels", URI + b"data: {a: " + b"[" * 15 + b"]" * 15 + b"}\n", Limit),
    Hostile("too deep in the canonical form", URI + b"data:\n  a:\n  - " + b"- " * 20 + b"1\n", Limit),
    Hostile("question marks", b"? " * 4000, Refused),
]

MANY = [
    Hostile("a list of 60,000", filled(URI + b"# c\ndata:\n  a:\n", b"  - 1\n"), Limit),
    Hostile("a list in one line", filled(URI + b"data: {a: [", b"1,", b"]}"), Limit),
    Hostile("20,000 keys", numbered(URI + b"data: # c\n", b"  k%d: 1\n", 20_000), Limit),
    Hostile("20,000 keys in one line", numbered(b"{", b"k%d: 1,", 20_000) + b"}", Limit),
    Hostile("empty lists", filled(URI + b"data: {a: [", b"[],", b"]}"), Limit),
    Hostile("pairs in a list", filled(URI + b"data: {a: [", b"{a: b},", b"]}"), Limit),
    Hostile("lists of fourteen levels", filled(b"a: [", b"[" * 13 + b"]" * 13 + b",", b"]"), Limit),
    Hostile("canonical, a list of 40,000", filled(URI + b"data:\n  a:\n", b"  - 1\n"), Limit),
    Hostile("canonical, 30,000 tags", numbered(URI + b"tags:\n", b"- t%d\n", 25_000), Limit),
    Hostile("300 tags", numbered(URI + b"tags:\n", b"- t%d\n", 300), Limit),
    Hostile("6,000 relations", numbered(URI + b"relations:\n", b"- {type: t, target: concept://a/b%d}\n", 5500), Limit),
    Hostile("one byte too many", b"#" * (FULL + 1), Limit),
    Hostile("a megabyte of canonical text", URI + b"content: |\n" + b"  x\n" * 300_000, Limit),
    Hostile("blank lines", b"\n" * FULL, Invalid),
    Hostile("lines without a colon", filled(b"", b"x\n"), Invalid),
    Hostile("dashes", filled(b"a:\n", b"-\n"), Limit),
    Hostile("colons", filled(b"a: ", b":"), Invalid),
    Hostile("commas", filled(b"a: [", b","), Invalid),
    Hostile("a key of 200 KB", b"#\n" + b"k" * 200_000 + b": 1\n", Invalid),
    Hostile("a key of 257 characters", URI + b"data:\n  " + b"k" * 257 + b": 1\n", Limit),
    Hostile("a key of 257 characters behind a comment", URI + b"data: # c\n  " + b"k" * 257 + b": 1\n", Limit),
    Hostile("words without an end", filled(URI + b'name: "', b"x "), Invalid),
    Hostile("escapes without an end", filled(URI + b'name: "', b"\\x41"), Invalid),
    Hostile("quotes without an end", filled(URI + b"name: '", b"''"), Invalid),
    Hostile("a string of 260,000 letters as a name", filled(URI + b"name: ", b"x"), Limit),
    Hostile("comments and nothing else", filled(b"", b"#\n"), Invalid),
    Hostile("directives", filled(b"", b"%YAML 1.2\n"), Refused),
    Hostile("unknown directives", filled(b"", b"%X a\n"), Refused),
]

TRICKS = [
    Hostile("an alias bomb", b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", Refused),
    Hostile("an anchor", URI + b"name: &n x\n", Refused),
    Hostile("an alias of nothing", URI + b"name: *n\n", Refused),
    Hostile("a list that holds itself", b"a: &a [*a]\n", Refused),
    Hostile("a full file of anchors", filled(b"a: [", b"&a x,"), Refused),
    Hostile("a merge key", URI + b"data:\n  <<: {a: 1}\n", Refused),
    Hostile("chained merge keys", filled(b"a: {", b"<<: {},"), Refused),
    Hostile("a merge of a list", URI + b"<<: [{a: 1}, {b: 2}]\n", Refused),
    Hostile("a Python object", URI + b"data: !!python/object/apply:os.system [id]\n", Refused),
    Hostile("a Python name", URI + b"name: !!python/name:os.system\n", Refused),
    Hostile("a tag of the standard", URI + b"name: !!str 5\n", Refused),
    Hostile("binary data", URI + b"content: !!binary aGk=\n", Refused),
    Hostile("a set", URI + b"data: !!set {a, b}\n", Refused),
    Hostile("an own tag", URI + b"data: !secret x\n", Refused),
    Hostile("a bare exclamation mark", URI + b"name: ! x\n", Refused),
    Hostile("a verbatim tag", URI + b"name: !<tag:yaml.org,2002:str> x\n", Refused),
    Hostile("a full file of tags", filled(b"a: [", b"!x y,"), Refused),
    Hostile("two documents", URI + b"---\n" + URI, Refused),
    Hostile("a document behind an end", URI + b"...\n---\nname: x\n", Refused),
    Hostile("YAML 1.1", b"%YAML 1.1\n---\n" + URI, Refused),
    Hostile("YAML 1.2, as a directive", b"%YAML 1.2\n---\n" + URI, Refused),
    Hostile("an unknown directive", b"%X a\n---\n" + URI, Refused),
    Hostile("a tag directive", b"%TAG ! tag:x,2000:\n---\n" + URI, Refused),
    Hostile("a key given twice", URI + b"name: a\nname: b\n", Refused),
    Hostile("a key given twice in data", URI + b"data:\n  a: 1\n  a: 2\n", Refused),
    Hostile("a key given twice, once in quotes", URI + b'name: a\n"name": b\n', Refused),
    Hostile(
        "a key given twice in a relation", URI + b"relations:\n- {type: a, type: b, target: concept://ws/b}\n", Refused
    ),
    Hostile("a number as a key", URI + b"data:\n  1: a\n", Refused),
    Hostile("a truth value as a key", URI + b"data:\n  true: a\n", Refused),
    Hostile("nothing as a key", URI + b"data:\n  : a\n", Refused),
    Hostile("null as a key", URI + b"data:\n  ~: a\n", Refused),
    Hostile("a list as a key", URI + b"data:\n  ? [a]\n  : b\n", Refused),
    Hostile("a mapping as a key", URI + b"data:\n  ? {a: b}\n  : b\n", Refused),
    Hostile("a key with a direction mark", URI + 'data:\n  "a\u202eb": 1\n'.encode(), Refused),
    Hostile("a key with an escaped NUL", URI + b'data:\n  "a\\0b": 1\n', Refused),
    Hostile("a key with a line end", URI + b'data:\n  "a\\nb": 1\n', Refused),
    Hostile("conflict markers", b"<<<<<<< HEAD\n" + URI + b"=======\n" + URI + b">>>>>>> theirs\n", Refused),
    Hostile("the middle of a conflict", URI + b"=======\nname: a\n", Refused),
    Hostile("a conflict in diff3 style", URI + b"||||||| base\nname: a\n", Refused),
    Hostile("markers behind Windows line ends", URI + b"<<<<<<< HEAD\r\nname: a\r\n", Refused),
    Hostile("not UTF-8", URI + b"name: \xff\n", Refused),
    Hostile("an overlong encoding", URI + b"name: \xc0\xaf\n", Refused),
    Hostile("an encoded surrogate", URI + b"name: \xed\xa0\x80\n", Refused),
    Hostile("UTF-16", "uri: concept://ws/a\n".encode("utf-16"), Refused),
    Hostile("UTF-16 without a mark", "uri: concept://ws/a\n".encode("utf-16-le"), Refused),
    Hostile("NUL", URI + b"name: a\0b\n", Refused),
    Hostile("an escape sequence for the terminal", URI + b"name: \x1b[2Ja\n", Refused),
    Hostile("NUL behind the end", URI + b"\0", Refused),
    Hostile("half of a surrogate pair", URI + b'name: "\\ud800"\n', Invalid),
    Hostile("a character beyond Unicode", URI + b'name: "\\U00110000"\n', Invalid),
    Hostile("an unknown escape", URI + b'name: "\\q"\n', Invalid),
    Hostile("a number of 200 KB", filled(URI + b"data:\n  a: ", b"1"), Invalid),
    Hostile("a hex number of 200 KB", filled(URI + b"data:\n  a: 0x", b"f"), Invalid),
    Hostile("a number beyond 64 bits", URI + b"data:\n  a: 9223372036854775808\n", Invalid),
    Hostile("infinity", URI + b"data:\n  a: .inf\n", Invalid),
    Hostile("not a number", URI + b"data:\n  a: .nan\n", Invalid),
    Hostile("a float that overflows", URI + b"data:\n  a: 1e999\n", Invalid),
    Hostile("a tab as indent", URI + b"data:\n\ta: 1\n", Invalid),
    Hostile("an open list", URI + b"tags: [a, b\n", Invalid),
    Hostile("an open mapping", URI + b"data: {a: b\n", Invalid),
    Hostile("an open string", URI + b'name: "a\n', Invalid),
    Hostile("a mapping inside a plain value", URI + b"name: a: b\n", Invalid),
    Hostile("a reserved indicator", URI + b"name: @x\n", Invalid),
    Hostile("a block of a wrong indent", URI + b"content: |0\n  x\n", Invalid),
]

WRONG = [
    Hostile("nothing", b"", Invalid),
    Hostile("only a mark of byte order", b"\xef\xbb\xbf", Invalid),
    Hostile("a list", b"- a\n", Invalid),
    Hostile("a word", b"hello\n", Invalid),
    Hostile("no uri", b"name: a\n", Invalid),
    Hostile("a uri that is a number", b"uri: 5\n", Invalid),
    Hostile("a uri that is a list", b"uri: [concept://ws/a]\n", Invalid),
    Hostile("a uri that leaves the folder", b"uri: concept://ws/../../etc/passwd\n", Invalid),
    Hostile("a uri of kgd itself", b"uri: kgd://ws/status\n", Invalid),
    Hostile("a name in conflicts", URI + b"node: a\n", Invalid),
    Hostile("a name of a later version that grants something", URI + b"kgd_trusted: true\n", Invalid),
    Hostile("an unknown key with a long key inside", URI + b"x: {" + b"k" * 257 + b": 1}\n", Limit),
    Hostile("a name that is a number", URI + b"name: 5\n", Invalid),
    Hostile("a name of two lines", URI + b"name: |\n  a\n  b\n", Invalid),
    Hostile("a summary of 101 characters", URI + b"summary: " + b"x" * 101 + b"\n", Limit),
    Hostile("a name of 256 characters", URI + b"name: " + b"x" * 256 + b"\n", Limit),
    Hostile("content that is a mapping", URI + b"content: {a: b}\n", Invalid),
    Hostile("content that is a list", URI + b"content:\n- a\n", Invalid),
    Hostile("tags that are a word", URI + b"tags: a\n", Invalid),
    Hostile("a tag that is a mapping", URI + b"tags:\n- a: b\n", Invalid),
    Hostile("a tag that is empty", URI + b'tags: [""]\n', Invalid),
    Hostile("a tag with a line end", URI + b'tags: ["a\\nb"]\n', Invalid),
    Hostile("data that is a list", URI + b"data: [a]\n", Invalid),
    Hostile("relations that are a mapping", URI + b"relations: {a: b}\n", Invalid),
    Hostile("a relation that is a word", URI + b"relations:\n- a\n", Invalid),
    Hostile("a relation without a target", URI + b"relations:\n- type: a\n", Invalid),
    Hostile("a relation without a type", URI + b'relations:\n- target: "concept://ws/b"\n', Invalid),
    Hostile(
        "a relation with a reserved key",
        URI + b"relations:\n- {type: a, target: 'concept://ws/b', kgd_checked: 1}\n",
        Invalid,
    ),
    Hostile("a target that is no URI", URI + b"relations:\n- {type: a, target: there}\n", Invalid),
    Hostile("a target in another spelling", URI + b"relations:\n- {type: a, target: 'concept://ws/%61'}\n", Invalid),
    Hostile("a weight above one", URI + b"relations:\n- {type: a, target: 'concept://ws/b', weight: 1.5}\n", Invalid),
    Hostile("a weight below zero", URI + b"relations:\n- {type: a, target: 'concept://ws/b', weight: -1}\n", Invalid),
    Hostile(
        "a weight that is a word", URI + b"relations:\n- {type: a, target: 'concept://ws/b', weight: low}\n", Invalid
    ),
    Hostile(
        "a weight that is true", URI + b"relations:\n- {type: a, target: 'concept://ws/b', weight: true}\n", Invalid
    ),
    Hostile("a relation given twice", URI + b"relations:\n" + b"- {type: a, target: 'concept://ws/b'}\n" * 2, Invalid),
    Hostile("a source without an id", URI + b"source: {type: page}\n", Invalid),
    Hostile("a source that is a word", URI + b"source: page\n", Invalid),
    Hostile("an alias that is no URI", URI + b"aliases: [there]\n", Invalid),
    Hostile("a type with a line end", URI + b'type: "a\\nb"\n', Invalid),
]

YAML: list[Hostile] = [*DEEP, *MANY, *TRICKS, *WRONG]
"""Files that are no node."""

PATHS: list[HostileName] = [
    HostileName(path, Invalid)
    for path in (
        "",
        "nodes",
        "nodes/",
        "nodes/concept",
        "nodes/concept.yaml",
        "nodes/concept/.yaml",
        "nodes/concept/a",
        "nodes/concept/a.yml",
        "nodes/concept/a.YAML",
        "/nodes/concept/a.yaml",
        "nodes//a.yaml",
        "nodes/concept//a.yaml",
        "nodes/concept/../../a.yaml",
        "nodes/concept/./a.yaml",
        "nodes/../a.yaml",
        "../nodes/concept/a.yaml",
        "nodes/concept/.git/config.yaml",
        "nodes/concept/.a.yaml.swp",
        "nodes/concept/.#a.yaml",
        "nodes/concept/#a.yaml#",
        "nodes/concept/a.yaml~",
        "nodes/concept/.a.yaml",
        "nodes/concept/a .yaml",
        "nodes/concept/a..yaml",
        "nodes/concept/ a.yaml",
        "nodes/concept/CON.yaml",
        "nodes/concept/aux.x.yaml",
        "nodes/concept/com1/a.yaml",
        "nodes/concept/a\\b.yaml",
        "nodes/concept/a:b.yaml",
        "nodes/concept/a*b.yaml",
        "nodes/concept/a\nb.yaml",
        "nodes/concept/a\0b.yaml",
        "nodes/concept/a\x7fb.yaml",
        "nodes/concept/%61.yaml",
        "nodes/concept/%2f.yaml",
        "nodes/concept/%.yaml",
        "nodes/concept/%4.yaml",
        "nodes/concept/%00.yaml",
        "nodes/concept/%2E.yaml",
        "nodes/concept/%2E%2E.yaml",
        "nodes/concept/%2E%2E/a.yaml",
        "nodes/concept/b.yaml/a.yaml",
        "nodes/concept/git~1/a.yaml",
        "nodes/concept/\u200b.git/a.yaml",
        "nodes/concept/e\u0301.yaml",
        "nodes/concept/\udcff.yaml",
        "nodes/concept/" + "a" * 201 + ".yaml",
        "nodes/Concept/a.yaml",
        "nodes/entity/a.yaml",
        "nodes/entity/00/a.yaml",
        "nodes/tag/zz/a.yaml",
        "nodes/https/example.com.yaml",
        "nodes/https/example.com/00/a.yaml",
        "nodes/kgd/status.yaml",
        "nodes/dir/%5F%5F.yaml",
        "conflicts/concept/a.yaml",
    )
]
"""Paths that are no node's, for a workspace without sharded schemes of its own."""

URIS: list[HostileName] = [
    *(
        HostileName(text, Invalid)
        for text in (
            "",
            "a",
            "concept",
            "concept:",
            "concept:a",
            "concept:/a",
            "concept://",
            "concept://ws",
            "concept://ws/",
            "concept:///a",
            "concept://WS/a",
            "concept://w s/a",
            "concept://-ws/a",
            "concept://ws//a",
            "concept://ws/a/",
            "concept://ws/.",
            "concept://ws/..",
            "concept://ws/../a",
            "concept://ws/a/../b",
            "concept://ws/%2E",
            "concept://ws/%2E%2E/a",
            "concept://ws/%2e%2e",
            "concept://ws/a%2Fb%2",
            "concept://ws/%",
            "concept://ws/%6",
            "concept://ws/%61",
            "concept://ws/%2f",
            "concept://ws/%c3%a4",
            "concept://ws/%C3%A4",
            "concept://ws/%00",
            "concept://ws/a b",
            "concept://ws/a\nb",
            "concept://ws/a\0",
            "concept://ws/a?b",
            "concept://ws/a#b",
            "concept://ws/a\\b",
            "concept://ws/<a>",
            "concept://ws/[a]",
            "concept://ws/{a}",
            "concept://ws/a|b",
            "concept://ws/a`b",
            'concept://ws/a"b',
            "concept://ws/a^b",
            "concept://ws/\x85",
            "concept://ws/\ud800",
            "concept://ws/e\u0301",
            "concept://" + "w" * 64 + "/a",
            "dir://ws/_/",
            "dir://ws/",
            "dir://ws/a/.",
            "kgd://ws/status",
            "kgd:status",
            "Concept://ws/a",
            "1a://ws/a",
            "https://",
            "https:",
            "https:///",
            "https://a b",
            "https://a\tb",
            "mailto:\x7f",
            "https://a\u2028b",
            "://a",
            " concept://ws/a",
            "file:///etc/passwd",
            "file://ws/../../etc/passwd",
            "file://ws/%2E%2E/%2E%2E/etc/passwd",
        )
    ),
    HostileName("concept://ws/" + "a" * 256, Limit),
    HostileName("concept://ws/" + "/".join("a" * 65), Limit),
    HostileName("concept://ws/" + "/".join(["a" * 250] * 9), Limit),
    HostileName("https://" + "a" * 2041, Limit),
]
"""Texts that are no node's URI."""
