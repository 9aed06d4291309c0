"""Derived data outside the repository: full text, vectors, code, usage; and a hub's state. Everything except the hub's
state can be rebuilt."""
