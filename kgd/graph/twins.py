"""This file is where names are found that some file systems would take for the same, such as `Auth` and `auth`."""

from __future__ import annotations

from collections.abc import Iterable

from kgd.model.uri import Uri, collision_key


class TwinIndex:
    """Nodes by collision key. Most URIs are their own key and need no entry, so it costs memory for the others only."""

    def __init__(self, uris: Iterable[Uri]) -> None:
        self._folded: dict[str, tuple[Uri, ...]] = {}
        for uri in uris:
            self.add(uri)

    def add(self, uri: Uri) -> None:
        if not _is_plain(uri):
            key = collision_key(uri)
            others = self._folded.get(key, ())
            if uri not in others:
                self._folded[key] = tuple(sorted((*others, uri)))

    def discard(self, uri: Uri) -> None:
        if not _is_plain(uri):
            key = collision_key(uri)
            left = tuple(u for u in self._folded.get(key, ()) if u != uri)
            if left:
                self._folded[key] = left
            else:
                self._folded.pop(key, None)

    def candidates(self, uri: Uri) -> list[Uri]:
        """Other URIs with the same key, in order; the first may not exist (it is only the key, read as a URI)."""
        key = collision_key(uri)
        plain = [Uri(key)] if _is_plain(key) and collision_key(key) == key else []
        return [u for u in (*plain, *self._folded.get(key, ())) if u != uri]


def _is_plain(uri: str) -> bool:
    """Whether the URI is its own collision key, told without computing it (0.1 us against 3)."""
    return uri.isascii() and uri.islower() and "%" not in uri
