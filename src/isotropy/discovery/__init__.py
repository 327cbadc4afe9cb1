"""Finding the symmetry of a task: its generators, or shared parameters, and the group behind."""

from isotropy._run._lazy_names import lazy_names

# names that were of this room, by the module that holds them now
_MOVED = {
    "isotropy.discovery.layerwise": (
        "LayerType LayerwiseResult layer_table layer_types learn_layers"
    ),
    "isotropy.discovery.layerwise._layerwise_result": "LayerShares",
    "isotropy.discovery.naming": "SharingName automorphisms name_sharing",
    "isotropy.discovery.naming._automorphisms": "Automorphisms",
    "isotropy.discovery.search": (
        "DeepQ GridChild LatticeSearch SearchResult SearchSpace State Training search_groups"
    ),
    "isotropy.discovery.sharing": (
        "BilevelOptions FitOptions LearnedSharing LeastSquares PartitionEvidence "
        "learn_module_sharing"
    ),
    "isotropy.discovery.sharing._assignment": (
        "canonical_labels hard_assignment rank_penalty rounded row_entropy row_softmax"
    ),
    "isotropy.discovery.sharing._brute_force": "best_partition set_partitions shared_solutions",
    "isotropy.discovery.sharing._hypergradient": "hypergradient inverse_hvp_cg inverse_hvp_neumann",
    "isotropy.discovery.sharing._module_sharing": "ModuleSharingResult",
    "isotropy.discovery.sharing._partition_search": "cluster_values",
    "isotropy.discovery.sharing._relaxation": "Relaxed averaged relax_sharing",
    "isotropy_papers.augerino": "Augerino",
    "isotropy_papers.augmentations": "Augmentation LearnedPermutations LearnedShifts",
    "isotropy_papers.fit_augerino": "AugerinoFit fit_augerino",
    "isotropy_papers.gumbel_sinkhorn": "gumbel_sinkhorn matched sinkhorn",
    "isotropy_papers.replay": "replay",
    "isotropy_papers.score_table": "ScoreTable",
}
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {name: f"{place}:{name}" for place, names in _MOVED.items() for name in names.split()},
)
