"""The judgement of an answer, and the figures of many.

Answers have two lists, `hits` (`items` of `context`) for knowledge and `code` for the code tree. An answer without
`code` has one list for both.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.finding.sets import Question
from kgd.model.uri import namespace_of, path_of, scheme_of

FIRST, AT = 3, 5
Hit = dict[str, Any]
_OVERLOAD = re.compile(r"~\d+(?=\.|$)")


@dataclass(frozen=True, slots=True)
class Asked:
    """One question and its answer. `rank` is the place of the answer in its list, None if it is absent.

    `follow_up` is a `get` that an agent needs to read the answer, as sent.
    """

    question: Question
    knowledge: Sequence[Hit]
    code: Sequence[Hit] | None
    rank: int | None
    milliseconds: float
    sent: str
    follow_up: str = ""

    @property
    def listed(self) -> Sequence[Hit]:
        """The list that the question is about."""
        return self.knowledge if self.code is None or self.question.kind in ("knowledge", "nothing") else self.code

    def within(self, places: int) -> bool:
        return self.rank is not None and self.rank <= places


def lists(answer: dict[str, Any]) -> tuple[list[Hit], list[Hit] | None]:
    """The knowledge and the code of an answer; None for `code` if there is a single list."""
    return answer["hits"] if "hits" in answer else answer["items"], answer.get("code")


def rank(listed: Iterable[Hit], right: Callable[[str], bool]) -> int | None:
    return next((place for place, hit in enumerate(listed, 1) if right(hit["uri"])), None)


def is_answer(question: Question, node: str) -> Callable[[str], bool]:
    """Whether a URI answers the question: the node, the symbol or its file, or anything in the file."""
    if question.answer:
        return lambda uri: uri == node

    def right(uri: str) -> bool:
        place = namespace_of(uri) if scheme_of(uri) == "chunk" else path_of(uri)
        if question.symbol:
            place = _OVERLOAD.sub("", place)
            return any(place in (path, f"{path}/{question.symbol}") for path in question.paths)
        return any(place == path or place.startswith(f"{path}/") for path in question.paths)

    return right


def share(found: Iterable[bool]) -> float:
    listed = list(found)
    return sum(listed) / len(listed) if listed else 0.0


def mean(found: Iterable[float]) -> float:
    listed = list(found)
    return statistics.fmean(listed) if listed else 0.0
