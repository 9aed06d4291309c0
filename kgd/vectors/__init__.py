"""This room is where text becomes vectors: models on this machine or behind an endpoint, and nearest vectors."""
