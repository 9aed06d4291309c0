"""Byte sequences that are no message of either protocol and no browser request."""

from __future__ import annotations

import json
from typing import NamedTuple

MIB = 1 << 20


class Frame(NamedTuple):
    name: str
    data: bytes
    code: int = -32600


def call(arguments: bytes, name: bytes = b"get") -> bytes:
    head = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"' + name + b'","arguments":'
    return head + arguments + b"}}"


PARSE, INVALID_PARAMS, NO_METHOD = -32700, -32602, -32601
NOT_JSON = [
    Frame("a message that is cut", b'{"jsonrpc":"2.0","id":1,"meth', PARSE),
    Frame("only a brace", b"{", PARSE),
    Frame("a word", b"nonsense", PARSE),
    Frame("a comment", b'{"jsonrpc":"2.0",/* */"id":1,"method":"ping"}', PARSE),
    Frame("single quotes", b"{'jsonrpc':'2.0','id':1,'method':'ping'}", PARSE),
    Frame("a comma too many", b'{"jsonrpc":"2.0","id":1,"method":"ping",}', PARSE),
    Frame("two messages on a line", b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0"}', PARSE),
    Frame("lists, 10,000 deep", b"[" * 10_000 + b"]" * 10_000, PARSE),
    Frame("mappings, 10,000 deep", b'{"a":' * 10_000 + b"1" + b"}" * 10_000, PARSE),
    Frame("arguments, 10,000 deep", call(b'{"uris":' + b"[" * 10_000 + b"]" * 10_000 + b"}"), PARSE),
    Frame("a megabyte of brackets", b"[" * MIB, PARSE),
    Frame("invalid UTF-8", b"\xff\xfe", PARSE),
    Frame("invalid UTF-8 in a string", b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}', PARSE),
    Frame("an overlong encoding", b'{"jsonrpc":"2.0","id":"\xc0\xaf","method":"ping"}', PARSE),
    Frame("UTF-16", '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16-le"), PARSE),
    Frame("a byte order mark", b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}', PARSE),
    Frame("half of a surrogate pair", b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', PARSE),
    Frame("a raw control character", b'{"jsonrpc":"2.0","id":"\x01","method":"ping"}', PARSE),
    Frame("NUL", b"\0\0\0\0", PARSE),
    Frame("a program", b"\x7fELF\x02\x01\x01" + bytes(64), PARSE),
    Frame("a picture", b"\x89PNG\r\x1a", PARSE),
    Frame("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", PARSE),
    Frame("HTTP", b"POST /mcp HTTP/1.1\r", PARSE),
    Frame("NaN", call(b'{"uris":NaN}'), PARSE),
    Frame("Infinity", call(b'{"uris":Infinity}'), PARSE),
    Frame("a number beyond all numbers", call(b'{"uris":"a","budget":1e999}'), PARSE),
    Frame("5,000 digits", b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}', PARSE),
    Frame("hexadecimal", b'{"jsonrpc":"2.0","id":0x10,"method":"ping"}', PARSE),
]

NO_MESSAGE = [
    Frame("a batch", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]'),
    Frame("a batch of 10,000", b"[" + b",".join([b'{"jsonrpc":"2.0","id":1,"method":"ping"}'] * 10_000) + b"]"),
    Frame("an empty batch", b"[]"),
    Frame("null", b"null"),
    Frame("a number", b"7"),
    Frame("a text", b'"initialize"'),
    Frame("an empty mapping", b"{}"),
    Frame("an old version", b'{"jsonrpc":"1.0","id":1,"method":"ping"}'),
    Frame("a version that is a number", b'{"jsonrpc":2.0,"id":1,"method":"ping"}'),
    Frame("no version", b'{"id":1,"method":"ping"}'),
    Frame("an id that is a mapping", b'{"jsonrpc":"2.0","id":{},"method":"ping"}'),
    Frame("an id that is a list", b'{"jsonrpc":"2.0","id":[1],"method":"ping"}'),
    Frame("an id that is true", b'{"jsonrpc":"2.0","id":true,"method":"ping"}'),
    Frame("an id that is null", b'{"jsonrpc":"2.0","id":null,"method":"ping"}'),
    Frame("an id that is a fraction", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}'),
    Frame("an id beyond 64 bits", b'{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}'),
    Frame("a method that is a number", b'{"jsonrpc":"2.0","id":1,"method":5}'),
    Frame("a method that is null", b'{"jsonrpc":"2.0","id":1,"method":null}'),
    Frame("an id and nothing else", b'{"jsonrpc":"2.0","id":1}'),
    Frame("parameters that are a number", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":5}'),
]

WRONG_REQUESTS = [
    Frame("an unknown method", b'{"jsonrpc":"2.0","id":1,"method":"system/exec"}', NO_METHOD),
    Frame("a method of Python", b'{"jsonrpc":"2.0","id":1,"method":"__class__"}', NO_METHOD),
    Frame("a method of a megabyte", b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * MIB + b'"}', NO_METHOD),
    Frame("an empty method", b'{"jsonrpc":"2.0","id":1,"method":""}', NO_METHOD),
    Frame("a call of nothing", b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', INVALID_PARAMS),
    Frame("a call of a number", b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}', INVALID_PARAMS),
    Frame("arguments that are a list", call(b"[]"), INVALID_PARAMS),
    Frame("arguments that are a text", call(b'"rm"'), INVALID_PARAMS),
    Frame(
        "a file as a resource",
        b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}',
        INVALID_PARAMS,
    ),
    Frame(
        "a way out as a resource",
        b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"kgd://shop/nodes/../../etc"}}',
        INVALID_PARAMS,
    ),
    Frame(
        "a prompt that is none",
        b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}}',
        INVALID_PARAMS,
    ),
]

HELLOS: list[tuple[str, bytes]] = [
    ("no JSON", b"hello"),
    ("HTTP", b"GET / HTTP/1.1\r"),
    ("a list", b"[]"),
    ("null", b"null"),
    ("a number", b"1"),
    ("nothing known", b"{}"),
    ("an unknown kind", b'{"kgd":"root"}'),
    ("a kind that is a list", b'{"kgd":["call"]}'),
    ("a kind that is a mapping", b'{"kgd":{"call":1}}'),
    ("invalid UTF-8", b'{"kgd":"call","cwd":"\xff"}'),
    ("10,000 deep", b'{"kgd":' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
    ("a megabyte", b"x" * MIB),
    ("9 MiB", b"x" * (9 * MIB)),
    ("TLS", b"\x16\x03\x01\x02\x00\x01"),
    ("NUL", b"\0" * 16),
    ("SSH", b"SSH-2.0-x\r"),
    ("ten megabytes of a directory", json.dumps({"kgd": "call", "cwd": "/" * (10 * MIB)}).encode()),
]
"""First lines that no client of kgd sends."""

ODD_CLAIMS: tuple[dict[str, object], ...] = (
    {"cwd": "/nowhere/at/all"},
    {"cwd": "\0"},
    {"cwd": 7},
    {"cwd": "../../.."},
    {"cwd": "/proc/self"},
    {"cwd": []},
    {"client": "x" * 100_000},
    {"client": "Eve <root@localhost>\nauthor"},
    {"version": "999999.0"},
    {"version": []},
    {"cwd": "/" + "a" * 5_000},
    {"client": "\x1b[2J\u202e"},
)
ODD_HELLOS = [json.dumps({"kgd": "call", **claims}).encode() for claims in ODD_CLAIMS]
"""First lines with an odd claim of the client about itself. The client may still ask."""

CALLS: list[tuple[str, bytes]] = [
    ("no JSON", b"nonsense"),
    ("a list", b"[]"),
    ("null", b"null"),
    ("no name", b'{"id":1}'),
    ("a name that is a number", b'{"id":1,"call":7,"args":{}}'),
    ("arguments that are a list", b'{"id":1,"call":"get","args":[]}'),
    ("arguments that are null", b'{"id":1,"call":"get","args":null}'),
    ("invalid UTF-8", b"\xff\xfe"),
    ("10,000 deep", b'{"id":1,"call":"get","args":{"uris":' + b"[" * 10_000 + b"]" * 10_000 + b"}}"),
    ("NaN", b'{"id":1,"call":"get","args":{"uris":NaN}}'),
    ("a line of 100 MB", b"x" * (100 * MIB)),
    ("half of a surrogate pair", b'{"id":1,"call":"get","args":{"uris":"\\ud800"}}'),
]
"""Invalid calls: each ends its connection, with a reason."""
