"""Operations on open conflicts: listing, and decisions by people and models."""
