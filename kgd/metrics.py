"""Counters and histograms of this process, and their text in the Prometheus format, version 0.0.4.

The number of time series is bounded: labels beyond a metric's first `SERIES` combinations are counted as `other`.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SERIES = 200
OTHER = "other"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of a histogram of seconds."""


class Sample(NamedTuple):
    """One value. `suffix` follows the name of its family, such as `_bucket`."""

    value: float
    labels: Mapping[str, str] = {}
    suffix: str = ""


class Family(NamedTuple):
    """The samples of one metric. `kind` is counter, gauge or histogram."""

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]


class Counter:
    """A number that only grows, by the values of its labels. Thread-safe."""

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self._name, self._help, self._labels = name, help, labels
        self._lock, self._values = threading.Lock(), dict[tuple[str, ...], float]()

    def add(self, *values: str, amount: float = 1) -> None:
        with self._lock:
            key = _bounded(values, self._values)
            self._values[key] = self._values.get(key, 0) + amount

    def family(self) -> Family:
        with self._lock:
            found = dict(self._values) if self._labels else {(): self._values.get((), 0)}
        samples = [Sample(value, dict(zip(self._labels, key, strict=True))) for key, value in sorted(found.items())]
        return Family(self._name, "counter", self._help, samples)


class Histogram:
    """Observed values in buckets, by the values of its labels. Thread-safe."""

    def __init__(self, name: str, help: str, *labels: str) -> None:
        self._name, self._help, self._labels = name, help, labels
        self._lock = threading.Lock()
        self._found = dict[tuple[str, ...], list[float]]()
        """The count of each bucket, then the sum."""

    def observe(self, value: float, *values: str) -> None:
        with self._lock:
            counts = self._found.setdefault(_bounded(values, self._found), [0.0] * (len(SECONDS) + 2))
            counts[bisect_left(SECONDS, value)] += 1
            counts[-1] += value

    @contextmanager
    def timed(self, *values: str) -> Iterator[None]:
        """Observe the seconds that the block takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.observe(time.monotonic() - began, *values)

    def family(self) -> Family:
        with self._lock:
            found = {key: list(counts) for key, counts in self._found.items()}
        samples = []
        for key, counts in sorted(found.items()):
            labels, total = dict(zip(self._labels, key, strict=True)), 0.0
            for bound, count in zip((*map(str, SECONDS), "+Inf"), counts[:-1], strict=True):
                total += count
                samples.append(Sample(total, {**labels, "le": bound}, "_bucket"))
            samples += [Sample(counts[-1], labels, "_sum"), Sample(total, labels, "_count")]
        return Family(self._name, "histogram", self._help, samples)


REQUESTS = Counter("kgd_requests_total", "Requests answered over HTTP.", "surface", "operation", "code")
REQUEST_SECONDS = Histogram("kgd_request_seconds", "Seconds until an answer over HTTP begins.", "surface")
FLUSH_SECONDS = Histogram("kgd_flush_seconds", "Seconds for a batch of changes to become durable commits.")
FLUSHED_CHANGES = Counter("kgd_flushed_changes_total", "Changes in these batches.")
RACES = Counter("kgd_races_total", "Batches staged again because another hub wrote first.")
QUOTA_REFUSALS = Counter("kgd_quota_refusals_total", "Requests refused because a quota was used up.", "quota")
REPEATED = Counter("kgd_repeated_requests_total", "Writes answered from an earlier request with the same id.")
TEXT_CACHE = Counter(
    "kgd_text_cache_total", "Texts that searches read, from memory (hit) or from git (miss).", "result"
)


def counted() -> list[Family]:
    """The counters and histograms of this process."""
    known = (REQUESTS, REQUEST_SECONDS, FLUSH_SECONDS, FLUSHED_CHANGES, RACES, QUOTA_REFUSALS, REPEATED, TEXT_CACHE)
    return [one.family() for one in known]


def exposition(families: Iterable[Family]) -> str:
    """The text of these metrics."""
    lines = []
    for family in families:
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
        for value, labels, suffix in family.samples:
            inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(f"{family.name}{suffix}{f'{{{inside}}}' if inside else ''} {value:.10g}")
    return "\n".join(lines) + "\n"


def _bounded(key: tuple[str, ...], known: Mapping[tuple[str, ...], object]) -> tuple[str, ...]:
    return key if key in known or len(known) < SERIES else (OTHER,) * len(key)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
