"""Questions to models: how often a client is asked about one conflict, and for how long it is left alone."""

from __future__ import annotations

from kgd.resolution import AN_HOUR, STRIKES, Attempts


def test_a_client_that_answers_badly_is_asked_again_after_an_hour() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    for _ in range(STRIKES):
        attempts.asked(["c"], "bad")
        attempts.answered("c", "bad")
        attempts.failed("c", "bad")
    assert "no usable answer" in attempts.why_not("c", "bad")
    assert attempts.why_not("c", "good") == "", "another client may still answer"
    assert attempts.why_not("d", "bad") == ""
    now[0] = AN_HOUR + 1
    assert attempts.why_not("c", "bad") == ""
