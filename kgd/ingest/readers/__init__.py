"""Readers: the bytes of one format as text, Markdown if the format has headings."""
