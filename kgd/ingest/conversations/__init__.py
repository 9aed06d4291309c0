"""This room is where what people and agents said to each other is read out of the files of many programs."""
