"""The memory servers: how each is started, filled and called, as its README tells a user and an agent.

Each has a home directory and an environment of its own, with the settings below. Durability is the default one.
Telemetry, advertisements and update checks are off.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import orjson

from bench import MEMORY_SERVER, RESULTS, machine
from bench.host import Host
from bench.house import KGD
from bench.peers.notes import Note
from kgd import __version__

PEERS = RESULTS / "peers"
GONE_WITHIN = 10.0
BATCH = 50
"""Notes stored at a time before the measurements."""
STORE_BATCHES = """
import asyncio, json, sys
from mcp_memory_service.config import SQLITE_VEC_PATH
from mcp_memory_service.models.memory import Memory
from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
from mcp_memory_service.utils.hashing import generate_content_hash

async def store(notes, size):
    storage = SqliteVecMemoryStorage(SQLITE_VEC_PATH)
    await storage.initialize()
    made = [Memory(text, generate_content_hash(text), tags=tags, memory_type=kind) for text, tags, kind in notes]
    for start in range(0, len(made), size):
        assert all(done for done, _ in await storage.store_batch(made[start:start + size]))

asyncio.run(store(json.load(open(sys.argv[1])), int(sys.argv[2])))
"""
"""For the Python of mcp-memory-service: FILE SIZE."""

Call = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


class Refused(Exception):
    """A tool answered with an error."""


class Server(ABC):
    """One server over its own data. `stop` ends all its processes."""

    name: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)
        self._hosts: list[Host] = []

    @classmethod
    def absent(cls) -> str:
        """Why it cannot be measured; empty if it is installed."""
        return ""

    @classmethod
    @abstractmethod
    def version(cls) -> str: ...

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def settings(self) -> dict[str, str]: ...

    @abstractmethod
    def write(self, note: Note) -> Call: ...

    @abstractmethod
    def search(self, words: str) -> Call: ...

    @abstractmethod
    def get(self, note: Note) -> Call: ...

    @abstractmethod
    def fill(self, notes: Sequence[Note]) -> None:
        """Store all notes before the measurements, the fastest way that leaves the same data as `write`."""

    @property
    def cwd(self) -> Path:
        return self.folder

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(self.folder), **self.settings()}

    def open(self) -> Host:
        """Start a process for a client, as a host does: `initialize`, then `tools/list`."""
        with open(self.folder.with_suffix(".log"), "ab") as log:
            host = Host(self.command(), self.environment, self.cwd, log)
        self._hosts.append(host)
        host.request("tools/list")
        return host

    def run(self, *command: str | Path) -> None:
        """Run one of its commands to its end."""
        with open(self.folder.with_suffix(".log"), "ab") as log:
            subprocess.run(command, stdout=log, stderr=log, env=self.environment, cwd=self.cwd, check=True)

    def pids(self) -> set[int]:
        return machine.processes_with(f"HOME={self.folder}")

    def memory_mb(self) -> float:
        """Resident memory of all its processes."""
        return machine.memory_of_all(self.pids())

    def disk_mb(self) -> float:
        return sum(path.lstat().st_blocks for path in self.folder.rglob("*")) * 512 / 2**20

    def stop(self) -> None:
        """Close all clients, then end what still runs, as a shutdown does."""
        self.close()
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + GONE_WITHIN
        while self.pids() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.kill()

    def kill(self) -> None:
        """Kill all its processes with SIGKILL, and wait until they are gone."""
        while self.pids():
            self._signal(signal.SIGKILL)
            time.sleep(0.01)
        self.close()

    def close(self) -> None:
        """Close all clients."""
        while self._hosts:
            self._hosts.pop().close()

    def _signal(self, number: int) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


class Kgd(Server):
    """A standalone workspace; the first `kgd mcp` starts the daemon, which other clients share."""

    name = "kgd"
    workspace = "notes"

    @classmethod
    def version(cls) -> str:
        return __version__

    def command(self) -> list[str]:
        return [*KGD, "mcp"]

    def settings(self) -> dict[str, str]:
        return {"KGD_HOME": str(self.folder / "home")}

    @property
    def cwd(self) -> Path:
        folder = self.folder / self.workspace
        folder.mkdir(exist_ok=True)
        return folder

    def fill(self, notes: Sequence[Note]) -> None:
        self.run(*KGD, "up", "--standalone", "--id", self.workspace)
        host = self.open()
        for start in range(0, len(notes), BATCH):
            changes = [self.change(note) for note in notes[start : start + BATCH]]
            call(host, ("put", {"changes": changes}))
        self.close()

    def change(self, note: Note) -> dict[str, Any]:
        return {
            "op": "upsert",
            "uri": self.uri(note),
            "type": note.kind,
            "name": note.title,
            "content": note.text,
            "tags": list(note.tags),
        }

    def uri(self, note: Note) -> str:
        return f"concept://{self.workspace}/{note.folder}/{_slug(note.title)}"

    def write(self, note: Note) -> Call:
        return "put", {"changes": [self.change(note)]}

    def search(self, words: str) -> Call:
        return "search", {"query": words}

    def get(self, note: Note) -> Call:
        return "get", {"uris": [self.uri(note)]}

    def stop(self) -> None:
        self.close()
        self.run(*KGD, "down", "--quiet")
        super().stop()


class ServerMemory(Server):
    """An entity for each note, a paragraph for each observation, in one JSON file."""

    name = "server-memory"

    @classmethod
    def absent(cls) -> str:
        return "" if MEMORY_SERVER.exists() else "npm could not install it"

    @classmethod
    def version(cls) -> str:
        return str(orjson.loads((MEMORY_SERVER.parents[1] / "package.json").read_bytes())["version"])

    def command(self) -> list[str]:
        return ["node", str(MEMORY_SERVER)]

    def settings(self) -> dict[str, str]:
        return {"MEMORY_FILE_PATH": str(self.folder / "memory.jsonl")}

    def fill(self, notes: Sequence[Note]) -> None:
        with open(self.folder / "memory.jsonl", "wb") as out:
            out.writelines(orjson.dumps({"type": "entity", **self.entity(note)}) + b"\n" for note in notes)

    def entity(self, note: Note) -> dict[str, Any]:
        return {"name": note.title, "entityType": note.kind, "observations": list(note.paragraphs)}

    def write(self, note: Note) -> Call:
        return "create_entities", {"entities": [self.entity(note)]}

    def search(self, words: str) -> Call:
        return "search_nodes", {"query": words}

    def get(self, note: Note) -> Call:
        return "open_nodes", {"names": [note.title]}


class InVenv(Server):
    """A server that `bench/install_peers.sh` installs into a virtual environment of its name."""

    @classmethod
    def absent(cls) -> str:
        reason = PEERS / f"{cls.name}.missing"
        if reason.exists():
            return reason.read_text().strip()
        return "" if (PEERS / cls.name / "installed").exists() else "pip could not install it"

    @classmethod
    def version(cls) -> str:
        found = (PEERS / cls.name).glob(f"lib/*/site-packages/{cls.name.replace('-', '_')}-*.dist-info")
        return next(found).name.removesuffix(".dist-info").rpartition("-")[2]

    def program(self, name: str) -> str:
        return str(PEERS / self.name / "bin" / name)


class BasicMemory(InVenv):
    """A Markdown file for each note, indexed in SQLite. Without embeddings, which need a download of a model."""

    name = "basic-memory"

    def command(self) -> list[str]:
        return [self.program("basic-memory"), "mcp"]

    def settings(self) -> dict[str, str]:
        return {
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
            "BASIC_MEMORY_NO_PROMOS": "1",
            "BASIC_MEMORY_AUTO_UPDATE": "false",
            "FASTMCP_CHECK_FOR_UPDATES": "off",
        }

    def fill(self, notes: Sequence[Note]) -> None:
        """Files as the server writes them, and its own command that indexes files."""
        for note in notes:
            folder = self.folder / "basic-memory" / note.folder
            folder.mkdir(parents=True, exist_ok=True)
            tags = "".join(f"- {tag}\n" for tag in note.tags)
            about = f"title: {note.title}\ntype: {note.kind}\npermalink: {self.permalink(note)}\ntags:\n{tags}"
            (folder / f"{note.title}.md").write_text(f"---\n{about}---\n\n{note.text}\n")
        self.run(self.program("basic-memory"), "reindex", "--search")

    def permalink(self, note: Note) -> str:
        return f"main/{note.folder}/{_slug(note.title)}"

    def write(self, note: Note) -> Call:
        named = {"title": note.title, "directory": note.folder, "note_type": note.kind, "tags": list(note.tags)}
        return "write_note", {**named, "content": note.text}

    def search(self, words: str) -> Call:
        return "search_notes", {"query": words}

    def get(self, note: Note) -> Call:
        return "read_note", {"identifier": self.permalink(note)}


class MemoryService(InVenv):
    """A row of SQLite for each note, without a model for embeddings, which needs a download.

    Its substitute for a model gives meaningless vectors, so that results are ranked by words alone. It has no tool
    that reads a memory by its name: reading is a search for the exact title.
    """

    name = "mcp-memory-service"

    def command(self) -> list[str]:
        return [self.program("memory"), "server"]

    def settings(self) -> dict[str, str]:
        return {
            "MCP_MEMORY_ALLOW_HASH_EMBEDDINGS": "1",
            "MCP_MEMORY_OFFLINE": "1",
            "MCP_HYBRID_KEYWORD_WEIGHT": "1",
            "MCP_HYBRID_SEMANTIC_WEIGHT": "0",
        }

    def fill(self, notes: Sequence[Note]) -> None:
        """By its own library, in batches, since its server has no tool for several memories."""
        file = self.folder / "notes.json"
        file.write_bytes(orjson.dumps([[self.content(note), note.tags, note.kind] for note in notes]))
        self.run(self.program("python"), "-c", STORE_BATCHES, file, str(BATCH))
        file.unlink()

    def content(self, note: Note) -> str:
        return f"{note.title}\n\n{note.text}"

    def write(self, note: Note) -> Call:
        metadata = {"tags": list(note.tags), "type": note.kind}
        return "memory_store", {"content": self.content(note), "metadata": metadata}

    def search(self, words: str) -> Call:
        return "memory_search", {"query": words, "mode": "hybrid"}

    def get(self, note: Note) -> Call:
        return "memory_search", {"query": note.title, "mode": "exact"}


SERVERS: tuple[type[Server], ...] = (Kgd, ServerMemory, BasicMemory, MemoryService)


def call(host: Host, asked: Call) -> str:
    """The text of a tool's answer.

    Raises:
        Refused: The tool answered with an error.
        ValueError, OSError: The server ended.
    """
    tool, arguments = asked
    answer = host.request("tools/call", {"name": tool, "arguments": arguments})
    if "error" in answer:
        raise Refused(f"{tool}: {answer['error']}"[:300])
    text = "\n".join(part.get("text", "") for part in answer["result"]["content"])
    if answer["result"].get("isError"):
        raise Refused(f"{tool}: {text}"[:300])
    return text


def holds(text: str, note: Note) -> bool:
    """Whether an answer contains the note's last paragraph, as text or within JSON."""
    return note.paragraphs[-1] in text


def _slug(title: str) -> str:
    return title.lower().replace(" ", "-")
