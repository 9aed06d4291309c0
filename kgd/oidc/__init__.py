"""Sign-in with an organisation's accounts (OpenID Connect): issuers, their tokens, and sealed values. PyJWT and
cryptography are used only here, and imported only by a hub with `--oidc`."""
