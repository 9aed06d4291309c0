"""Derived data beside the repository: full text, vectors, code, usage; and a hub's state. All but the last can be
rebuilt."""
