"""The same homes as in the daemon's tests."""

from tests.daemon.conftest import home

__all__ = ["home"]
