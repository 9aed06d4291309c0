"""Operations on whole workspaces: setup, cloning, sync, status and checks."""
