"""The positions that a hub's client remembers and sends."""

from __future__ import annotations

from kgd.sync.hubs import KEPT_SECONDS, MOST, Positions

A, B, C = ("a" * 40, "b" * 40, "c" * 40)


def test_a_read_replaces_the_positions_that_it_carried() -> None:
    known = Positions()
    known.answered("infra", A, [])
    known.answered("infra", B, known.of("infra"))
    assert known.of("infra") == [B]
    assert known.of("shop") == []


def test_answers_to_concurrent_requests_lose_no_position() -> None:
    """A slow read that was sent before a write must not hide the write."""
    known = Positions()
    known.answered("infra", A, [])
    sent = known.of("infra")
    known.answered("infra", B, [])
    known.answered("infra", C, sent)
    assert known.of("infra") == [B, C]


def test_positions_are_bounded_in_number_and_age() -> None:
    now = [0.0]
    known = Positions(lambda: now[0])
    for number in range(2 * MOST):
        known.answered("infra", f"{number:040x}", [])
    assert known.of("infra") == [f"{number:040x}" for number in range(MOST, 2 * MOST)]
    now[0] += KEPT_SECONDS + 1
    assert known.of("infra") == []


def test_a_header_that_is_no_position_is_ignored() -> None:
    known = Positions()
    for wrong in ("", "x", "a" * 39, f"{A}\n", f"{A}, {B}"):
        known.answered("infra", wrong, [])
    assert known.of("infra") == []
