"""This file is where `python -m kgd.cli` becomes the program `kgd`."""

import sys

from kgd.cli import main

sys.exit(main())
