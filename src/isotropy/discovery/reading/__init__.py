"""Data as discovery takes them: how they are read, laid out and split."""
