"""`python -m kgd.cli`, the same as the program `kgd`."""

import sys

from kgd.cli import main

sys.exit(main())
