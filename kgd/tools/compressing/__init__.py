"""This room is where it is proposed what would make a workspace smaller or truer; nothing is changed here."""
