"""SSH signatures as git makes and checks them, SSH keys, and lists of allowed signers."""
