"""Clients of a hub in a process of their own: honest ones that measure, hostile ones that hold what they can get.

python -m tests.hub.crowd honest PORT SECONDS TOKEN...    prints the latencies as JSON
python -m tests.hub.crowd hostile PORT COUNT SEED         until it is killed
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import resource
import sys
import time

PAUSE = 0.25
"""Seconds between two requests of an honest client."""
BACK = 2.0
"""Seconds, and up to twice that, until a hostile client that was dropped connects again."""
ADDRESSES = 24
UNKNOWN = "kgd_agent_AAAAAAAA_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_000000"
UNANSWERED = 1e9
"""The latency, in seconds, of a request that got no answer or a refusal."""
BODY = json.dumps({"uris": ["concept://infra/services/auth"]}).encode()


def request(path: str, token: str = "", *, method: str = "POST", length: int | None = None) -> bytes:
    """A header; without a length its body is chunked."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    lines += [f"Content-Length: {length}" if length is not None else "Transfer-Encoding: chunked"]
    return "\r\n".join([*lines, "", ""]).encode()


async def answered(reader: asyncio.StreamReader) -> int:
    """The status of the next answer, once all of it has been read."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
    return int(head.split()[1])


async def honest(port: int, seconds: float, tokens: list[str]) -> list[float]:
    """Latencies of reads, each second client with a new connection for every request."""
    found: list[float] = []
    end = time.monotonic() + seconds

    async def client(number: int, token: str) -> None:
        await asyncio.sleep(PAUSE * number / len(tokens))
        reader = writer = None
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                if writer is None or number % 2:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                assert reader is not None
                writer.write(request("/v1/infra/get", token, length=len(BODY)) + BODY)
                status = await answered(reader)
            except (OSError, asyncio.IncompleteReadError):
                status, writer = 0, None
            found.append(time.monotonic() - began if status == 200 else UNANSWERED)
            if writer is not None and number % 2:
                writer.close()
            await asyncio.sleep(PAUSE)

    await asyncio.gather(*(client(number, token) for number, token in enumerate(tokens)))
    return found


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def _slow_header(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for byte in request("/v1/infra/get", UNKNOWN, length=10):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1)


async def _byte_by_byte(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def _large_header(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /health HTTP/1.1\r\nX: " + b"x" * (60 << 10))
    await reader.read()


async def _requests_without_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(request("/health", method="GET", length=0) * 100)
        await writer.drain()
        if not await reader.read(1 << 16):
            return


async def _large_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(request("/v1/infra/put", UNKNOWN, length=4 << 20))
    for _ in range(64):
        writer.write(bytes(64 << 10))
        await writer.drain()
    await reader.read()


async def _chunked_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(request("/mcp"))
    for _ in range(64):
        writer.write(b"10000\r\n" + bytes(64 << 10) + b"\r\n")
        await writer.drain()


async def _kept_alive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(request("/health", method="GET", length=0))
        await answered(reader)
        await asyncio.sleep(2)


async def _not_reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(request("/v1/openapi.json", method="GET", length=0) * 20)
    await asyncio.sleep(60)


async def _slow_form(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = request("/ui/in", length=8 << 10).replace(b"json", b"x-www-form-urlencoded")
    writer.write(head + bytes(4 << 10))
    await reader.read()


KINDS = (
    _silent,
    _slow_header,
    _large_header,
    _byte_by_byte,
    _large_body,
    _chunked_body,
    _slow_form,
    _kept_alive,
    _requests_without_end,
    _not_reading,
)


async def hostile(port: int, count: int, seed: int) -> None:
    """Connections that come again whenever they are dropped."""

    chance = random.Random(seed)

    async def client(number: int) -> None:
        await asyncio.sleep(chance.random())
        address = f"127.9.{number % ADDRESSES}.1"
        while True:
            with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
                try:
                    await KINDS[number // ADDRESSES % len(KINDS)](reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(BACK * (1 + chance.random()))

    await asyncio.gather(*(client(number) for number in range(seed * count, seed * count + count)))


if __name__ == "__main__":
    mode, port, *rest = sys.argv[1:]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if mode == "honest":
        print(json.dumps(asyncio.run(honest(int(port), float(rest[0]), rest[1:]))))
    else:
        os.nice(19)  # measure the hub, not the competition for processors
        if sys.platform == "linux":
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        asyncio.run(hostile(int(port), int(rest[0]), int(rest[1])))
