"""Sets of groups that hidden layers may commute with."""
