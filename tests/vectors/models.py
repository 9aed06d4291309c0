"""A model for each way to choose one: a tiny one in ONNX's own bytes, and one behind HTTP on this machine."""

from __future__ import annotations

import contextlib
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = ("[UNK]", "cat", "dog", "money", "kitten", "query:", "text:", "a")
DIM = 8
TABLE: NDArray[np.float32] = np.eye(len(WORDS), DIM, dtype=np.float32) + 0.01
TABLE[WORDS.index("kitten")] = TABLE[WORDS.index("cat")]


def write_onnx(folder: Path, *, output: str = "last_hidden_state", input: str = "input_ids") -> Path:
    """A folder with a model that looks each word up in `TABLE`, as far as ONNX's protocol buffers are concerned."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    table = _int(1, len(WORDS)) + _int(1, DIM) + _int(2, 1) + _bytes(8, b"table") + _bytes(9, TABLE.tobytes())
    node = b"".join([_bytes(1, b"table"), _bytes(1, input.encode()), _bytes(2, output.encode()), _bytes(4, b"Gather")])
    graph = b"".join(
        [
            _bytes(1, node),
            _bytes(2, b"tiny"),
            _bytes(5, table),
            _bytes(11, _value(input, 7, "batch", "length")),
            _bytes(11, _value("attention_mask", 7, "batch", "length")),
            _bytes(12, _value(output, 1, "batch", "length", DIM)),
        ]
    )
    (folder / "model.onnx").write_bytes(_int(1, 8) + _bytes(7, graph) + _bytes(8, _int(2, 13)))
    return folder


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _int(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _value(name: str, type: int, *shape: str | int) -> bytes:
    dims = b"".join(_bytes(1, _int(1, one) if isinstance(one, int) else _bytes(2, one.encode())) for one in shape)
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _int(1, type) + _bytes(2, dims)))


def by_words(text: str, dim: int = 16) -> list[float]:
    """A vector that is near another's if the texts share words."""
    vector = [0.001] * dim
    for word in text.lower().split():
        vector[zlib.crc32(word.encode()) % dim] += 1.0
    return vector


class Endpoint:
    """A model behind HTTP; `behave` answers one request, and may be replaced."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.stopped = threading.Event()
        self.behave: Callable[[BaseHTTPRequestHandler, Any], object] = answering(by_words)
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                with contextlib.suppress(OSError):  # who asked has gone
                    endpoint.behave(self, body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def texts(self) -> list[str]:
        """All that it was asked about."""
        return [text for _, _, body in self.asked for text in body["input"]]

    def close(self) -> None:
        self.stopped.set()
        self.server.shutdown()
        self.server.server_close()


def answering(embed: Callable[[str], list[float]]) -> Callable[[BaseHTTPRequestHandler, Any], None]:
    def behave(handler: BaseHTTPRequestHandler, body: Any) -> None:
        rows = [{"object": "embedding", "index": n, "embedding": embed(text)} for n, text in enumerate(body["input"])]
        reply(handler, {"object": "list", "data": rows[::-1], "model": body["model"]})

    return behave


def reply(handler: BaseHTTPRequestHandler, answer: Any, status: int = 200, **headers: str) -> None:
    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def failing(status: int, answer: Any = None, **headers: str) -> Callable[[BaseHTTPRequestHandler, Any], None]:
    return lambda handler, body: reply(handler, answer if answer is not None else {}, status, **headers)


def serving() -> Iterator[Endpoint]:
    """For a fixture."""
    made = Endpoint()
    yield made
    made.close()
