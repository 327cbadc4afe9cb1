"""Signed permutations of observations and actions of a controlled system."""
