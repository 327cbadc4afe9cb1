"""How operations carry space along: the axes of a result from those of its arguments.

Views are read off their strides; convolutions and poolings place their samples; products,
reductions and concatenations keep, mix or drop axes; whatever keeps its shape keeps its axes. A
result that no rule covers has axes that are not known, which is never wrong, only less detailed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from isotropy.equivariance._axes import Axes, Axis, Piece, Side, plain

# The axes of a tensor that follows from the input; None where they are not known.
AxesOf: TypeAlias = Callable[[Tensor], Axes | None]


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


IDENTITIES = names(
    "contiguous clone detach to type float double half bfloat16 cpu cuda alias type_as "
    "requires_grad_ dropout dropout2d dropout3d alpha_dropout feature_dropout"
)
VIEWS = names(
    "reshape view flatten unflatten permute transpose swapaxes swapdims movedim moveaxis "
    "unsqueeze squeeze expand expand_as select narrow chunk split split_with_sizes "
    "tensor_split unbind ravel __getitem__ view_as reshape_as t adjoint broadcast_to "
    "__get__"
)
_REDUCTIONS = names("mean sum amax amin prod logsumexp std var max min median nanmean")
_SAMPLING = ("conv", "avg_pool", "max_pool", "adaptive", "interpolate", "upsample")


def axes_after(
    name: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    out: Tensor,
    tracked: Callable[[Any], bool],
    axes_of: AxesOf,
) -> Axes | None:
    """The axes of (the first tensor of) a result.

    Args:
        name: What was called.
        args: Its arguments.
        kwargs: Its named arguments.
        out: What came out.
        tracked: Whether a value follows from the input.
        axes_of: The axes of such a value.
    """
    if name == "__setitem__" and tracked(args[0]):
        return axes_of(args[0])
    if name.startswith("fft_"):
        return None
    given = [value for value in flat_tensors((args, kwargs)) if tracked(value)]
    known = [axes for value in given if (axes := axes_of(value)) is not None]
    if not known or len(known) < len(given):
        return None
    if name in IDENTITIES:
        return known[0]
    if name in _REDUCTIONS and out.shape != given[0].shape:
        found = _reduced(known[0], args, kwargs, out)
    elif name in ("linear", "pad") or name.startswith(_SAMPLING):
        found = _of_first(name, known[0], args, kwargs, out)
    elif name in _OF_SEVERAL:
        found = _OF_SEVERAL[name](args, kwargs, out, lambda x: axes_of(x) if tracked(x) else None)
    else:
        found = _broadcast(known, out)
    return found if found is not None and found.shape == tuple(out.shape) else None


def _of_first(
    name: str, axes: Axes, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor
) -> Axes | None:
    """The axes of a result whose space is that of the first argument."""
    if name == "linear":
        return _mixed_along(axes, -1, out.shape[-1])
    return _padded(axes, args, kwargs) if name == "pad" else _sampled(name, axes, args, kwargs, out)


def flat_tensors(values: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dictionaries."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, tuple | list):
        return [tensor for value in values for tensor in flat_tensors(value)]
    if isinstance(values, dict):
        return flat_tensors(list(values.values()))
    return []


def floating_tensors(values: Any) -> list[Tensor]:
    """Those of them that can have a derivative."""
    return [t for t in flat_tensors(values) if t.is_floating_point() or t.is_complex()]


def axes_of_views(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], source: Axes | None
) -> list[Axes | None] | None:
    """The axes of the results of a view of the first argument; None where it is no view.

    The view is taken of an empty contiguous tensor, whose strides then tell what was done.
    """
    shape = source.shape if source is not None else args[0].shape
    dummy = torch.empty(shape, device="meta")
    try:
        outs = function(dummy, *args[1:], **kwargs)
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
        return None
    found: list[Axes | None] = []
    for out in flat_tensors(outs):
        if not share_memory(dummy, out):
            return None
        view = source and source.viewed(out.shape, out.stride(), int(out.storage_offset()))
        found.append(view)
    return found


def share_memory(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are, or are views of, one."""
    return bool(torch._C._is_alias_of(a, b))  # type: ignore[attr-defined]  # not in the stubs


# --- operations on pictures -------------------------------------------------------------------


def _sampled(
    name: str, axes: Axes, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor
) -> Axes | None:
    """Convolutions, poolings and interpolations: where their samples are."""
    count = len(axes.sides)
    space = [Axis((Piece(side.size, i),)) for i, side in enumerate(axes.sides)]
    if list(axes.axes[-count:]) != space or not name.rstrip("d")[-1:].isdigit():
        if "interpolate" not in name or list(axes.axes[-count:]) != space:
            return _pointwise_convolution(name, axes, args, out)
    elif int(name.rstrip("d")[-1]) != count:
        return None
    if len(axes.axes) != count + 2 or not all(axis.is_plain for axis in axes.axes[:-count]):
        return None
    if all(size == 1 for size in out.shape[-count:]):
        return Axes(axes.sides, tuple(plain(size) for size in out.shape))
    sides = []
    for i, side in enumerate(axes.sides):
        size = out.shape[i - count]
        pitch, origin = _step(name, i, count, side.size, size, args, kwargs)
        sides.append(Side(size, side.pitch * pitch, side.origin + side.pitch * origin, side.whole))
    return Axes.image(tuple(sides), out.shape[:-count], channels_last=False)


def _pointwise_convolution(name: str, axes: Axes, args: Sequence[Any], out: Tensor) -> Axes | None:
    """A convolution with a kernel of 1 over axes that hold no space mixes the channel axis."""
    if not name.startswith("conv") or len(args) < 2 or not isinstance(args[1], Tensor):
        return None
    if any(size != 1 for size in args[1].shape[2:]) or axes.shape[2:] != tuple(out.shape[2:]):
        return None
    return _mixed_along(axes, 1, out.shape[1])


def _step(
    name: str, i: int, count: int, n: int, size: int, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[float, float]:
    """The distance of samples, and the place of the first, in samples of the argument."""

    def option(key: str, at: int, default: Any) -> Any:
        value = kwargs.get(key, args[at] if len(args) > at else default)
        if value is None or value == []:
            value = default
        if isinstance(value, tuple | list):
            return value[i if len(value) > 1 else 0]
        return value

    if name.startswith("conv"):
        kernel = args[1].shape[i - count] if len(args) > 1 else kwargs["weight"].shape[i - count]
        return _convolution_step("transpose" in name, kernel, option)
    if name.startswith(("avg_pool", "max_pool")):
        kernel = option("kernel_size", 1, 1)
        stride, padding = option("stride", 2, kernel), option("padding", 3, 0)
        dilation = option("dilation", 4, 1) if name.startswith("max") else 1
        return stride, (kernel - 1) * dilation / 2 - padding
    if name.startswith("adaptive"):
        return n / size, (n / size - 1) / 2
    if option("align_corners", 4, False) and size > 1:
        return (n - 1) / (size - 1), 0.0
    factor = option("scale_factor", 2, None)
    pitch = 1 / factor if factor and not kwargs.get("recompute_scale_factor") else n / size
    mode = option("mode", 3, "nearest")
    if mode.startswith("nearest") and pitch > 1:  # samples are taken as they are
        return pitch, float(pitch // 2) if mode == "nearest-exact" else 0.0
    return pitch, (pitch - 1) / 2


def _convolution_step(
    transposed: bool, kernel: int, option: Callable[[str, int, Any], Any]
) -> tuple[float, float]:
    stride, padding = option("stride", 3, 1), option("padding", 4, 0)
    width = (kernel - 1) * option("dilation", 7 if transposed else 5, 1)
    if padding in ("same", "valid"):
        padding = width // 2 if padding == "same" else 0
    return (
        (1 / stride, (padding - width / 2) / stride)
        if transposed
        else (stride, width / 2 - padding)
    )


def _padded(axes: Axes, args: Sequence[Any], kwargs: dict[str, Any]) -> Axes | None:
    pads = list(args[1] if len(args) > 1 else kwargs["pad"])
    new, sides = list(axes.axes), list(axes.sides)
    for i in range(len(pads) // 2):
        left, right = pads[2 * i : 2 * i + 2]
        axis = axes.axes[-1 - i]
        if axis.is_plain:
            new[-1 - i] = plain(axis.size + left + right)
            continue
        if len(axis.pieces) != 1 or axis.pieces[0].size != axes.sides[axis.pieces[0].side].size:
            return None
        number = axis.pieces[0].side
        side = axes.sides[number]
        size = side.size + left + right
        sides[number] = Side(size, side.pitch, side.origin - left * side.pitch, side.whole)
        new[-1 - i] = Axis((Piece(size, number),))
    return Axes(tuple(sides), tuple(new))


# --- products and sums ------------------------------------------------------------------------


def _mixed_along(axes: Axes, at: int, size: int) -> Axes:
    """The axes after a matrix was multiplied into one of them."""
    at %= len(axes.axes)
    rest = Axes(axes.sides, (*axes.axes[:at], plain(size), *axes.axes[at + 1 :]))
    gone = {piece.side for piece in axes.axes[at].pieces if piece.side >= 0 and piece.size > 1}
    left = {piece.side for axis in rest.axes if not axis.mixed for piece in axis.pieces}
    if gone <= left:  # patches were mixed, and lie as the picture's samples did
        return rest.coarsened()
    return Axes(axes.sides, (*axes.axes[:at], _mixed(axes.axes[at], size), *axes.axes[at + 1 :]))


def _mixed(axis: Axis, size: int) -> Axis:
    """An axis after a matrix was multiplied into it."""
    if axis.is_plain:
        return plain(size)
    return Axis(axis.pieces, axis.before, axis.after, 0 if size == axis.unmixed else size)


def _product(
    args: Sequence[Any], _kwargs: dict[str, Any], out: Tensor, axes_of: AxesOf
) -> Axes | None:
    a, b = args[:2]
    if a.ndim < 2 or b.ndim < 2:
        return None
    left, right = axes_of(a), axes_of(b)
    if right is None and left is not None and a.ndim == out.ndim:
        return _mixed_along(left, -1, out.shape[-1])
    if left is None and right is not None and b.ndim == out.ndim:
        return _mixed_along(right, -2, out.shape[-2])
    if left is None or right is None:
        return None
    rows, columns = left.axes[-2], right.axes[-1]
    leading = _merged([left.axes[:-2], right.axes[:-2]], out.shape[:-2])
    return None if leading is None else Axes(left.sides, (*leading, rows, columns))


def _attended(
    args: Sequence[Any], _kwargs: dict[str, Any], out: Tensor, axes_of: AxesOf
) -> Axes | None:
    query = axes_of(args[0])
    return query and Axes(query.sides, (*query.axes[:-1], plain(out.shape[-1])))


def _einsum(
    args: Sequence[Any], _kwargs: dict[str, Any], out: Tensor, axes_of: AxesOf
) -> Axes | None:
    if not isinstance(args[0], str) or "." in args[0]:
        return None
    operands = args[1] if isinstance(args[1], tuple | list) else args[1:]
    terms, arrow, result = args[0].replace(" ", "").partition("->")
    pairs = zip(terms.split(","), map(axes_of, operands), strict=True)
    known = [(term, axes) for term, axes in pairs if axes is not None]
    letters = _letters(known)
    if not arrow or not known or letters is None:
        return None
    lost = [axis for letter, axis in letters.items() if letter not in result and not axis.is_plain]
    new = [letter for letter in result if letter not in letters]
    if lost and new and (len(lost) > 1 or len(new) > 1):
        return None
    found = []
    for letter, size in zip(result, out.shape, strict=True):
        made = _mixed(lost[0], size) if lost else plain(size)
        found.append(letters.get(letter, made))
    return Axes(known[-1][1].sides, tuple(found))


def _letters(known: list[tuple[str, Axes]]) -> dict[str, Axis] | None:
    """The axis of each letter of an einsum; None where two with space differ."""
    letters: dict[str, Axis] = {}
    for term, axes in known:
        for letter, axis in zip(term, axes.axes, strict=True):
            if letter in letters and not letters[letter].is_plain and letters[letter] != axis:
                return None
            if letter not in letters or not axis.is_plain:
                letters[letter] = axis
    return letters


def _reduced(axes: Axes, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> Axes | None:
    dims = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis"))
    if dims is None:
        return Axes(axes.sides, ()) if out.ndim == 0 else None
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    if not all(isinstance(dim, int) for dim in dims):
        return None
    gone = {dim % len(axes.axes) for dim in dims}
    keeps = out.ndim == len(axes.axes)
    kept = [
        plain(1) if i in gone else axis
        for i, axis in enumerate(axes.axes)
        if keeps or i not in gone
    ]
    return Axes(axes.sides, tuple(kept)).coarsened()


def _joined(
    args: Sequence[Any], kwargs: dict[str, Any], _out: Tensor, axes_of: AxesOf
) -> Axes | None:
    parts = list(args[0] if args else kwargs["tensors"])
    dim = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))
    if not isinstance(dim, int):
        return None
    dim %= parts[0].ndim
    known = [axes_of(part) for part in parts]
    spatial = [i for i, axes in enumerate(known) if axes is not None and not axes.is_invariant]
    if not spatial:
        one = next(axes for axes in known if axes is not None)
        total = sum(part.shape[dim] for part in parts)
        return Axes(one.sides, (*one.axes[:dim], plain(total), *one.axes[dim + 1 :]))
    whole = known[spatial[0]]
    assert whole is not None
    if whole.axes[dim].is_plain:
        if any(known[i].axes[:dim] != whole.axes[:dim] for i in spatial):  # type: ignore[union-attr]
            return None
        joined = plain(sum(part.shape[dim] for part in parts))
    elif len(spatial) == 1 and not whole.axes[dim].mixed:
        axis, at = whole.axes[dim], spatial[0]
        before = axis.before + sum(part.shape[dim] for part in parts[:at])
        after = axis.after + sum(part.shape[dim] for part in parts[at + 1 :])
        joined = Axis(axis.pieces, before, after)
    else:
        return None
    return Axes(whole.sides, (*whole.axes[:dim], joined, *whole.axes[dim + 1 :]))


def _stacked(
    args: Sequence[Any], kwargs: dict[str, Any], _out: Tensor, axes_of: AxesOf
) -> Axes | None:
    parts = list(args[0] if args else kwargs["tensors"])
    dim = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis", 0))
    known = [axes for part in parts if (axes := axes_of(part)) is not None]
    if any(axes.axes != known[0].axes for axes in known):
        return None
    stacked = list(known[0].axes)
    stacked.insert(dim % (len(stacked) + 1), plain(len(parts)))
    return Axes(known[0].sides, tuple(stacked))


def _broadcast(given: Sequence[Axes], out: Tensor) -> Axes | None:
    """The axes of a result whose shape is that of its arguments, broadcast together."""
    merged = _merged([axes.axes for axes in given], tuple(out.shape))
    if merged is None:
        return None
    spatial = next((axes for axes in given if not axes.is_invariant), given[0])
    return Axes(spatial.sides, merged)


def _merged(given: Sequence[tuple[Axis, ...]], shape: Sequence[int]) -> tuple[Axis, ...] | None:
    """Axes aligned from the right; where one has space it wins over plain ones."""
    found = [plain(size) for size in shape]
    for axes in given:
        if len(axes) > len(found):
            return None
        for i, axis in enumerate(reversed(axes)):
            at = len(found) - 1 - i
            if axis.size == 1 or axis.is_plain:
                if axis.size not in (1, shape[at]):
                    return None
                continue
            if axis.size != shape[at] or (not found[at].is_plain and found[at] != axis):
                return None
            found[at] = axis
    return tuple(found)


_OF_SEVERAL: dict[str, Callable[..., Axes | None]] = {
    **dict.fromkeys(("matmul", "bmm", "__matmul__", "__rmatmul__"), _product),
    **dict.fromkeys(("scaled_dot_product_attention", "multi_head_attention_forward"), _attended),
    **dict.fromkeys(("cat", "concat", "concatenate"), _joined),
    "einsum": _einsum,
    "stack": _stacked,
}
