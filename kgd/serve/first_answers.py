"""The recorder of answers that `kgd mcp` may give before the next daemon has started."""

from __future__ import annotations

import logging
from typing import Any

import orjson

from kgd.client import first_answers
from kgd.client.first_answers import FirstAnswers
from kgd.config import Home
from kgd.config.registry import RegistryFile

LIMIT = 48
"""Largest number of answers in the file; the oldest are dropped. Each client has its own `initialize`, and each modern
client its own lists.
"""
LENGTH_LIMIT = 2**18
"""Largest number of characters of an answer with its key; a longer answer is not kept."""

log = logging.getLogger("kgd.serve")


class Recorder:
    """Writes the file of `first_answers`. Belongs to the event loop. If it fails, the only effect is that the next
    start is slower."""

    def __init__(self, home: Home, registry: RegistryFile) -> None:
        self._home, self._registry = home, registry
        self._installation = first_answers.installation()
        """The stamp of the running code: once kgd is upgraded, this daemon no longer writes the file."""
        self._kept: FirstAnswers | None = None

    def remember(self, toolsets: str, version: str, method: str, parameters: Any, result: dict[str, Any]) -> None:
        """Keep an answer for a later client that sends the same request."""
        key = first_answers.key_of(toolsets, version, method, parameters)
        text = orjson.dumps(result).decode()
        if key is None or len(key) + len(text) > LENGTH_LIMIT:
            return
        answers = self._loaded().answers
        if answers.get(key) == text:
            self.confirm()
            return
        answers[key] = text
        while len(answers) > LIMIT:
            del answers[next(iter(answers))]
        self._settings_changed()
        self._write()

    def knows(self, toolsets: str, version: str, method: str, parameters: Any) -> bool:
        """Whether the same request was answered in the past."""
        return first_answers.key_of(toolsets, version, method, parameters) in self._loaded().answers

    def confirm(self) -> None:
        """Update the file to the current registry, so that the next client can use it."""
        if self._settings_changed() and self._loaded().answers:
            self._write()

    def _loaded(self) -> FirstAnswers:
        if self._kept is None:
            self._kept = first_answers.read(self._home, self._installation) or FirstAnswers()
        return self._kept

    def _settings_changed(self) -> bool:
        """Note the toolsets that the registry file chooses, if it can be read."""
        kept, stamp = self._loaded(), first_answers.registry_stamp(self._home)
        usual = first_answers.normal(self._registry.current().settings.tools)
        if self._registry.problem or stamp != first_answers.registry_stamp(self._home):
            return False
        before = kept.registry, kept.usual
        kept.registry, kept.usual = stamp, usual
        return (stamp, usual) != before

    def _write(self) -> None:
        try:
            if first_answers.installation() == self._installation != "":
                first_answers.write(self._home, self._installation, self._loaded())
        except OSError as error:
            log.info("the answers for the next start could not be written", extra={"reason": str(error)[:100]})
