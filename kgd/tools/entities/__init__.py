"""This room is where things that texts speak of are suggested as nodes, and where doubles are suggested to be one."""
