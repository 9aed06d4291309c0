"""Plant the defects: ``python -m tests.defects [KEY...]``; with ``--table``, write README.md beside this file anew."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.defects import catalogue, table
from tests.planting import main

if sys.argv[1:] == ["--table"]:
    Path(__file__).with_name("README.md").write_text(table())
else:
    sys.exit(main(catalogue()))
