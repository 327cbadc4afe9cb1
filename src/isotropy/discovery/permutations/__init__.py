"""Permutation symmetries of a task: where proposals come from."""
