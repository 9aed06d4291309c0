"""The weights of `kgd.retrieval.relevance`, checked on the evaluation sets: `python -m bench.finding.fitting FOLDER`.

Each tree is left out once. Weights fitted on the other trees (logistic regression) and the weights in use rank its
notes and decide which questions are answered. Uses `sets` and `further`, never the hold-out and unseen sets.
"""

from __future__ import annotations

import argparse
import logging
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from bench import RESULTS
from bench.finding import sets
from bench.finding.filled import Filled
from bench.finding.scoring import FIRST, share
from bench.finding.trees import TREES, fetched
from kgd.model.uri import Lane
from kgd.retrieval import relevance
from kgd.retrieval.candidates import Pool
from kgd.vectors.embedder import BUILTIN

Floats = NDArray[np.float64]
RIDGE = 0.01
"""Penalty of large weights, for standardised features."""
IN_USE = np.array(
    [
        BUILTIN * relevance.COVERED,
        1.0,
        -(BUILTIN**relevance.UNKNOWN_POWER) * relevance.UNKNOWN,
        BUILTIN**relevance.WORDS_POWER * relevance.WORDS,
        -relevance.ANSWERED - (1 - BUILTIN) * relevance.ANSWERED_ALONE,
    ]
)


@dataclass(frozen=True, slots=True)
class Judged:
    """One question. `asked` has the best coverage and the best relevance of all notes, the share of unknown words, and
    the logarithm of the number of words; `evidence` is of its notes, best first."""

    tree: str
    right: int | None
    """Place of the right note; None if nothing answers the question."""
    asked: Floats
    evidence: Floats

    def margin(self, weights: Floats) -> float:
        """Negative if no note answers the question."""
        return float(self.asked @ weights[:-1] + weights[-1]) if len(self.evidence) else -math.inf

    def found(self, weights: Floats) -> bool:
        """Whether the right note is among the first hits."""
        if self.right is None or self.right >= FIRST or self.margin(weights) < 0:
            return False
        return bool(self.evidence[self.right] >= max(relevance.LEAST, relevance.OF_BEST * self.evidence.max()))


def judged(tree: str, folder: Path) -> list[Judged]:
    """The questions about one tree."""
    pools: list[Pool] = []
    settle = Pool.settle

    def settled(pool: Pool, texts: int) -> None:
        settle(pool, texts)
        pools.append(pool)

    with tempfile.TemporaryDirectory(prefix="kgd-bench-", ignore_cleanup_errors=True) as place:
        filled = Filled(Path(place), TREES[tree], fetched(TREES[tree], folder))
        try:
            daily = sets.read(tree)
            filled.write(daily.nodes)
            filled.settle()
            asked = [*daily.of("knowledge", "nothing"), *sets.read(tree, further=True).of("knowledge", "nothing")]
            found = []
            with patch.object(Pool, "settle", settled):
                for question in asked:
                    filled.call("search", {"query": question.text})
                    answer = filled.uri(question.answer) if question.answer else ""
                    found.append(_judged(tree, pools[-1], answer))
            return found
        finally:
            filled.close()


def _judged(tree: str, pool: Pool, answer: str) -> Judged:
    notes = [unit for unit in pool.units.values() if unit.lane is Lane.NOTES]
    notes.sort(key=lambda unit: (-unit.score, unit.key))
    covered = max((note.covered for note in notes), default=0.0)
    alike = max((pool.relevance(note.alike) for note in notes), default=0.0)
    asked = np.array([covered, alike, pool.unknown, math.log(relevance.SHORTEST + len(pool.words))])
    keys: list[str] = [note.key for note in notes]
    right = (keys.index(answer) if answer in keys else len(keys)) if answer else None
    return Judged(tree, right, asked, np.array([pool.evidence(note) for note in notes]))


def fitted(questions: Sequence[Judged]) -> Floats:
    """Weights and constant of a logistic regression: questions whose note is among the first against unanswerable
    ones."""
    chosen = [one for one in questions if len(one.evidence) and (one.right or 0) < FIRST]
    features = np.array([one.asked for one in chosen])
    wanted = np.array([one.right is not None for one in chosen], float)
    middle, spread = features.mean(axis=0), features.std(axis=0) + 1e-9
    rows = np.c_[(features - middle) / spread, np.ones(len(features))]
    weights, penalty = np.zeros(rows.shape[1]), np.diag([RIDGE] * (rows.shape[1] - 1) + [0.0]) * len(rows)
    for _ in range(50):  # Newton's method
        likely = 1 / (1 + np.exp(-(rows @ weights)))
        slope = rows.T @ (likely - wanted) + penalty @ weights
        bend = (rows * (likely * (1 - likely))[:, None]).T @ rows + penalty
        weights -= np.linalg.solve(bend + 1e-9 * np.eye(len(bend)), slope)
    own: Floats = weights[:-1] / spread
    return np.append(own, weights[-1] - own @ middle)


def report(label: str, questions: Sequence[Judged], weights: dict[str, Floats]) -> str:
    known = [one for one in questions if one.right is not None]
    false = [one for one in questions if one.right is None]
    return (
        f"{label:24} in the first {FIRST} {share(one.found(weights[one.tree]) for one in known):.1%} of {len(known)}, "
        f"nothing {share(one.margin(weights[one.tree]) < 0 for one in known):.1%}, "
        f"false {sum(one.margin(weights[one.tree]) >= 0 for one in false)} of {len(false)}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.finding.fitting", description="the weights of relevance")
    parser.add_argument("folder", type=Path, nargs="?", default=RESULTS / "trees", help="where the packages are")
    folder = parser.parse_args().folder.resolve()
    logging.disable(logging.WARNING)
    questions = [one for tree in TREES for one in judged(tree, folder)]
    ranked = share(one.right is not None and one.right < FIRST for one in questions if one.right is not None)
    print(f"{'ranked, without a bar':24} in the first {FIRST} {ranked:.1%}")
    print(report("weights in use", questions, dict.fromkeys(TREES, IN_USE)))
    left_out = {tree: fitted([one for one in questions if one.tree != tree]) for tree in TREES}
    print(report("fitted on other trees", questions, left_out))
    names = ("covered", "alike", "unknown", "words", "constant")
    for label, weights in (("in use", IN_USE), ("fitted on all", fitted(questions))):
        scaled = weights / weights[1]
        print(f"{label:24}", ", ".join(f"{name} {one:.2f}" for name, one in zip(names, scaled, strict=True)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
