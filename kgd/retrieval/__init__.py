"""This room is where a question is answered from the graph: signals are fused, then edges bring in what belongs."""
