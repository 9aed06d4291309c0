"""kgd: a git-backed knowledge workspace daemon."""

__version__ = "0.1.0"
