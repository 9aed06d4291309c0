"""A separate program under strace: makes one change durable and prints its commit."""

from __future__ import annotations

import sys
from pathlib import Path

from kgd.git import layout
from tests.git.support import Pen


def main() -> None:
    found = layout.locate(Path(sys.argv[1]))
    assert found is not None
    pen = Pen(found)
    print("ready", flush=True)
    tip = pen.write({"nodes/concept/a.yaml": sys.argv[2].encode() + b"\n", "nodes/concept/b/c.yaml": b"c\n"})
    print(tip.hex(), flush=True)


main()
