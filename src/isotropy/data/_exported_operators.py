"""The operators that an exported program may call, each by its name.

PyTorch looks a target up by its dots, so that ``torch.hub.load`` would be found as well, and among
its ATen operators are some that open files (``from_file``), print, read storages that are not
theirs, or trust pointers and pivots in tensors. Here stand those that compute: what
``torch.export`` writes for networks. An operator that is missing is refused, not guessed.

Inner operators often leave the checks of their arguments to the public one that calls them. A
program calls them directly, so those that read or write beyond a tensor are left out, or are run
through `_exported_checks`. For the rest, PyTorch's own checks are relied on.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import torch

from isotropy._run._json import shown
from isotropy.data._json_grammar import Refused

_ATEN_NAMES = """
    abs absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv addcmul addmm
    addmv addr adjoint affine_grid_generator alias alias_copy all alpha_dropout amax amin
    aminmax angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin
    argsort argwhere as_strided asin asinh atan atan2 atanh
    atleast_1d atleast_2d atleast_3d avg_pool1d avg_pool2d avg_pool3d baddbmm bartlett_window
    batch_norm bernoulli bilinear binary_cross_entropy binary_cross_entropy_with_logits bincount
    binomial bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor blackman_window block_diag bmm broadcast_tensors broadcast_to bucketize
    cartesian_prod cat cauchy cdist ceil celu chain_matmul chalf channel_shuffle cholesky
    cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min clip clone col2im
    column_stack combinations complex concat concatenate conj conj_physical constant_pad_nd
    contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    convolution copy copysign corrcoef cos cosh cosine_embedding_loss cosine_similarity
    count_nonzero cov cross cross_entropy_loss cummax cummin cumprod cumsum cumulative_trapezoid
    deg2rad det detach detach_copy diag diag_embed diagflat diagonal diagonal_copy
    diagonal_scatter diff digamma dim dist div divide dot dropout dsplit dstack einsum elu
    embedding empty empty_like empty_permuted empty_strided eq erf erfc erfinv exp exp2 expand
    expand_as expand_copy expm1 exponential eye feature_alpha_dropout feature_dropout fft_fft
    fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2
    fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn
    fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn fill fill_diagonal fix flatten flip fliplr flipud
    float_power floor floor_divide fmax fmin fmod frac frexp frobenius_norm full full_like
    gather gcd ge gelu geometric ger glu gradient greater greater_equal grid_sampler
    grid_sampler_2d grid_sampler_3d group_norm gru gru_cell gt hamming_window hann_window
    hardshrink hardsigmoid hardswish hardtanh heaviside hinge_embedding_loss histc histogram
    histogramdd hsplit hstack huber_loss hypot i0 igamma igammac im2col imag index index_add
    index_copy index_fill index_put index_reduce index_select inner instance_norm inverse
    isclose isfinite isin isinf isnan isneginf isposinf isreal istft item kaiser_window kl_div
    kron kthvalue l1_loss layer_norm ldexp le leaky_relu lerp less less_equal lgamma lift
    lift_fresh lift_fresh_copy linalg_cholesky linalg_cholesky_ex linalg_cond linalg_cross
    linalg_det linalg_diagonal linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
    linalg_householder_product linalg_inv linalg_inv_ex linalg_lu linalg_lu_factor
    linalg_lu_factor_ex linalg_matmul linalg_matrix_exp linalg_matrix_norm linalg_matrix_power
    linalg_matrix_rank linalg_multi_dot linalg_norm linalg_pinv linalg_qr linalg_slogdet
    linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals
    linalg_tensorinv linalg_tensorsolve linalg_vander linalg_vecdot linalg_vector_norm linear
    linspace log log10 log1p log2 log_normal log_sigmoid log_sigmoid_forward log_softmax
    logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor
    logit logspace logsumexp lstm lstm_cell lt mH mT margin_ranking_loss masked_fill
    masked_scatter masked_select matmul matrix_H matrix_exp matrix_power max max_pool1d
    max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d
    max_pool3d_with_indices max_unpool2d max_unpool3d maximum mean median meshgrid min minimum
    mish mm mode moveaxis movedim mse_loss msort mul multi_margin_loss multilabel_margin_loss
    multilabel_margin_loss_forward multinomial multiply mv mvlgamma nan_to_num nanmean nanmedian
    nanquantile nansum narrow narrow_copy native_channel_shuffle native_dropout
    native_group_norm native_layer_norm ne neg negative new_empty new_empty_strided new_full
    new_ones new_zeros nextafter nll_loss nll_loss2d nll_loss2d_forward nll_loss_forward
    nll_loss_nd nonzero nonzero_static norm normal normal_functional not_equal nuclear_norm
    numel numpy_T one_hot ones ones_like orgqr ormqr outer pad pad_sequence pairwise_distance
    pdist permute permute_copy pinverse pixel_shuffle pixel_unshuffle poisson poisson_nll_loss
    polar polygamma positive pow prelu prod put qr quantile rad2deg rand rand_like randint
    randint_like randn randn_like random randperm range ravel real reciprocal reflection_pad1d
    reflection_pad2d reflection_pad3d relu relu6 remainder renorm repeat repeat_interleave
    replication_pad1d replication_pad2d replication_pad3d reshape reshape_as resolve_conj
    resolve_neg rms_norm rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell roll rot90 round
    row_stack rrelu rrelu_with_noise rrelu_with_noise_functional rsqrt rsub scalar_tensor
    scaled_dot_product_attention scatter scatter_add scatter_reduce searchsorted select
    select_copy select_scatter selu sgn sigmoid sign signbit silu sin sinc sinh size slice
    slice_copy slice_inverse slice_scatter slogdet smooth_l1_loss soft_margin_loss softmax
    softplus softshrink sort special_airy_ai special_bessel_j0 special_bessel_j1
    special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t
    special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w
    special_digamma special_entr special_erf special_erfc special_erfcx special_erfinv
    special_exp2 special_expit special_expm1 special_gammainc special_gammaincc special_gammaln
    special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e special_i1
    special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p special_log1p
    special_log_ndtr special_log_softmax special_logit special_logsumexp
    special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
    special_modified_bessel_k1 special_multigammaln special_ndtr special_ndtri special_polygamma
    special_psi special_round special_scaled_modified_bessel_k0
    special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t
    special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
    special_shifted_chebyshev_polynomial_w special_sinc special_softmax
    special_spherical_bessel_j0 special_xlog1py special_xlogy special_zeta split split_copy
    split_with_sizes split_with_sizes_copy sqrt square squeeze squeeze_copy stack std std_mean
    stft storage_offset stride sub subtract sum sum_to_size svd swapaxes swapdims
    sym_constrain_range sym_constrain_range_for_size sym_is_contiguous sym_numel sym_size
    sym_storage_offset sym_stride t t_copy take take_along_dim tan tanh tensor_split tensordot
    threshold tile to topk trace transpose transpose_copy trapezoid trapz triangular_solve tril
    tril_indices triplet_margin_loss triu triu_indices true_divide trunc type_as unbind
    unbind_copy unflatten unfold unfold_copy uniform unique_consecutive unique_dim
    unique_dim_consecutive unsqueeze unsqueeze_copy upsample_bicubic2d upsample_bilinear2d
    upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    upsample_trilinear3d vander var var_mean vdot view view_as view_as_complex
    view_as_complex_copy view_as_real view_as_real_copy view_copy vsplit vstack where xlogy zero
    zeros zeros_like
"""

# Inner operators that exporting or decomposing a network leaves behind.
_INNER_NAMES = """
    __and__ __lshift__ __or__ __rshift__ __xor__ _adaptive_avg_pool2d _adaptive_avg_pool3d
    _assert_async _assert_scalar _assert_tensor_metadata _cdist_forward _conj _conj_physical
    _convolution _euclidean_dist _fused_rms_norm _linalg_det _linalg_eigh _linalg_eigvals
    _linalg_slogdet _linalg_solve_ex _linalg_svd _local_scalar_dense _log_softmax
    _native_batch_norm_legit _native_batch_norm_legit_no_training _neg_view _prelu_kernel
    _safe_softmax _shape_as_tensor _softmax _to_copy _trilinear _unique2 _unsafe_index _unsafe_view
    _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm norm_except_dim
"""

# Overloads that read or write beyond their tensors when sizes, scales or lengths do not agree, and
# that exported networks do not need: they call the overloads `input` and `vec`.
_UNCHECKED_NAMES = """
    _native_batch_norm_legit.default _upsample_nearest_exact1d.default
    _upsample_nearest_exact2d.default _upsample_nearest_exact3d.default as_strided_.default gru.data
    lstm.data rnn_relu.data rnn_tanh.data upsample_bicubic2d.default upsample_bilinear2d.default
    upsample_linear1d.default upsample_nearest1d.default upsample_nearest2d.default
    upsample_nearest3d.default upsample_trilinear3d.default
"""

# Arithmetic on sizes.
_NUMBER_NAMES = """
    _operator.abs _operator.add _operator.and_ _operator.eq _operator.floordiv _operator.ge
    _operator.gt _operator.le _operator.lshift _operator.lt _operator.mod _operator.mul _operator.ne
    _operator.neg _operator.not_ _operator.or_ _operator.pos _operator.pow _operator.rshift
    _operator.sub _operator.truediv math.ceil math.floor math.trunc torch._sym_sqrt torch.sym_float
    torch.sym_int torch.sym_ite torch.sym_max torch.sym_min torch.sym_not torch.sym_sqrt
    torch.sym_sum
"""

# Control flow, whose branches and bodies are graphs in the same file.
_CONTROL_NAMES = """
    torch.ops.higher_order.cond torch.ops.higher_order.map_impl torch.ops.higher_order.scan
    torch.ops.higher_order.while_loop torch.ops.higher_order.wrap_with_autocast
    torch.ops.higher_order.wrap_with_set_grad_enabled
"""

_ATEN = frozenset(_ATEN_NAMES.split())
_INNER = frozenset(_INNER_NAMES.split())
_UNCHECKED = frozenset(_UNCHECKED_NAMES.split())
_NUMBERS = frozenset(_NUMBER_NAMES.split())
_CONTROL = frozenset(_CONTROL_NAMES.split())
_ATEN_TARGET = re.compile(r"torch\.ops\.aten\.(\w+)\.(\w+)", re.ASCII)
# Operators on numbers alone.
_WITHOUT_TENSORS = frozenset(
    {"_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size"}
)
_KIND = r"(Tensor|int|float|bool|number|str|ScalarType|Layout|Device|MemoryFormat|Generator)"
_PLAIN_KIND = re.compile(
    rf"{_KIND}|(Optional|List)\[{_KIND}\]|Optional\[List\[{_KIND}\]\]|List\[Optional\[{_KIND}\]\]"
)


def require_operator(target: object) -> str:
    """Check that a node calls an operator that only computes.

    Args:
        target: The operator as the file names it.

    Returns:
        The target.

    Raises:
        Refused: If it is anything else.

    Example:
        >>> require_operator("torch.ops.aten.linear.default")
        'torch.ops.aten.linear.default'
        >>> require_operator("torch.hub.load")
        Traceback (most recent call last):
        ...
        isotropy.data._json_grammar.Refused: expected an operator on tensors, got 'torch.hub.load',
        which is not among those that only compute
    """
    known = _NUMBERS | _CONTROL
    if not isinstance(target, str) or not (target in known or aten_arguments(target) is not None):
        raise Refused(
            "an operator on tensors", f"{shown(target)}, which is not among those that only compute"
        )
    return target


def is_control_flow(target: str) -> bool:
    """Whether an operator takes graphs."""
    return target in _CONTROL


@cache
def aten_arguments(target: str) -> dict[str, str] | None:
    """The kind of each argument of an ATen operator; None where a program may not call it."""
    found = _ATEN_TARGET.fullmatch(target)
    if found is None:
        return None
    name, overload = found.groups()
    in_place = name.endswith("_") and not name.endswith("__")
    if name not in _INNER and (name[:-1] if in_place else name) not in _ATEN:
        return None
    operator = _overload(name, overload)
    if operator is None or f"{name}.{overload}" in _UNCHECKED:
        return None
    schema = operator._schema
    kinds = [str(part.real_type) for part in (*schema.arguments, *schema.returns)]
    if name not in _WITHOUT_TENSORS and not any("Tensor" in kind for kind in kinds):
        return None
    if not all(_PLAIN_KIND.fullmatch(kind) for kind in kinds):
        return None
    if any(argument.is_out for argument in schema.arguments):
        return None
    return {argument.name: str(argument.real_type) for argument in schema.arguments}


def _overload(name: str, overload: str) -> Any:
    """An operator of PyTorch's dispatcher; TorchScript's own, on lists and strings, are not."""
    full = f"aten::{name}" if overload == "default" else f"aten::{name}.{overload}"
    if full not in _registered():
        return None
    return getattr(getattr(torch.ops.aten, name), overload)


@cache
def _registered() -> frozenset[str]:
    return frozenset(torch._C._dispatch_get_all_op_names())
