"""What data suggest, one folder for each kind of symmetry."""
