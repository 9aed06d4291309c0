"""Working sets of conversations: LRU caches of URIs that live as long as the daemon."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock

from kgd.model.uri import Uri

DEFAULT_CAPACITY = 100
MAX_CONTEXTS = 1_000
MAX_ID = 128


class ActiveContext:
    """The nodes that one conversation saw most recently; the least recently used node is evicted first. Thread-safe."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.capacity = max(1, capacity)
        self._seen: OrderedDict[Uri, None] = OrderedDict()
        self._fresh = True
        self._lock = Lock()

    def touch(self, uris: Iterable[Uri]) -> list[Uri]:
        """Make these nodes the most recent, in this order with the last one newest, and return the evicted nodes,
        oldest first.

        If there are more URIs than the capacity, only the last ones stay, and the others are returned as evicted.
        """
        with self._lock:
            for uri in uris:
                self._seen[uri] = None
                self._seen.move_to_end(uri)
            surplus = len(self._seen) - self.capacity
            return [self._seen.popitem(last=False)[0] for _ in range(surplus)]

    def take_started_empty(self) -> bool:
        """True only on the first call, so that a new conversation gets one hint."""
        with self._lock:
            fresh, self._fresh = self._fresh, False
            return fresh

    @property
    def uris(self) -> list[Uri]:
        """The URIs, least recently used first."""
        with self._lock:
            return list(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, uri: object) -> bool:
        return uri in self._seen


class ContextStore:
    """The contexts of all conversations by id. At most `limit` contexts are kept; the least recently used context is
    dropped first.

    Args:
        randbytes: Source of ids; an id is a capability, so the source must be cryptographic.
    """

    def __init__(self, randbytes: Callable[[int], bytes], *, capacity: int = DEFAULT_CAPACITY) -> None:
        self._randbytes = randbytes
        self._capacity = max(1, capacity)
        self._contexts: OrderedDict[str, ActiveContext] = OrderedDict()
        self._lock = Lock()

    def open(self, context_id: str | None = None) -> tuple[str, ActiveContext]:
        """The context of that id, or a new one with a new id.

        If the id is unknown, because of a restart or because its context was dropped, an empty context is started under
        it, so that the conversation keeps its id. An invalid id is replaced.
        """
        usable = context_id and len(context_id) <= MAX_ID and context_id.isprintable()
        with self._lock:
            known = context_id if context_id and usable else f"ctx-{self._randbytes(16).hex()}"
            context = self._contexts.get(known)
            if context is None:
                context = self._contexts[known] = ActiveContext(self._capacity)
            self._contexts.move_to_end(known)
            while len(self._contexts) > MAX_CONTEXTS:
                self._contexts.popitem(last=False)
            return known, context

    def resize(self, capacity: int) -> None:
        """Set the capacity of every context; a larger context shrinks at its next touch."""
        capacity = max(1, capacity)
        with self._lock:
            if capacity != self._capacity:
                self._capacity = capacity
                for context in self._contexts.values():
                    context.capacity = capacity

    def seen(self, context_id: str) -> list[Uri]:
        """The nodes of a context, the most recent first; empty for an unknown id."""
        with self._lock:
            context = self._contexts.get(context_id)
        return context.uris[::-1] if context else []

    def __len__(self) -> int:
        return len(self._contexts)
