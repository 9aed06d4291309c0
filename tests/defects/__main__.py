"""Plant the defects: ``python -m tests.defects [KEY...]``."""

from __future__ import annotations

import sys

from tests.defects import catalogue
from tests.planting import main

sys.exit(main(catalogue()))
