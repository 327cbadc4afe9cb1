"""What a person sees: pictures and pages."""

from isotropy._run._lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    deprecated={
        "DemoCase": "isotropy.report._demo_page:DemoCase",
        "colour_classes": "isotropy.report._basis_picture:colour_classes",
        "demo_page": "isotropy.report._demo_page:demo_page",
        "matrix_shape": "isotropy.report._basis_picture:matrix_shape",
        "plot_bases": "isotropy.report:plot_basis",
    },
)
