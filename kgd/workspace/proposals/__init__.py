"""Submitted changes that await a decision."""
