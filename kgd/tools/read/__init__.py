"""Operations that read nodes: by address, by words, along relations, and as a picture."""
