"""Hypothesis strategies for names, URIs and nodes."""

from __future__ import annotations

from hypothesis import strategies as st

from kgd.model.node import (
    FIELDS,
    RELATION_FIELDS,
    RESERVED,
    RESERVED_PREFIX,
    SOURCE_FIELDS,
    Node,
    Relation,
    Source,
)
from kgd.model.uri import OWNED, Uri, build, encode_segment

AWKWARD_NAMES = [
    b"a",
    b"Auth Service",
    b"con",
    b"AUX.x",
    b"com1",
    b"lpt9.tar.gz",
    b"nul ",
    b".git",
    b".GIT",
    b"git~1",
    b"GIT~2",
    b"a.",
    b" a",
    b"a ",
    b".a",
    b"...",
    b"a.yaml",
    b"a.YAML",
    b".yaml",
    b"a\\b",
    b"a:b",
    b'a"b',
    b"a*b?c",
    b"<a>|b",
    b"%",
    b"%41",
    b"%2F",
    b"a/b",
    b"/",
    b"_",
    b"~",
    b"~0123456789abcdef",
    b"a~0123456789abcdef",
    b"-rf",
    b"a\nb",
    b"\x01",
    b"\x7f",
    b"\xff",
    b"\xc3",
    b"a\xed\xa0\x80",
    "ä".encode(),
    "a\u0308".encode(),
    "\u200c.git".encode(),
    ".g\u200dit".encode(),
    "\u202egnp.exe".encode(),
    "\ufeffa".encode(),
    "com¹".encode(),
    "认证服务".encode(),
    "😀".encode(),
    b"a" * 255,
    b"*" * 255,
    "ä".encode() * 127,
    b"%" * 100,
    b"#",
    b"[x]",
    b"{x}",
    b"^`",
    b"0",
    b"null",
    b"CONIN$",
    b"=",
]
"""Names that git holds and that something else stumbles over."""

PIECES = [
    "word",
    "no",
    "Null",
    "1",
    "0.5",
    ": ",
    " #",
    "- ",
    "|",
    "'",
    '"',
    "\\",
    "\t",
    " ",
    "\n",
    "\n\n",
    "\r",
    "é",
    "认",
    "😀",
    "\x85",
    "\u2028",
    "\ufeff",
    "\x00",
    "{",
    "[",
    "&a",
    "*a",
    "!t",
    "%",
    "@",
    "---",
    "=",
    "?",
    ",",
    "~",
    "1e3",
    "2026-11-20",
    "=======",
    "/",
    "_",
    ":",
]
"""Texts with a meaning to YAML, and ordinary ones. The vectors of `tests/format` depend on their order."""


def names() -> st.SearchStrategy[bytes]:
    """Every name that a git tree can hold."""
    alphabet = st.sampled_from([bytes([b]) for b in range(1, 256)] + [b".", b" ", b"%", b"~", b"a", "ä".encode()])
    random = st.lists(alphabet, min_size=1, max_size=40).map(b"".join)
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60)
    any_name = st.one_of(st.sampled_from(AWKWARD_NAMES), random, text.map(str.encode), random.map(lambda n: n * 6))
    return any_name.map(lambda n: n[:255].replace(b"\0", b"0")).filter(lambda n: n not in (b".", b"..") and n != b"")


def owned_uris(workspace: str = "ws") -> st.SearchStrategy[Uri]:
    schemes = st.sampled_from(sorted(OWNED))
    made = st.tuples(schemes, st.lists(names(), min_size=1, max_size=5))
    ordinary = st.from_regex(r"(concept|file|tag)://ws(/[a-z][a-z0-9_-]{0,8}(\.[a-z]{1,4})?){1,4}", fullmatch=True)
    short = made.filter(lambda m: sum(len(encode_segment(n)) for n in m[1]) < 1900)
    return st.one_of(short.map(lambda m: build(m[0], workspace, m[1])), ordinary.map(Uri))


def external_uris() -> st.SearchStrategy[Uri]:
    tail = st.text(st.sampled_from("ab/.?#%2F:@~ä*-"), max_size=40)
    heads = st.sampled_from(["https://example.com/", "https://h:80/a", "s3://b/", "mailto:x", "aux://x"])
    return st.tuples(heads, tail).map(lambda parts: Uri("".join(parts)))


def uris() -> st.SearchStrategy[Uri]:
    return st.one_of(owned_uris(), external_uris())


def lines() -> st.SearchStrategy[str]:
    """Text that looks like YAML, like prose, like code or like nothing."""
    more = [
        "a",
        "null",
        ">",
        "\\u00e9",
        "  ",
        "\r\n",
        "\x1b",
        "]",
        "}",
        "`",
        "...",
        "<<",
        "<<<<<<< x",
        "#",
        "\ufffe",
        "\x7f",
    ]
    pieces = st.sampled_from([*PIECES, *more])
    return st.one_of(
        st.lists(pieces, max_size=8).map("".join), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    )


def keys() -> st.SearchStrategy[str]:
    odd = st.sampled_from(
        ["a", "A-b", "a b", "a.b", "src/x.py", "yes", "null", "<<", "1", "-", "é", "", 'a"b', "a\\b", "k: v", "#"]
    )
    return st.one_of(odd, st.text(st.characters(categories=["L", "N", "P"]), max_size=12))


def json_values() -> st.SearchStrategy[object]:
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        lines(),
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys(), inner, max_size=4)),
        max_leaves=8,
    )


def data() -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(keys(), json_values(), max_size=4)


def others(known: tuple[str, ...]) -> st.SearchStrategy[dict[str, object]]:
    """Keys that this version does not know."""
    free = keys().filter(lambda key: key not in known and key not in RESERVED and not key.startswith(RESERVED_PREFIX))
    likely = st.sampled_from(["license", "sumary", "Tags", "links", "a/b", "~"])
    return st.one_of(st.just({}), st.dictionaries(st.one_of(likely, free), json_values(), max_size=3))


def labels() -> st.SearchStrategy[str]:
    return st.sampled_from(
        ["depends_on", "auth", "no", "null", "a: b", "a #b", "1", "-", "ä", "a b", "yes", '"', "x" * 128, "'"]
    )


def one_line() -> st.SearchStrategy[str]:
    return lines().map(lambda text: text.replace("\n", " ")[:100])


def relations() -> st.SearchStrategy[Relation]:
    weights = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1))
    return st.builds(Relation, labels(), uris(), weights, st.one_of(st.just({}), data()), others(RELATION_FIELDS))


def nodes() -> st.SearchStrategy[Node]:
    return st.builds(
        Node,
        uri=uris(),
        type=st.one_of(st.just(""), labels()),
        name=one_line(),
        summary=one_line(),
        content=st.one_of(lines(), st.lists(lines(), max_size=6).map("\n".join)),
        tags=st.lists(labels(), max_size=3).map(tuple),
        data=data(),
        source=st.one_of(st.none(), st.builds(Source, lines(), lines(), others(SOURCE_FIELDS))),
        relations=st.lists(relations(), max_size=4, unique_by=lambda r: r.key).map(tuple),
        aliases=st.lists(uris(), max_size=2).map(tuple),
        others=others(FIELDS),
    )
