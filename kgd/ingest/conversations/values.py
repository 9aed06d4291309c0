"""Values in conversation files of any program: JSON lists and lines, times, senders, content blocks."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from kgd.ingest.conversations.source_messages import OLDEST_KNOWN, Conversation, Kind, Read, SourceMessage, ToolCall

LONGEST_MOMENT = 64
"""Characters of a date."""
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

    Without a time zone it is UTC.
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
    """Seconds, milliseconds, microseconds and so on: a number far in the future counts in the next smaller unit."""
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
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _written(text: str) -> datetime | None:
    if _YEAR.search(text) is None:  # trying each form costs more than the rest of a line
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
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:limit]


def kind_of(word: str) -> Kind | None:
    """The kind of sender for a role; None for a person's name."""
    return _KINDS.get(word.strip().lower())


def loads(text: str | bytes) -> Any:
    """The JSON value of a text.

    Raises:
        ValueError: It is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def json_lines(text: str, trouble: list[str]) -> Iterator[tuple[str, Any]]:
    """The value of each line with its place; `trouble` gets a line for each that is not JSON."""
    for number, raw in enumerate(text.split("\n"), 1):
        if stripped := raw.strip(" \t\r\ufeff"):
            try:
                yield f"line {number}", loads(stripped)
            except ValueError as error:
                trouble.append(f"line {number}: not JSON ({str(error).partition(': line ')[0][:80]})")


def elements(text: str, trouble: list[str]) -> Iterator[tuple[str, Any]]:
    """The elements of a long JSON list one at a time, with their places from 1.

    At a break in the list `trouble` gets a line, and the elements end. The same applies to an element nested too
    deeply, because its end is unknown.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse)
    at, number = _after(text, text.index("[") + 1), 1
    while at < len(text) and text[at] != "]":
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            why = "nested too deep" if isinstance(error, RecursionError) else "it breaks off, or is not JSON"
            trouble.append(f"element {number}: {why}; the rest could not be read")
            return
        yield f"element {number}", value
        at = _after(text, at)
        if at < len(text) and text[at] == ",":
            at = _after(text, at + 1)
        elif at < len(text) and text[at] != "]":
            trouble.append(f"element {number}: no comma follows it; the rest could not be read")
            return
        number += 1
    if at >= len(text):
        trouble.append(f"the list breaks off after element {number - 1}")


def _after(text: str, at: int) -> int:
    """The place of the next character that is not blank."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def read_list(text: str, convert: Callable[[Any, str, list[str]], Conversation | None]) -> Read:
    """The conversations in a JSON list. `convert` makes one of an element, given its place and the list of problems."""
    trouble: list[str] = []
    found = [convert(value, place, trouble) for place, value in elements(text, trouble)]
    return Read(tuple(one for one in found if one is not None), tuple(trouble))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def as_text(value: Any) -> str:
    """A value as stored text: itself, or compact JSON."""
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

    Of other blocks only the kind is kept, in brackets; `left_out` counts them. Thoughts are counted and dropped.
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
    if kind in ("thinking", "redacted_thinking", "reasoning", "thoughts", "reasoning_recap"):
        left_out[kind] += 1
    elif kind in ("tool_use", "server_tool_use", "tool_call", "function_call"):
        found.calls += calls([block])
    elif kind.endswith("tool_result") or kind == "function_call_output":
        inner = blocks(block.get("content", block.get("output")), left_out)
        id = line(block.get("tool_use_id") or block.get("call_id"))
        found.results.append((id, inner.text or ("(error)" if block.get("is_error") else "(no output)")))
    elif text is not None:
        found.texts.append(clean(text))
    else:
        left_out[kind] += 1
        name = line(block.get("file_name") or block.get("name") or block.get("title"), 120)
        found.texts.append(f"[{kind}: {name}]" if name else f"[{kind}]")


def calls(value: Any) -> list[ToolCall]:
    """Tool calls in any program's form: name and arguments, possibly in an inner `function`."""
    found = []
    for call in value if isinstance(value, list) else []:
        if not isinstance(call, Mapping):
            continue
        function = call.get("function")
        inner: Mapping[str, Any] = function if isinstance(function, Mapping) else call
        given = next((inner[key] for key in ("arguments", "input", "args", "parameters") if key in inner), "")
        name = line(inner.get("name") or call.get("tool") or "tool")
        arguments = as_text(given) if given not in ("", None) else ""
        found.append(ToolCall(name, arguments, line(call.get("id") or call.get("call_id"))))
    return found


def messages(found: Blocks, base: SourceMessage) -> list[SourceMessage]:
    """The messages for these blocks: `base` with text and calls, then one for each tool result.

    Empty without text, calls and results.
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
    """The messages by time; a message without a time stays behind the one before it."""
    keyed, last = [], 0
    for number, one in enumerate(unordered):
        last = one.at if one.at is not None else last
        keyed.append((last, number, one))
    return tuple(one for _, _, one in sorted(keyed, key=lambda key: key[:2]))
