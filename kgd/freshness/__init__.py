"""Freshness: whether statements about code were verified against the current code."""
