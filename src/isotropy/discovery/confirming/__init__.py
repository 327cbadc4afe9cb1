"""A claim is a test: splits, a predictor free of symmetry, and what a symmetry costs."""
