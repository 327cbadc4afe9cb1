"""From a partition of weights to the group behind it, with its name."""
