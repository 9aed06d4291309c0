"""Data that can be rebuilt from the tip: search words, versions, text embeddings."""
