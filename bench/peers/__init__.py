"""kgd beside other memory servers for agents on the same notes: `make bench-peers`."""
