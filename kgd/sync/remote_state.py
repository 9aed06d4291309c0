"""The sync state of one remote between rounds: results, pending decisions, and the time of the next attempt.

This module has only values and rules: time and randomness are arguments. The caller runs the rounds and reports how
each one ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from kgd.errors import KgdError
from kgd.git.objects import ObjectId
from kgd.git.remote_errors import Trouble
from kgd.git.remote_settings import Remote, is_local
from kgd.sync.round import Done, Wait
from kgd.workspace.answers import Stage

NEAR, FAR = 5.0, 15.0
"""Seconds between two polls: `NEAR` for a directory or a hub, `FAR` for any other remote."""
LAZY, LAZY_AFTER = 60.0, 600.0
"""The interval between polls once there was no change for `LAZY_AFTER` seconds."""
FIRST_BACKOFF, LAST_BACKOFF = 1.0, 300.0
PATIENT = tuple(
    """
    host-key certificate redirect credentials refused newer unrelated other-workspace vanished protocol ownership
    bad-objects
    """.split()
)
"""Troubles that a person has to fix; retried at a slower rate."""
PATIENT_BACKOFF = 30.0
DECIDED_THERE = ("proposed", "rejected")
"""Kinds of `Wait` that concern only the push; fetching continues."""
AFTER_FETCH = ("proposal", *DECIDED_THERE)


class Now(NamedTuple):
    """Wall-clock time for display, and monotonic seconds for waiting."""

    wall: float
    tick: float


@dataclass(slots=True)
class Machine:
    """The state of one remote. `moved_at` and `next_at` are ticks; other times are wall-clock time."""

    remote: Remote
    near: bool = False
    last_success: float | None = None
    fetched_at: float | None = None
    pushed_at: float | None = None
    moved_at: float = 0.0
    theirs: ObjectId | None = None
    trouble: KgdError | None = None
    trouble_stage: str = ""
    since: float | None = None
    failures: int = 0
    next_at: float = 0.0
    waits: tuple[Wait, ...] = ()
    refused: dict[ObjectId, Trouble] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """``ok``, ``waiting`` (for a retry, or a decision on the remote), ``blocked``, ``diverged``, ``held`` or
        ``emptied``."""
        kinds = {wait.kind for wait in self.waits}
        for kind in ("diverged", "held", "emptied"):
            if kind in kinds:
                return kind
        if self.trouble is None:
            return "held" if "rejected" in kinds else "waiting" if "proposed" in kinds else "ok"
        return "blocked" if self.failures > 2 or self._is_stuck() else "waiting"

    def interval(self, tick: float) -> float:
        """Seconds until the next periodic round; 0 for manual sync only."""
        if self.remote.seconds is not None:
            return self.remote.seconds
        usual = NEAR if self.near or is_local(self.remote) else FAR
        return LAZY if tick - self.moved_at > LAZY_AFTER else usual

    def record_success(self, done: Done, now: Now, chance: Random) -> None:
        """Record a round without an error; decisions may still be pending."""
        moved = bool(done.pulled or done.pushed) or done.theirs != self.theirs
        self.theirs = done.theirs
        self.moved_at = now.tick if moved else self.moved_at
        self.waits, self.trouble, self.trouble_stage, self.failures = tuple(done.waits), None, "", 0
        stuck = any(wait.kind not in AFTER_FETCH for wait in done.waits)
        self.since = (self.since or now.wall) if done.waits else None
        if not stuck:
            self.last_success = self.fetched_at = now.wall
            if done.stage == "push" and not any(wait.kind in DECIDED_THERE for wait in done.waits):
                self.pushed_at = now.wall
        self._plan(now.tick, self.interval(now.tick), chance)

    def record_failure(self, error: KgdError, stage: str, now: Now, chance: Random) -> None:
        """Record a failed round, and plan the next round with exponential backoff."""
        if stage == "push":
            self.fetched_at = now.wall
        self.since = self.since or now.wall
        self.trouble, self.trouble_stage, self.failures = error, stage or "fetch", self.failures + 1
        first = PATIENT_BACKOFF if self._is_stuck() else FIRST_BACKOFF
        pause = min(LAST_BACKOFF, first * 2 ** min(self.failures - 1, 12))
        if self.remote.seconds != 0:
            self._plan(now.tick, pause, chance)

    def wake(self, tick: float) -> bool:
        """Whether an event such as a commit starts a round now. No event starts a round while the remote is failing."""
        return self.trouble is None or (self.failures < 3 and not self._is_stuck()) or tick >= self.next_at

    def stages(self, suffix: str = "") -> tuple[Stage, Stage]:
        """The stages "fetch" and "push" for `kgd status`."""
        fetch = Stage(f"fetch{suffix}", "ok", self.fetched_at)
        push = Stage(f"push{suffix}", "off" if self.remote.direction == "pull" else "ok", self.pushed_at)
        held = [wait for wait in self.waits if wait.kind not in AFTER_FETCH]
        ours = [wait for wait in self.waits if wait.kind in DECIDED_THERE]
        proposals = [wait for wait in self.waits if wait.kind == "proposal"]
        if held:
            fetch = Stage(fetch.name, "blocked", self.fetched_at, f"{held[0].reason}. {held[0].next}", self.since)
        elif self.trouble is not None:
            state = "blocked" if self.state == "blocked" else "waiting"
            blocker = f"{self.remote.name}: {self.trouble}"
            if self.trouble_stage == "push":
                push = Stage(push.name, state, self.pushed_at, blocker, self.since)
            else:
                fetch = Stage(fetch.name, state, self.fetched_at, blocker, self.since)
        elif ours:
            state = "waiting" if ours[0].kind == "proposed" else "blocked"
            push = Stage(push.name, state, self.pushed_at, f"{ours[0].reason}. {ours[0].next}".rstrip(), self.since)
        if fetch.state != "ok" and push.state == "ok":  # a round pushes only after its fetch
            push = Stage(push.name, "waiting", self.pushed_at, f"{fetch.name} comes first", self.since)
        if proposals and fetch.state == "ok":
            fetch = Stage(fetch.name, "degraded", self.fetched_at, proposals[0].reason, self.since)
        return fetch, push

    def _is_stuck(self) -> bool:
        return isinstance(self.trouble, Trouble) and self.trouble.kind in PATIENT

    def _plan(self, tick: float, seconds: float, chance: Random) -> None:
        """Set `next_at`, with a jitter of 25 %, so that a team's daemons do not poll at the same time."""
        self.next_at = tick + seconds * (0.75 + chance.random() / 2) if seconds > 0 else float("inf")
