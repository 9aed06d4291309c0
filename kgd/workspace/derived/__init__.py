"""Data that can be made again from the tip: search words, versions, text embeddings."""
