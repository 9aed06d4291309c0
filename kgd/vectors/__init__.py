"""Vectors: embedding models, local or behind an endpoint, and nearest-neighbour search."""
