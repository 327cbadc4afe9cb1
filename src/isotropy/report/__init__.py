"""What a person sees: pictures."""

from isotropy.report._basis_picture import colour_classes, matrix_shape, plot_bases, plot_basis
from isotropy.report._contributions_picture import plot_contributions

__all__ = ["colour_classes", "matrix_shape", "plot_bases", "plot_basis", "plot_contributions"]
