"""What things are: values without I/O. Validation happens when a value is made."""
