from isotropy.report._basis_picture import plot_basis
from isotropy.report._contributions_picture import plot_contributions
from isotropy.report._figure_files import save_figure
from isotropy.report._finding_page import finding_page, write_demo_page, write_finding_page
from isotropy.report._layerwise_picture import plot_layers

__all__ = [
    "finding_page",
    "plot_basis",
    "plot_contributions",
    "plot_layers",
    "save_figure",
    "write_demo_page",
    "write_finding_page",
]
