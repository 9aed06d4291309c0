"""Submitted changes that wait for a decision."""
