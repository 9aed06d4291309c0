"""This file is where `kgd join` gets its token: from a pipe, or typed by a person and not shown."""

from __future__ import annotations

import sys
from typing import Any

from kgd.cli.output import show
from kgd.client.connection import Connection
from kgd.config import Home
from kgd.errors import Invalid

Given = dict[str, Any]
LONGEST = 1_000


def join(given: Given, options: Given) -> int:
    from kgd.http_client import Address

    args: Given = {name: given[name] for name in ("url", "replace") if name in given}
    Address.parse(args["url"])  # before anybody types a secret for it
    args["token"] = _token()
    with Connection(Home.find()) as connection:
        answer = connection.call("join", args)
    show("printing_sharing.joined", answer, options)
    return 0


def _token() -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        token = sys.stdin.readline(LONGEST + 1).strip() if sys.stdin else ""
    else:
        import getpass

        token = getpass.getpass("Token: ").strip()
    if not token or len(token) > LONGEST:
        raise Invalid("no token was given", at="token", next="Pipe it in: `kgd join URL < FILE`, or type it.")
    return token
