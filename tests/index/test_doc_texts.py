"""Texts that were read from git are kept in memory up to a size."""

from __future__ import annotations

import pytest

from kgd.index import doc_texts
from kgd.index.doc_texts import RecentTexts, Text
from kgd.model.uri import Uri

A, B, C = (Uri(f"concept://w/{name}") for name in "abc")


def test_the_most_recently_used_texts_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doc_texts, "BYTES_KEPT", 2 * doc_texts.OVERHEAD + 25)
    read: list[Uri] = []

    def reader(uri: Uri, blob: bytes) -> Text:
        read.append(uri)
        return Text("x" * 10, "", "", "", "")

    texts = RecentTexts(reader)
    for uri in (A, B, A, C, A, B):
        assert texts(uri, b"1").name == "x" * 10
    assert read == [A, B, C, B], "a was used again before c displaced the oldest text, b"
    texts(A, b"2")
    assert read[-1] == A, "another blob is another text"
