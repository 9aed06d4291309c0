"""This file is where `kgd ingest` is: it asks for a job, and waits for it as long as the person does."""

from __future__ import annotations

import os
import sys
from typing import Any

from kgd.cli.output import show
from kgd.cli.verbs import EXIT_CODES, INTERRUPTED
from kgd.cli.waiting import told
from kgd.client.connection import Connection
from kgd.config import Home
from kgd.errors import Unavailable

Given = dict[str, Any]

WAIT_SECONDS = 30
"""Of one call; then it is asked again."""


def ingest(given: Given, options: Given) -> int:
    """Returns when all is taken in. Interrupted, the job goes on without it."""
    source = given.get("source")
    if source == "-":
        given["text"] = sys.stdin.read()
        del given["source"]
    elif source and "://" not in source:
        given["source"] = os.path.abspath(os.path.expanduser(source))
    where = {"workspace": given["workspace"]} if "workspace" in given else {}
    try:
        with Connection(Home.find()) as connection, told("ingest", options) as progress:
            answer = connection.call("ingest", given, progress)
            while answer.get("state") == "running":
                where = {"workspace": answer["workspace"]}
                job = connection.call("job", {**where, "id": answer["job"], "wait": WAIT_SECONDS}, progress)
                answer = {**answer, **job, "job": job["id"]}
                answer.pop("next", None)
    except KeyboardInterrupt:
        sys.stderr.write("\nkgd: what began goes on by itself; `kgd status` says how far it is\n")
        return INTERRUPTED
    if answer.get("state") == "failed":
        raise Unavailable(
            answer.get("failure") or "it could not be taken in", next="`kgd ingest` goes on where it was."
        )
    show("printing_ingest.ingested", answer, options)
    counts = answer["counts"]
    nothing = (
        counts.get("unread") and not answer.get("nodes") and not any(name.endswith("_unchanged") for name in counts)
    )
    return EXIT_CODES["VALIDATION_ERROR"][0] if nothing else 0
