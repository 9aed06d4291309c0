"""Values without I/O, validated when they are created."""
