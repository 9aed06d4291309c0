"""This room is where a conflict is put to a language model and its answer is judged before anything believes it."""
