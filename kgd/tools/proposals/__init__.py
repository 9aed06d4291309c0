"""Operations on other teams' changes: submission, dry run, and decision."""
