"""Symmetries of a controlled system, from its logged transitions."""
