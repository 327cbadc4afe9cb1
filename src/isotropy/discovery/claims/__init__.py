"""What may be claimed, one file for each kind of symmetry."""
