"""Operations that write nodes: `put`, `remember`, and the conflicts that a change encounters."""
