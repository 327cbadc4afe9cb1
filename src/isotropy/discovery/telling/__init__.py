"""What was found, in words, in files and as a notebook shows it."""
