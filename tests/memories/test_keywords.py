"""Keywords: the same text gives the same tags everywhere, and they are what a reader would look for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from kgd.memories.keywords import keywords
from kgd.model.node import check_label

LABELLED = Path(__file__).with_name("labelled.yaml")


def test_of_sixty_labelled_texts_most_keywords_are_among_the_first_eight(capsys: pytest.CaptureFixture[str]) -> None:
    texts = YAML(typ="safe").load(LABELLED)
    assert len(texts) == 60
    shares = [len(set(one["keywords"]) & set(keywords(one["text"]))) / len(one["keywords"]) for one in texts]
    recall = sum(shares) / len(shares)
    with capsys.disabled():
        print(f"\nkeywords: recall at 8 over {len(texts)} labelled texts is {recall:.2f}")
    assert recall >= 0.6


@given(st.text(max_size=400), st.integers(0, 20))
def test_keywords_of_any_text_are_few_lowercase_and_valid_tags(text: str, limit: int) -> None:
    found = keywords(text, limit)
    assert len(found) == len(set(found)) <= limit
    for one in found:
        check_label(one, "tag")
        assert one == one.lower()
    assert found == keywords(text, limit) == keywords(text, limit + 5)[:limit]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("the API's rate limit was reached", "rate-limit"),
        ("call pg_dump before the deploy", "pg-dump"),
        ("fails in src/payments/webhook.py", "webhook"),
        ("raise ErrorResponse", "errorresponse"),
        ("Größe der Straße im E\u0301tat", "état"),
        ("支付接口限流", "支付接口限流"),
    ],
)
def test_a_technical_compound_is_one_keyword(text: str, wanted: str) -> None:
    assert wanted in keywords(text)


def test_the_version_of_a_protocol_stays_with_its_name() -> None:
    assert keywords("Hosts with IPv6 need brackets.") == ("ipv6", "brackets", "hosts")
    assert {"ipv4", "socket"} <= set(keywords("openIPv4Socket"))
    assert "pv4" not in keywords("openIPv4Socket")


def test_words_that_every_text_has_are_left_to_where_there_is_nothing_else() -> None:
    assert keywords("it is the same as it was, and so on") == ()
    assert keywords("Fixed a problem: the webhook was not called") == ("webhook",)
    assert keywords("Sync depends on the index, and hides the ones that fail") == ("index", "sync")
    assert keywords("It depends") == ("depends",)


def test_numbers_measures_and_commit_ids_are_no_keywords() -> None:
    assert keywords("3f9c2ab is 16ms, 3x of 1.5 and 3e-4 at 100%") == ()
