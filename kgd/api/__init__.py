"""This room is where kgd is a library: `kgd.open`, with the operations of the unified graph."""
