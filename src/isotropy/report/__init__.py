"""What a person sees: pictures."""

from isotropy.report._basis_picture import colour_classes, matrix_shape, plot_bases, plot_basis

__all__ = ["colour_classes", "matrix_shape", "plot_bases", "plot_basis"]
