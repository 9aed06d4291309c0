"""Search over the graph: fused scores from words and meaning, spread along edges."""
