"""Finding the symmetry of a task: its generators, or shared parameters, and the group behind."""

from isotropy._run._lazy_names import lazy_names

_DEPRECATED = {
    "ActionClass": "isotropy.discovery.generators._action_class:ActionClass",
    "ActionTest": "isotropy.discovery.confirming._confirm_action:ActionTest",
    "ClassResult": "isotropy.discovery.generators._algebras:ClassResult",
    "ColumnBlocks": "isotropy.discovery.generators._column_blocks:ColumnBlocks",
    "DataConstraints": "isotropy.discovery.generators._data_constraints:DataConstraints",
    "GeneratorFindings": "isotropy.discovery.generators._find_generators:GeneratorFindings",
    "HomogeneousModel": "isotropy.discovery._standardised:HomogeneousModel",
    "Layout": "isotropy.discovery._data_layout:RowLayout",
    "ModelComparison": "isotropy.discovery._model_comparison:ModelComparison",
    "NullSpace": "isotropy.discovery.generators._resampled_null_space:NullSpace",
    "OrbitAverage": "isotropy.discovery.confirming._orbit_average:OrbitAverage",
    "Reading": "isotropy.discovery._reading:ShapeReading",
    "SmoothFit": "isotropy.discovery.generators._smooth_fit:SmoothFit",
    "SnappedAlgebra": "isotropy.discovery.generators._snap:SnappedAlgebra",
    "SoftComparison": "isotropy.discovery.confirming._soft_comparison:SoftComparison",
    "SoftOffer": "isotropy.discovery._soft_offer:SoftOffer",
    "StandardisedModel": "isotropy.discovery._standardised:StandardisedModel",
    "action_class": "isotropy.discovery.generators._action_class:action_class",
    "blocks_from_names": "isotropy.discovery.generators._column_blocks:blocks_from_names",
    "build_model": "isotropy.discovery._standardised:build_model",
    "discover_transitions": (
        "isotropy.discovery.transitions._discover_transitions:discover_transitions"
    ),
    "find_constraints": "isotropy.discovery.generators:find_constraints",
    "fit_smooth": "isotropy.discovery.generators._smooth_fit:fit_smooth",
    "group_average": "isotropy.discovery.confirming._claim_test:group_average",
    "holm": "isotropy.discovery.confirming._claim_test:holm",
    "null_spaces": "isotropy.discovery.generators:null_spaces",
    "snap": "isotropy.discovery.generators:snap",
    "snap_affine": "isotropy.discovery.generators:snap_affine",
    "three_way_split": "isotropy.discovery.confirming._splits:three_way_split",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, deprecated=_DEPRECATED)
