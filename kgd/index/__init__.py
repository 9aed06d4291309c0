"""What is derived and kept beside the repository so that starts and questions are fast. Deleting it loses nothing."""
