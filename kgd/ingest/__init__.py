"""This room is where documents and conversations become nodes: readers, chunks, threads, and what replaces what."""
