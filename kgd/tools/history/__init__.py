"""Operations on commits: history, blame, differences, review and revert."""
