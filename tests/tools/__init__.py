"""Operations: declared once, and found by every surface."""
