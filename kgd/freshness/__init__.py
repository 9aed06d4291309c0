"""This room is where it is told whether what a node says about code was checked against the code as it is now."""
