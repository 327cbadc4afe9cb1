from isotropy.evidence._approximate import laplace, log_marginal_likelihood
from isotropy.evidence._best_precisions import best_precisions
from isotropy.evidence._curvature_options import CurvatureOptions
from isotropy.evidence._effective_parameters import EffectiveParameters
from isotropy.evidence._evidence_gradient import evidence_gradient
from isotropy.evidence._laplace import Laplace
from isotropy.evidence._learn_priors import learn_priors
from isotropy.evidence._learning_options import LearningOptions, PriorOptions
from isotropy.evidence._precision_groups import path_groups
from isotropy.evidence._prior_history import LearnedPriors

__all__ = [
    "CurvatureOptions",
    "EffectiveParameters",
    "Laplace",
    "LearnedPriors",
    "LearningOptions",
    "PriorOptions",
    "best_precisions",
    "evidence_gradient",
    "laplace",
    "learn_priors",
    "log_marginal_likelihood",
    "path_groups",
]
