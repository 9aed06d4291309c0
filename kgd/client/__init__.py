"""Clients of the daemon's socket; standard library only, to keep their start fast."""
