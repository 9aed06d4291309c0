"""Values without I/O. Each value is validated when it is made."""
