"""Output of an answer: JSON for programs, text for a person."""

from __future__ import annotations

import sys
from typing import Any

from kgd.cli.commands import function


def show(printer: str, answer: dict[str, Any], options: dict[str, Any]) -> None:
    """Print an answer as JSON or for reading."""
    if options.get("json"):
        import json

        sys.stdout.write(json.dumps(answer, ensure_ascii=False, indent=2) + "\n")
    elif not options.get("quiet"):
        from kgd.cli import advice, printing, terminal

        answer = advice.advice(answer)
        if printer != "printing_exchange.exported" or sys.stdout.isatty():  # a file keeps the bytes
            answer = terminal.clean(answer)
        function(printer)(answer)
        if answer.get("cursor"):
            printing.more(answer, options)
    sys.stdout.flush()
