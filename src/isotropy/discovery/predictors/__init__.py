"""Predictors free of symmetry, and smooth ones, that claims are held against."""
