"""What a person sees: pictures and pages."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.report": "plot_bases=plot_basis",
    "isotropy.report._basis_picture": "colour_classes matrix_shape",
    "isotropy.report._finding_page": "DemoCase>write_demo_page demo_page>write_demo_page",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
