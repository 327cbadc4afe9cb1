"""What a person sees: pictures and pages."""

from isotropy.report._basis_picture import colour_classes, matrix_shape, plot_bases, plot_basis
from isotropy.report._contributions_picture import plot_contributions
from isotropy.report._finding_page import finding_page, write_finding_page
from isotropy.report._layerwise_picture import plot_layers

__all__ = [
    "colour_classes",
    "finding_page",
    "matrix_shape",
    "plot_bases",
    "plot_basis",
    "plot_contributions",
    "plot_layers",
    "write_finding_page",
]
