"""Learned parameter-sharing: which parameters of a model are equal."""
