"""`kgd mcp` against a rehearsal daemon: pump_program.py HOME. PUMP_MODULES=1 prints early imports."""

from __future__ import annotations

import sys

from kgd.client import pump
from tests.daemon.rehearsal import RehearsalHome

sys.exit(pump.run(RehearsalHome.at(sys.argv[1])))
