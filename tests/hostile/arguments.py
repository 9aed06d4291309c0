"""Arguments that no honest client sends, each with the code of its refusal."""

from __future__ import annotations

from typing import Any, NamedTuple

INVALID, LIMIT, MISSING, SECRET = "VALIDATION_ERROR", "LIMIT", "NOT_FOUND", "REFUSED_CONTENT"

GOOD = "concept://shop/good"
NEW = "concept://shop/never-written"
RIGHT_TO_LEFT, LINE, BELL = "a\u202eb", "a\nb", "a\x07b"
NESTED: Any = 1
for _ in range(400):
    NESTED = {"a": NESTED}


class Bad(NamedTuple):
    name: str
    tool: str
    arguments: Any
    code: str


def put(name: str, code: str, /, **change: Any) -> Bad:
    return Bad(name, "put", {"changes": [change]}, code)


def upsert(name: str, code: str, /, **fields: Any) -> Bad:
    return put(name, code, op="upsert", uri=NEW, **fields)


def relation(name: str, code: str, /, **fields: Any) -> Bad:
    return upsert(f"a relation with {name}", code, relations=[{"type": "t", "target": GOOD, **fields}])


UNKNOWN = [
    Bad("an unknown argument", "get", {"uris": GOOD, "sudo": True}, INVALID),
    Bad("__proto__", "get", {"uris": GOOD, "__proto__": {"trusted": True}}, INVALID),
    Bad("constructor", "status", {"constructor": {"prototype": {}}}, INVALID),
    Bad("__class__", "status", {"__class__": "Daemon"}, INVALID),
    Bad("an empty name", "status", {"": 1}, INVALID),
    Bad("an argument with an escape sequence", "status", {"\x1b[2J": 1}, INVALID),
    Bad("a name of 100,000 letters", "status", {"x" * 100_000: 1}, INVALID),
    Bad("10,000 unknown names", "status", {f"x{n}": 1 for n in range(10_000)}, INVALID),
    upsert("an unknown field", INVALID, trusted=True),
    upsert("__proto__ as a field", INVALID, __proto__={"a": 1}),
    upsert("an origin of one's own", INVALID, origin={"author": "root"}),
    upsert("a version of one's own", INVALID, version=7),
    upsert("an author of one's own", INVALID, author="root"),
    upsert("an id", INVALID, id="7"),
    relation("an unknown field", INVALID, trusted=True),
    upsert("a source with an unknown field", INVALID, source={"type": "t", "id": "i", "url": "x"}),
    put("a delete with content", INVALID, op="delete", uri=GOOD, content="x"),
    Bad("a commit's author", "put", {"changes": [{"op": "append", "uri": GOOD, "text": "x"}], "author": "r"}, INVALID),
]

TYPES = [
    Bad("no arguments", "get", {}, INVALID),
    Bad("a number of a URI", "get", {"uris": 7}, INVALID),
    Bad("null for URIs", "get", {"uris": None}, INVALID),
    Bad("URIs in URIs", "get", {"uris": [[GOOD]]}, INVALID),
    Bad("no URIs", "get", {"uris": []}, INVALID),
    Bad("objects as URIs", "get", {"uris": [{"uri": GOOD}]}, INVALID),
    Bad("10,000 URIs", "get", {"uris": [GOOD] * 10_000}, LIMIT),
    Bad("a budget below zero", "get", {"uris": GOOD, "budget": -1}, INVALID),
    Bad("a budget that is true", "get", {"uris": GOOD, "budget": "lots"}, INVALID),
    Bad("an unknown part", "get", {"uris": GOOD, "include": ["secrets"]}, INVALID),
    Bad("a node budget of a billion", "traverse", {"start": GOOD, "max_nodes": 10**9}, INVALID),
    Bad("a cost below zero", "traverse", {"start": GOOD, "max_cost": -1}, INVALID),
    Bad("a depth below zero", "traverse", {"start": GOOD, "max_depth": -1}, INVALID),
    Bad("a direction to nowhere", "traverse", {"start": GOOD, "direction": "sideways"}, INVALID),
    Bad("a start that is a mapping", "traverse", {"start": {"a": 1}}, INVALID),
    Bad("10,000 starts", "traverse", {"start": [GOOD] * 10_000}, LIMIT),
    Bad("a search for nothing", "search", {"query": ""}, INVALID),
    Bad("a search for a list", "search", {"query": ["a"]}, INVALID),
    Bad("a search with a limit of a billion", "search", {"query": "a", "limit": 10**9}, INVALID),
    Bad("a search with a limit of none", "search", {"query": "a", "limit": 0}, INVALID),
    Bad("a query of two megabytes", "search", {"query": "a" * 2_000_000}, LIMIT),
    Bad("history without a limit", "history", {"limit": 10**9}, INVALID),
    Bad("history since never", "history", {"since": "yesterday-ish"}, INVALID),
    Bad("changes that are a word", "put", {"changes": "everything"}, INVALID),
    Bad("no changes", "put", {"changes": []}, INVALID),
    Bad("a change that is a list", "put", {"changes": [[]]}, INVALID),
    Bad("a change that is null", "put", {"changes": [None]}, INVALID),
    Bad("10,000 changes", "put", {"changes": [{"op": "append", "uri": GOOD, "text": "x"}] * 10_000}, LIMIT),
    Bad("changes as JSON text of 10,000", "put", {"changes": "[" + ",".join(["{}"] * 10_000) + "]"}, INVALID),
    put("an unknown op", INVALID, op="exec", uri=GOOD),
    put("no op", INVALID, uri=GOOD),
    put("an op that is a list", INVALID, op=["upsert"], uri=GOOD),
    put("an append without text", INVALID, op="append", uri=GOOD),
    put("a delete of nothing", MISSING, op="delete", uri=NEW),
    put("a move of nothing", MISSING, op="move", uri=NEW, to="concept://shop/b"),
    put("an upsert of nothing in particular", INVALID, op="upsert"),
    upsert("a name that is a number", INVALID, name=7),
    upsert("content that is a mapping", INVALID, content={"a": 1}),
    upsert("tags that hold a number", INVALID, tags=[7]),
    upsert("data that is a list", INVALID, data=[1]),
    upsert("a version below zero", INVALID, expect_version=-1),
    upsert("a version of 10^30", INVALID, expect_version=10**30),
    upsert("a version that is true", INVALID, expect_version="newest"),
    upsert("an unset that is no field", INVALID, unset=["uri"]),
    Bad(
        "a dry run that is neither", "put", {"changes": [{"op": "delete", "uri": GOOD}], "dry_run": "perhaps"}, INVALID
    ),
    Bad("a source of the ingest outside", "ingest", {"source": "/etc"}, INVALID),
    Bad("a source of the ingest above", "ingest", {"source": "../../etc"}, MISSING),
    Bad("an ingest of a URL", "ingest", {"source": "https://example.org/evil"}, INVALID),
    Bad("an ingest of another kind", "ingest", {"kind": "shell"}, INVALID),
    Bad("a tool that is none", "rm -rf /", {}, MISSING),
    Bad("a tool of Python", "__init__", {}, MISSING),
    Bad("a tool of 10,000 letters", "x" * 10_000, {}, MISSING),
]

NUMBERS = [
    relation("a weight above one", INVALID, weight=1.0000001),
    relation("a weight below zero", INVALID, weight=-0.1),
    relation("a weight of 10^308", INVALID, weight=1e308),
    relation("a weight that is a word", INVALID, weight="heavy"),
    relation("a weight that is null", INVALID, weight=None),
    relation("a weight that is a list", INVALID, weight=[1]),
    Bad("a cost that is no number", "traverse", {"start": GOOD, "max_cost": "nan"}, INVALID),
    Bad("a score that is no number", "search", {"query": "a", "min_score": "nan"}, INVALID),
]

SIZES = [
    upsert("content of 257 KiB", LIMIT, content="x" * (257 << 10)),
    upsert("content of 2 MB", LIMIT, content="x" * 2_000_000),
    upsert("content of 255 KiB in three-byte letters", LIMIT, content="\u20ac" * (255 << 10)),
    upsert("a name of 300 letters", LIMIT, name="x" * 300),
    upsert("a summary of 101 letters", LIMIT, summary="x" * 101),
    upsert("10,000 tags", LIMIT, tags=[f"t{n}" for n in range(10_000)]),
    upsert("a tag of 100,000 letters", INVALID, tags=["x" * 100_000]),
    upsert("10,000 relations", LIMIT, relations=[{"type": "t", "target": f"atom://shop/{n}"} for n in range(10_000)]),
    upsert("data of 60,000 keys", LIMIT, data={f"k{n}": n for n in range(60_000)}),
    upsert("data of 400 levels", LIMIT, data=NESTED),
    upsert("a key of 1,000 letters", LIMIT, data={"k" * 1_000: 1}),
    put("an append of a megabyte", LIMIT, op="append", uri=GOOD, text="x" * 1_000_000),
    Bad(
        "a message of a megabyte",
        "put",
        {"changes": [{"op": "append", "uri": GOOD, "text": "x"}], "message": "x" * 1_000_000},
        LIMIT,
    ),
    Bad(
        "a request id of 10,000 letters",
        "put",
        {"changes": [{"op": "append", "uri": GOOD, "text": "x"}], "request_id": "x" * 10_000},
        LIMIT,
    ),
    Bad(
        "a request id with a line end",
        "put",
        {"changes": [{"op": "append", "uri": GOOD, "text": "x"}], "request_id": "a\nKgd-Actor: root"},
        INVALID,
    ),
]

_WORDS = {
    "a direction mark": RIGHT_TO_LEFT,
    "a line end": LINE,
    "a bell": BELL,
    "NUL": "a\0b",
    "an escape sequence": "\x1b]0;a\x07",
    "a line separator": "a\u2028b",
}
TEXTS = [
    *(upsert(f"a name with {what}", INVALID, name=text) for what, text in _WORDS.items()),
    *(upsert(f"a summary with {what}", INVALID, summary=text) for what, text in _WORDS.items()),
    *(upsert(f"a tag with {what}", INVALID, tags=[text]) for what, text in _WORDS.items()),
    *(upsert(f"a type with {what}", INVALID, type=text) for what, text in _WORDS.items()),
    *(relation(f"{what} in its type", INVALID, type=text) for what, text in _WORDS.items()),
    *(upsert(f"a key with {what}", INVALID, data={text: 1}) for what, text in _WORDS.items()),
    Bad(
        "a message with NUL",
        "put",
        {"changes": [{"op": "append", "uri": GOOD, "text": "x"}], "message": "a\0\n\nKgd-Actor: root"},
        INVALID,
    ),
]

_WAYS_OUT = [
    "concept://shop/..",
    "concept://shop/../../etc/passwd",
    "concept://shop/a/../../b",
    "concept://shop/.",
    "concept://shop/%2E%2E/%2E%2E/etc/passwd",
    "concept://shop/%2E",
    "file://shop/../../etc/passwd",
    "file://shop/%2E%2E/etc/passwd",
    "concept://shop/a/%2E%2E/b",
    "/etc/passwd",
    "../../etc/passwd",
    "./../../x",
    "kgd://shop/status",
    "concept://shop/",
    "concept://",
    "concept:///a",
    "concept://SHOP/a",
    "concept://shop//a",
    "https://",
    "https://a b",
    "mailto:\x7f",
    "",
    "   ",
]
WAYS_OUT = [
    *(put(f"an upsert of {text!r}", INVALID, op="upsert", uri=text, summary="x") for text in _WAYS_OUT),
    *(put(f"a move to {text!r}", INVALID, op="move", uri=GOOD, to=text) for text in _WAYS_OUT[:12]),
    *(relation(f"the target {text!r}", INVALID, target=text) for text in _WAYS_OUT[:12]),
    *(upsert(f"the alias {text!r}", INVALID, aliases=[text]) for text in _WAYS_OUT[:9]),
    *(Bad(f"get of {text!r}", "get", {"uris": [text]}, INVALID) for text in _WAYS_OUT),
    *(Bad(f"a walk from {text!r}", "traverse", {"start": text}, INVALID) for text in _WAYS_OUT[:12]),
    *(Bad(f"history of {text!r}", "history", {"uri": text}, INVALID) for text in _WAYS_OUT[:12]),
    put("an upsert in an unknown workspace", MISSING, op="upsert", uri="concept://shpo/a", summary="x"),
    Bad("an unknown workspace", "get", {"uris": GOOD, "workspace": "../shop"}, MISSING),
    Bad("a workspace of 100,000 letters", "status", {"workspace": "x" * 100_000}, MISSING),
    Bad("a workspace whose path is too long", "status", {"workspace": "/" + "a" * 5_000}, MISSING),
    Bad("a workspace of NUL", "status", {"workspace": "/\0"}, MISSING),
    Bad("a path that is too long", "get", {"uris": ["/" + "a" * 5_000]}, INVALID),
    Bad("a workspace that is a folder elsewhere", "status", {"workspace": "/etc"}, MISSING),
    put("a URI of 64 KB", LIMIT, op="upsert", uri="concept://shop/" + "a/" * 32_000, summary="x"),
    put("a URI of 65 segments", LIMIT, op="upsert", uri="concept://shop/" + "/".join("a" * 65), summary="x"),
]

_GARBAGE = ["x", "AAAA", "bnVsbA==", "W10=", "é", "\0", "../..", "x" * 100_000, "eyJfX3Byb3RvX18iOjF9"]
CURSORS = [
    *(Bad(f"the cursor {text[:20]!r}", "get", {"uris": GOOD, "cursor": text}, INVALID) for text in _GARBAGE),
    *(
        Bad(f"the cursor of a walk {text[:20]!r}", "traverse", {"start": GOOD, "cursor": text}, INVALID)
        for text in _GARBAGE
    ),
    *(
        Bad(f"the cursor of a search {text[:20]!r}", "search", {"query": "a", "cursor": text}, INVALID)
        for text in _GARBAGE
    ),
    *(Bad(f"the cursor of history {text[:20]!r}", "history", {"cursor": text}, INVALID) for text in _GARBAGE),
]

_NO_COMMITS = [
    "--output=/tmp/x",
    "-n1",
    "HEAD --exec=id",
    "HEAD;id",
    "$(id)",
    "HEAD~999999",
    "HEAD@{1}",
    "0" * 40,
    "zz",
    "../HEAD",
    "x" * 100_000,
    "HEAD:kgd.yaml",
    "main..HEAD",
]
COMMITS = [
    *(Bad(f"a look at {text[:20]!r}", "get", {"uris": GOOD, "as_of": text}, MISSING) for text in _NO_COMMITS),
    *(Bad(f"history of commit {text[:20]!r}", "history", {"commit": text}, MISSING) for text in _NO_COMMITS),
    *(put(f"a revert of {text[:20]!r}", MISSING, op="revert", commit=text) for text in _NO_COMMITS),
]

SECRETS = [
    upsert("a key of AWS", SECRET, content="AKIA" + "IOSFODNN7EXAMPLQ"),
    upsert("a token of GitHub", SECRET, content="use ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789 here"),
    upsert("a private key", SECRET, content="-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq\n"),
    upsert("a secret in a summary", SECRET, summary="ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"),
    upsert("a secret in data", SECRET, data={"deep": [{"key": "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"}]}),
    put("a secret in an append", SECRET, op="append", uri=GOOD, text="ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"),
]

ALL: list[Bad] = [*UNKNOWN, *TYPES, *NUMBERS, *SIZES, *TEXTS, *WAYS_OUT, *CURSORS, *COMMITS, *SECRETS]
