"""This room is how the programs that agents run in are told of kgd: their configuration, edited with the least ink."""
