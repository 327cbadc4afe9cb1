"""Permutations of positions."""
