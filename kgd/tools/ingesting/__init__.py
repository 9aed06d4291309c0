"""This room is where it is answered what is taken in: documents, conversations, and a look at the code tree."""
