"""Rows: one measured figure each, with the verdict against its target.

A row is a plain dictionary, as in the JSON: `what`, and either `peer`, both figures and their `ratio`, or a `value`.
`target`, if present, is the upper bound, and of a rate the lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
UNITS = ("us", "ms", "s", "per_s", "mb")


def compare(
    what: str, peer: str, unit: str, ours: float, theirs: float, target: float | None, *, nodes: int = 0, **more: Any
) -> Row:
    """A figure of kgd and a peer's. `target` is an upper bound of the ratio, and for a rate a lower bound."""
    size = {"nodes": nodes} if nodes else {}
    return {
        "what": what,
        **size,
        "peer": peer,
        unit: _rounded(ours),
        f"peer_{unit}": _rounded(theirs),
        "ratio": _rounded(ours / theirs),
        "target": target,
        **more,
    }


def value(what: str, unit: str, ours: float, target: float | None = None, *, nodes: int = 0, **more: Any) -> Row:
    """A single figure; `target` is a bound in the same unit."""
    size = {"nodes": nodes} if nodes else {}
    return {"what": what, **size, "unit": unit, "value": _rounded(ours), "target": target, **more}


def missing(what: str, peer: str, why: str) -> Row:
    return {"what": what, "peer": peer, "not_measured": why}


def verdict(row: Row) -> str:
    """``met``, ``missed``, ``not measured``, or empty without a target."""
    if "not_measured" in row:
        return "not measured"
    if row.get("target") is None:
        return ""
    figure = row["ratio"] if "ratio" in row else row["value"]
    enough = row.get("top10_overlap", 1.0) >= row.get("overlap_target", 0.0)
    good = figure >= row["target"] if "per_s" in row else figure <= row["target"]
    return "met" if good and enough else "missed"


def line(row: Row) -> str:
    """One row as readable text."""
    name = _name(row)
    if "not_measured" in row:
        return f"  {'not measured':12}  {name} / {row['peer']}: {row['not_measured']}"
    if "ratio" in row:
        unit = next(u for u in UNITS if u in row)
        said = f"{_plain(row['ratio'])}x of {row['peer']} ({_plain(row[unit])} : {_plain(row[f'peer_{unit}'])} {unit})"
    elif "value" in row:
        said = f"{_plain(row['value'])} {row['unit']}"
    else:
        unit = next(u for u in UNITS if u in row)
        said = f"{_plain(row[unit])} {unit}"
    word = "at least" if "per_s" in row else "at most"
    target = f", target {word} {_plain(row['target'])}" if row.get("target") is not None else ""
    if "overlap_target" in row:
        target += f"; overlap {row['top10_overlap']}, target {row['overlap_target']}"
    note = f"  [{row['note']}]" if row.get("note") else ""
    return f"  {verdict(row) or '-':12}  {name}: {said}{target}{note}"


def table(rows: Sequence[Row]) -> str:
    """The rows with a target, with section and verdict, as the table of docs/performance.md."""
    lines = ["| section | row | against | ratio | figures | target | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        if row.get("target") is None:
            continue
        if "ratio" in row:
            unit = next(u for u in UNITS if u in row)
            figures = f"{_plain(row[unit])} : {_plain(row[f'peer_{unit}'])} {unit}"
            against, ratio = row["peer"], _plain(row["ratio"])
        else:
            against, ratio, figures = "", "", f"{_plain(row['value'])} {row['unit']}"
        told = (row["section"], _name(row), against, ratio, figures, _plain(row["target"]), row["verdict"])
        lines.append(f"| {' | '.join(told)} |")
    return "\n".join(lines) + "\n"


def _name(row: Row) -> str:
    size = f", {row['nodes']:,} nodes" if row.get("nodes") else ""
    return f"{row['what']}{size}{' (p99)' if row.get('percentile') == 0.99 else ''}"


def percentile(times: Sequence[float], share: float) -> float:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _rounded(figure: float) -> float:
    """Four significant digits."""
    return float(f"{figure:.4g}")


def _plain(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"
