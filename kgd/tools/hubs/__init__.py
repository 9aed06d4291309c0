"""Operations around hubs: joining, tokens, and signed-in browsers."""
