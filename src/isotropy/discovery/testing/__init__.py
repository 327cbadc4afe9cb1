"""A claim is a test: what a symmetry costs on rows that have not seen it."""
