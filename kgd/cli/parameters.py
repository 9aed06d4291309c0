"""Options of the command line as parameters of a call. Values are checked by the daemon."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kgd.config import person_environment
from kgd.errors import Invalid
from kgd.git import is_revision

Options = dict[str, Any]
"""The given options by name."""


def place(options: Options) -> Options:
    """The options, with the environment that git needs for a remote: the daemon may run in another session."""
    return {**options, "environment": person_environment()}


def program() -> str:
    """``kgd`` if it is on the PATH, otherwise its full path, so that a printed command can be pasted."""
    return "kgd" if shutil.which("kgd") else os.path.abspath(sys.argv[0])


def put(options: Options) -> Options:
    if source := options.pop("changes", None):
        call, rest = _call(options)
        if rest:
            raise Invalid(f"--changes cannot be combined with other options; leave out {', '.join(rest)}")
        return {**call, "changes": _changes(source)}
    data = partial(_object, option="--data", example='{"owner": "ann"}')
    return _one_change("upsert", _read(options, content=text_of, detail=_file, data=data, relations=_relations))


def diff(options: Options) -> Options:
    """Read `A B` as `A..B`, as git does, if the second is a revision and not a URI."""
    if is_revision(options.get("uri", "")) and ".." not in options["range"]:
        return {**options, "range": f"{options['range']}..{options['uri']}", "uri": None}
    return options


def append(options: Options) -> Options:
    return _one_change("append", _read(options, text=text_of))


def rm(options: Options) -> Options:
    call, change = _call(options)
    uris = change.pop("uris")
    return {**call, "changes": [{"op": "delete", "uri": uri, **change} for uri in uris]}


def _one_change(op: str, options: Options) -> Options:
    call, change = _call(options)
    return {**call, "changes": [{"op": op, **change}]}


mv, link, unlink = (partial(_one_change, op) for op in ("move", "relate", "unrelate"))


def tag(options: Options) -> Options:
    return _one_change("untag" if options.pop("remove", False) else "tag", options)


def remember(options: Options) -> Options:
    return _read(options, detail=_file, text=text_of)


def comment(options: Options) -> Options:
    return _read(options, text=text_of)


def forget(options: Options) -> Options:
    source = options.pop("file", "-")
    if source == "-" and sys.stdin.isatty():
        import getpass

        return {**options, "secret": getpass.getpass("Secret: ")}
    return {**options, "secret": _file(source)}


def search(options: Options) -> Options:
    query = " ".join(options.pop("query", []))
    return {**options, "query": query} if query else options


def traverse(options: Options) -> Options:
    return _read(options, max_cost=_cost)


def path(options: Options) -> Options:
    return traverse({**options, "start": [options["start"]], "include": ["alternatives"]})


def import_(options: Options) -> Options:
    return _read(options, source=_absolute)


def export(options: Options) -> Options:
    return traverse(_read(options, target=_absolute))


def show(options: Options) -> Options:
    uri = options.pop("uri")
    # Incoming relations of a thread are its messages, which are shown whole.
    beside = "messages" if uri.startswith("thread:") else "incoming"
    return {**options, "uris": [uri], "include": ["content", "relations", beside, "history"], "budget": 40_000}


def resolve(options: Options) -> Options:
    ids, take, fields = options.pop("ids"), options.pop("take", None), options.pop("fields", None)
    example = '{"summary": "the new text"}'
    decided = {"take": take} if fields is None else {"fields": _object(fields, "--fields", example)}
    if take is not None and fields is not None:
        raise Invalid("give either --take or --fields")
    return {**options, "resolutions": [{"id": id, **decided} for id in ids]}


def submit(options: Options) -> Options:
    return _read(options, changes=_changes)


def text_of(given: str) -> str:
    """The text, or standard input for ``-``.

    Raises:
        Invalid: The text is ``@FILE``, by which other programs mean the content of a file.
    """
    if given.startswith("@") and os.path.isfile(given[1:]):
        advice = f"To pass the content of the file, write `-` instead and add `< {given[1:]}`."
        raise Invalid("this text is the name of a file", at=given, next=advice)
    return sys.stdin.read() if given == "-" else given


def _absolute(path: str) -> str:
    """The absolute path, because the daemon runs in another directory; ``-`` stays."""
    return path if path == "-" else os.path.abspath(os.path.expanduser(path))


def _read(options: Options, **readers: Callable[[Any], Any]) -> Options:
    """The options, with each given value that has a reader replaced by its result."""
    return options | {name: read(options[name]) for name, read in readers.items() if name in options}


def _call(options: Options) -> tuple[Options, Options]:
    """(parameters of the call, fields of the change)."""
    mine = ("workspace", "message", "request_id", "dry_run")
    return {k: v for k, v in options.items() if k in mine}, {k: v for k, v in options.items() if k not in mine}


def _relations(texts: Iterable[str]) -> list[dict[str, Any]]:
    return list(map(_relation, texts))


def _relation(text: str) -> dict[str, Any]:
    """``TYPE:TARGET`` or ``TYPE:TARGET@WEIGHT``."""
    type, colon, target = text.partition(":")
    if not colon or not target:
        raise Invalid("a relation must have the form TYPE:TARGET or TYPE:TARGET@WEIGHT", at="--relations")
    head, at, weight = target.rpartition("@")
    try:
        return {"type": type, "target": head, "weight": float(weight)} if at else {"type": type, "target": target}
    except ValueError:
        return {"type": type, "target": target}


def _cost(text: str) -> float | None:
    """A cost; None for no limit."""
    try:
        return None if text in ("none", "null") else float(text)
    except ValueError:
        raise Invalid("--max-cost must be a number or 'none'") from None


def _object(text: str, option: str, example: str) -> dict[str, Any]:
    """The JSON object in the value of an option."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Invalid("this must be a JSON object", at=option, next=f"For example, {option} '{example}'.")
    return found


def _changes(source: str) -> Any:
    """The JSON changes in a file, or in standard input for ``-``."""
    at, text, where = "standard input" if source == "-" else source, _file(source), ""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        found, where = None, f": there is an error in line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list | dict):
        example = '[{"op": "upsert", "uri": "services/auth", "summary": "Signs tokens"}]'
        raise Invalid(f"this is not a list of changes in JSON{where}", at=at, next=f"For example, {example}.")
    return found


def _file(source: str) -> str:
    if source == "-":
        return sys.stdin.read()
    try:
        with open(source, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Invalid(f"this file cannot be read: {error.strerror}", at=source) from None
    except UnicodeDecodeError:
        raise Invalid("this file is not UTF-8 text", at=source) from None
