"""Finding the symmetry of a task: its generators, or shared parameters, and the group behind."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.discovery.modelling._finding_models": "ModelComparison SoftComparison SoftOffer",
    "isotropy.discovery.reading._shape_reading": "Layout=RowLayout Reading=ShapeReading",
    "isotropy.discovery.modelling._standardised": (
        "HomogeneousModel>Finding.model StandardisedModel>Finding.model build_model>Finding.model"
    ),
    "isotropy.discovery.testing._claim_test": "group_average holm",
    "isotropy.discovery.testing._confirm_action": "ActionTest",
    "isotropy.discovery.testing._orbit_average": "OrbitAverage",
    "isotropy.discovery.reading._read_problem": "three_way_split",
    "isotropy.discovery.generators": (
        "ClassResult GeneratorFindings SnappedAlgebra find_constraints null_spaces snap snap_affine"
    ),
    "isotropy.discovery.proposing.generators._action_class": "ActionClass action_class",
    "isotropy.discovery.proposing.generators._column_blocks": "ColumnBlocks blocks_from_names",
    "isotropy.discovery.proposing.generators._data_constraints": "DataConstraints",
    "isotropy.discovery.proposing.generators._resampled_null_space": "NullSpace",
    "isotropy.discovery.predictors._smooth_fit": "SmoothFit fit_smooth",
    "isotropy.layerwise": ("LayerType LayerwiseResult layer_table layer_types learn_layers"),
    "isotropy.layerwise._layerwise_result": "LayerShares",
    "isotropy.naming": "SharingName automorphisms name_sharing",
    "isotropy.naming._automorphisms": "Automorphisms",
    "isotropy.search": (
        "DeepQ GridChild LatticeSearch SearchResult SearchSpace State Training search_groups"
    ),
    "isotropy.sharing": (
        "BilevelOptions FitOptions LearnedSharing LeastSquares PartitionEvidence "
        "best_partition learn_module_sharing relax_sharing rounded shared_solutions"
    ),
    "isotropy.sharing._assignment": (
        "canonical_labels hard_assignment rank_penalty row_entropy row_softmax"
    ),
    "isotropy.sharing._brute_force": "set_partitions",
    "isotropy.sharing._hypergradient": "hypergradient inverse_hvp_cg inverse_hvp_neumann",
    "isotropy.sharing._module_sharing": "ModuleSharingResult",
    "isotropy.sharing._partition_search": "cluster_values",
    "isotropy.sharing._relaxation": "Relaxed averaged",
    "isotropy.discovery._one_kind": "discover_transitions>discover",
    "isotropy_papers.augerino": "Augerino",
    "isotropy_papers.augmentations": "Augmentation LearnedPermutations LearnedShifts",
    "isotropy_papers.fit_augerino": "AugerinoFit fit_augerino",
    "isotropy_papers.gumbel_sinkhorn": "gumbel_sinkhorn matched sinkhorn",
    "isotropy_papers.replay": "replay",
    "isotropy_papers.score_table": "ScoreTable",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
