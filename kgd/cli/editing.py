"""`kgd edit`: turns an edited node file into the changes of a `put`."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kgd.cli.commands import EXIT_CODES
from kgd.cli.output import missing, show
from kgd.client.connection import Connection
from kgd.codec import documents
from kgd.config import Home, editor
from kgd.errors import Invalid, KgdError, Unavailable
from kgd.model.change import Upsert, as_change, difference
from kgd.model.fields import from_answer
from kgd.model.node import Node

Given = dict[str, Any]
BUDGET = 1_000_000
ON_TERMINAL = ("vi", "vim", "nvim", "nano", "pico", "micro", "hx")
"""Editors that would wait forever, or show an error of their own, without a terminal."""


def edit(given: Given, options: Given) -> int:
    """Open an existing node in an editor and write the changes, expecting the version that was opened."""
    scope = {"workspace": given["workspace"]} if "workspace" in given else {}
    with Connection(Home.find()) as connection:
        found = connection.call("get", {"uris": [given["uri"]], "budget": BUDGET, **scope})
        if not found["nodes"]:
            missing(found)
            return EXIT_CODES["NOT_FOUND"][0]
        (answer,) = found["nodes"]
        before = from_answer(answer)
        with _kept_unless_done(before) as path:
            after = _edited(before, path)
            changes = changes_between(before, after, int(answer["version"]))
            if not changes:
                sys.stdout.write("nothing changed\n")
                return 0
            request = {"changes": changes, "request_id": os.urandom(12).hex(), **scope}
            for name in ("message", "dry_run"):
                if given.get(name):
                    request[name] = given[name]
            show("printing.put", connection.call("put", request), options)
    return 0


@contextlib.contextmanager
def _kept_unless_done(node: Node) -> Iterator[str]:
    """A file with the node's text for the editor. It is kept, and its path printed, unless the edit was saved."""
    original = documents.encode(node)
    handle, path = tempfile.mkstemp(prefix="kgd-edit-", suffix=".yaml")
    with open(handle, "wb") as file:
        file.write(original)
    try:
        yield path
    except BaseException:
        with open(path, "rb") as file:
            if file.read() == original:
                os.unlink(path)
            else:
                sys.stderr.write(f"kgd: your text is kept in {path}\n")
        raise
    os.unlink(path)


def changes_between(before: Node, after: Node, version: int) -> list[Given]:
    """The changes that turn `before` into `after`; empty if they are equal."""
    edits = difference(before, after)
    return [as_change(replace(one, expect_version=version) if isinstance(one, Upsert) else one) for one in edits]


def _edited(node: Node, path: str) -> Node:
    """The edited node. On a terminal, an error is shown and the editor can be opened again."""
    command = shlex.split(editor())
    if os.path.basename(command[0] if command else "") in ON_TERMINAL and not sys.stdin.isatty():
        raise Unavailable(
            f"the editor '{editor()}' needs a terminal",
            next="Set EDITOR to an editor with its own window, or change fields with `kgd put`.",
        )
    while True:
        try:
            subprocess.run([*command, path], check=True)
        except OSError as error:
            raise Unavailable(f"the editor cannot be started: {error}", next="Set EDITOR.") from error
        except subprocess.CalledProcessError as error:
            raise Unavailable(
                f"the editor '{editor()}' ended with {error.returncode}; nothing was changed",
                next="Set another EDITOR.",
            ) from error
        with open(path, "rb") as file:
            text = file.read()
        try:
            return documents.decode(text, at="node.yaml", expect=node.uri)
        except KgdError as error:
            if not sys.stdin.isatty():
                raise
            sys.stderr.write(f"kgd: {error}\n")
            if not _again():
                raise Invalid("not saved", at=node.uri) from None


def _again() -> bool:
    try:
        return not input("Edit again? [Y/n] ").strip().lower().startswith("n")
    except EOFError:
        return False
