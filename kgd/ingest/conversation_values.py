"""Conversations as read from a source, and the values in files of any program: JSON, times, senders, content blocks.

A conversation consists of messages. Each has a sender, a time and the message that it answers. Where the conversation
is stored does not matter. An error in the source is a line of `trouble`, never an exception.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from kgd.errors import MALFORMED
from kgd.model.escaping import one_line

LONGEST_MOMENT = 64
"""Largest number of characters of a date."""
_BLANK = re.compile(r"[ \t\r\n]*")

_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("user", "human", "me", "you", "customer"), "user"),
    **dict.fromkeys(("assistant", "ai", "bot", "model", "claude", "chatgpt", "gpt"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function", "tool_result", "ipython"), "tool"),
    "agent": "agent",
}
_WRITTEN = (
    "%I:%M %p on %d %B, %Y",
    "%d %B %Y",
    "%d %B, %Y",
    "%d %b %Y",
    "%B %d, %Y",
    "%b %d, %Y",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d.%m.%Y",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%d %B %Y %H:%M",
    "%B %d, %Y %H:%M",
    "%B %d, %Y %I:%M %p",
    "%B %d, %Y at %I:%M %p",
    "%a %b %d %H:%M:%S %Y",
)
_YEAR = re.compile(r"\d{4}")
_SURROGATE = re.compile("[\ud800-\udfff]")


def moment(value: Any) -> int | None:
    """Unix milliseconds of a time: a number of any unit, ISO 8601, or a written date. None if it is not a time.

    A time without a time zone is UTC.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return _counted(value)
    if not isinstance(value, str) or not 4 <= len(value) <= LONGEST_MOMENT:
        return None
    text = value.strip()
    if re.fullmatch(r"\d{9,19}(\.\d{1,9})?", text):
        return _counted(float(text))
    found = _iso(text) or _by_mail(text) or _written(text)
    if found is None:
        return None
    try:
        return _known(int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        return None


def _counted(number: int | float) -> int | None:
    """The time of a number in seconds; a time too far in the future is read as milliseconds, then as microseconds,
    ..."""
    if not 0 < number < 1e20:
        return None
    while number >= 1e11:
        number /= 1000
    return _known(round(number * 1000))


def _known(milliseconds: int) -> int | None:
    return milliseconds if OLDEST_KNOWN <= milliseconds < 1 << 47 else None


def _iso(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _by_mail(text: str) -> datetime | None:
    if not text[:1].isalnum() or ":" not in text:
        return None
    try:
        return parsedate_to_datetime(text)
    except MALFORMED:
        return None


def _written(text: str) -> datetime | None:
    if _YEAR.search(text) is None:  # trying each form costs more than everything else in a line
        return None
    plain = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", text)
    for form in _WRITTEN:
        try:
            return datetime.strptime(plain, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def clean(text: str) -> str:
    """The text in storable form: lone surrogates become U+FFFD, CRLF becomes LF."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\r\n", "\n")


def line(value: Any, limit: int = 255) -> str:
    """A name or an id as one printable line of at most `limit` characters; empty unless it is text or a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    text = clean(str(value)[: 4 * limit])
    return one_line(text)[:limit]


def kind_of(word: str) -> Kind | None:
    """The kind of sender for a role; None for a person's name."""
    return _KINDS.get(word.strip().lower())


def loads(text: str | bytes) -> Any:
    """The JSON value of a text.

    Raises:
        ValueError: The text is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def json_lines(text: str, trouble: list[str]) -> Iterator[tuple[str, Any]]:
    """The value of each line with its place; `trouble` gets a line for each line that is not JSON."""
    for number, raw in enumerate(text.split("\n"), 1):
        if stripped := raw.strip(" \t\r\ufeff"):
            try:
                yield f"line {number}", loads(stripped)
            except ValueError as error:
                trouble.append(f"line {number}: not JSON ({str(error).partition(': line ')[0][:80]})")


def elements(text: str, trouble: list[str]) -> Iterator[tuple[str, Any]]:
    """The elements of a long JSON list one at a time, with their places from 1.

    If the list breaks off, `trouble` gets a line, and no more elements follow. The same happens at an element that is
    nested too deeply, because its end is unknown.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse)
    at, number = _after(text, text.index("[") + 1), 1
    while at < len(text) and text[at] != "]":
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            why = "nested too deeply" if isinstance(error, RecursionError) else "it breaks off, or is not JSON"
            trouble.append(f"element {number}: {why}; the remaining elements could not be read")
            return
        yield f"element {number}", value
        at = _after(text, at)
        if at < len(text) and text[at] == ",":
            at = _after(text, at + 1)
        elif at < len(text) and text[at] != "]":
            trouble.append(f"element {number}: it is not followed by a comma; the remaining elements could not be read")
            return
        number += 1
    if at >= len(text):
        trouble.append(f"the list breaks off after element {number - 1}")


def _after(text: str, at: int) -> int:
    """The position of the next character that is not whitespace."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def read_list(text: str, convert: Callable[[Any, str, list[str]], Conversation | None]) -> Read:
    """The conversations in a JSON list. `convert` makes one from an element, its place, and the list of problems."""
    trouble: list[str] = []
    found = [convert(value, place, trouble) for place, value in elements(text, trouble)]
    return Read(tuple(one for one in found if one is not None), tuple(trouble))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def as_text(value: Any) -> str:
    """A value as text to store: a text unchanged, anything else as compact JSON."""
    if isinstance(value, str):
        return clean(value)
    try:
        return clean(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    except (RecursionError, ValueError):
        return "(nested too deep)"


@dataclass(slots=True)
class Blocks:
    """The content blocks of one message. `results` are results of tools: (id of the call, text)."""

    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n\n".join(filter(None, self.texts))


def blocks(value: Any, left_out: Counter[str]) -> Blocks:
    """Text, tool calls and results in the content of a message, in any program's form.

    For any other block, only its kind is kept, in brackets, and `left_out` counts it. Thoughts are counted and dropped.
    """
    found = Blocks()
    for block in value if isinstance(value, list) else [value]:
        if isinstance(block, str):
            found.texts.append(clean(block))
        elif isinstance(block, Mapping):
            _block(block, found, left_out)
        elif block is not None:
            found.texts.append(as_text(block))
    return found


def _block(block: Mapping[str, Any], found: Blocks, left_out: Counter[str]) -> None:
    kind = line(block.get("type") or block.get("content_type"), 40) or "block"
    text = next((block[key] for key in ("text", "input_text", "output_text") if isinstance(block.get(key), str)), None)
    match kind:
        case "thinking" | "redacted_thinking" | "reasoning" | "thoughts" | "reasoning_recap":
            left_out[kind] += 1
        case "tool_use" | "server_tool_use" | "tool_call" | "function_call":
            found.calls += calls([block])
        case _ if kind.endswith("tool_result") or kind == "function_call_output":
            inner = blocks(block.get("content", block.get("output")), left_out)
            id = line(block.get("tool_use_id") or block.get("call_id"))
            found.results.append((id, inner.text or ("(error)" if block.get("is_error") else "(no output)")))
        case _ if text is not None:
            found.texts.append(clean(text))
        case _:
            left_out[kind] += 1
            name = line(block.get("file_name") or block.get("name") or block.get("title"), 120)
            found.texts.append(f"[{kind}: {name}]" if name else f"[{kind}]")


def calls(value: Any) -> Iterator[ToolCall]:
    """Tool calls in any program's form: name and arguments, possibly in an inner `function`."""
    for call in value if isinstance(value, list) else []:
        if not isinstance(call, Mapping):
            continue
        function = call.get("function")
        inner: Mapping[str, Any] = function if isinstance(function, Mapping) else call
        given = next((inner[key] for key in ("arguments", "input", "args", "parameters") if key in inner), "")
        name = line(inner.get("name") or call.get("tool") or "tool")
        arguments = as_text(given) if given not in ("", None) else ""
        yield ToolCall(name, arguments, line(call.get("id") or call.get("call_id")))


def messages(found: Blocks, base: SourceMessage) -> list[SourceMessage]:
    """The messages for these blocks: `base` with text and calls, then one message for each tool result. Empty if there
    are no texts, calls or results.
    """
    made = [replace(base, text=found.text, tool_calls=tuple(found.calls))] if found.text or found.calls else []
    for number, (call, text) in enumerate(found.results, 1):
        if not made:
            made.append(replace(base, text=text, sender="tool", kind="tool", answers=call))
            continue
        id = f"{base.id}/{number}" if base.id else ""
        made.append(
            SourceMessage(text, "tool", "tool", base.at, id, made[-1].id or None, base.id, call, place=base.place)
        )
    return made


def report(left_out: Mapping[str, int], place: str) -> list[str]:
    """A line about the blocks that were left out, if any."""
    if not left_out:
        return []
    kinds = ", ".join(f"{kind} ({count})" for kind, count in sorted(left_out.items())[:8])
    return [f"{place}: blocks without text were left out: {kinds}"]


def first_of(value: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The value of the first of these keys that is not empty."""
    return next((value[key] for key in keys if value.get(key) not in (None, "", [], {})), None)


def in_order(unordered: Sequence[SourceMessage]) -> tuple[SourceMessage, ...]:
    """The messages by time; a message without a time stays after the message before it."""
    keyed, last = [], 0
    for number, one in enumerate(unordered):
        last = one.at if one.at is not None else last
        keyed.append((last, number, one))
    return tuple(one for _, _, one in sorted(keyed, key=lambda key: key[:2]))


OLDEST_KNOWN = 1_000
"""Milliseconds since 1970; smaller numbers are counters of messages without a date."""

Kind = str
"""Kind of sender: user, assistant, system, tool, or a source's own word."""

Status = Literal["open", "closed", "archived"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is the text in the source, usually JSON."""

    name: str
    arguments: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """One message of a source.

    `at` is in Unix milliseconds. `id` is the source's own id, unique in its conversation. `parent` is the id of the
    message it answers: None if unknown, which means the previous message; "" if it answers no message. Replies to the
    message in `closes` follow this message instead, because a tool's result belongs to its call. `place` is its
    location in the source.
    """

    text: str
    sender: str = ""
    kind: Kind = "user"
    at: int | None = None
    id: str = ""
    parent: str | None = None
    closes: str = ""
    answers: str = ""
    """Id of the tool call with this result."""
    tool_calls: tuple[ToolCall, ...] = ()
    place: str = ""
    title: str = ""
    """The title, if the message is a document."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One thread. `id` is the source's own id; if empty, the name that the caller gave the source is used.

    `status` is None if unknown. `gone` maps the ids of empty messages to the ids that they answered (None: unknown), so
    that replies can skip them.
    """

    messages: tuple[SourceMessage, ...]
    id: str = ""
    title: str = ""
    participants: tuple[str, ...] = ()
    status: Status | None = None
    gone: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Read:
    """All conversations of a source. `trouble` has a line for each part that was left out or changed."""

    conversations: tuple[Conversation, ...]
    trouble: tuple[str, ...] = ()
