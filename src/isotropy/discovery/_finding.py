"""What discovery returns: a symmetry, its name, how sure it is, and the model that has it."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isotropy._run import Checkpoint, json_text, write_json
from isotropy.discovery._soft_offer import SoftOffer
from isotropy.discovery._standardised import build_model
from isotropy.discovery.confirming._soft_comparison import SoftComparison
from isotropy.discovery.naming._row_rep import RowRep
from isotropy.reps import Rep, Symmetry

_FORMAT = 1
_PLACES = {"findings": "finding", "trivial": "trivial", "nearly": "nearly"}
_LATER = ("nearly",)  # lists that files of this format may lack
_NEGLIGIBLE = 1e-5  # size of an effect below which its digits are noise
_FILE, _LIST = "finding.json", "findings.json"
_WEIGHTS, _SOFT_WEIGHTS = "model.safetensors", "soft.safetensors"
# what is written as it is; the other fields have a form of their own
_PLAIN = (
    *("name", "group", "order", "dimension", "action", "approximate", "confirmed", "p_value"),
    *("effect", "margin", "samples", "method", "trivial", "notes", "input_names", "output_names"),
    *("centre", "coordinates", "classes", "discrete", "layers"),
)
_LISTS = (
    *("notes", "input_names", "output_names"),
    *("centre", "coordinates", "classes", "discrete", "layers"),
)


_SMALLEST_SHOWN = 1e-6  # the normal approximation of the test says nothing of smaller chances


def shown_p_value(value: float) -> str:
    """A p-value in text.

    Example:
        >>> shown_p_value(0.0123), shown_p_value(1e-46)
        ('p = 0.012', 'p < 1e-06')
    """
    return f"p = {value:.2g}" if value >= _SMALLEST_SHOWN else f"p < {_SMALLEST_SHOWN:.0e}"


@dataclass(frozen=True)
class Layout:
    """How rows of data are laid out for a model, channel by channel over positions.

    Args:
        channels: Channels of inputs; more than one where they have positions and channels.
        output_channels: Those of outputs.
        channels_first: Whether they come before positions in the data.
        image: The shape of an image as it was given; empty where data are none.
    """

    channels: int = 1
    output_channels: int = 1
    channels_first: bool = False
    image: tuple[int, ...] = ()

    def rows(self, x: Tensor) -> Tensor:
        """Data as they were given, as rows that a model takes.

        Raises:
            ValueError: If the shape is not that of the data.

        Example:
            >>> Layout(image=(1, 4, 6)).rows(torch.zeros(5, 1, 4, 6)).shape
            torch.Size([5, 24])
        """
        if self.image:
            if x.shape[1:] != self.image:
                shape = ", ".join(map(str, self.image))
                raise ValueError(f"expected images of shape (n, {shape}), got {tuple(x.shape)}")
            return x.flatten(1)
        axes = 2 if self.channels == 1 else 3
        if x.ndim != axes:
            raise ValueError(f"expected inputs with {axes} axes, got shape {tuple(x.shape)}")
        if x.ndim == 3:
            return (x if self.channels_first else x.transpose(1, 2)).flatten(1)
        return x


@dataclass(frozen=True, eq=False)
class Finding:
    """A symmetry found in data, with the evidence for it and the model that uses it.

    Args:
        name: What it is, in prose: "Z(12), cyclic shift".
        group: The group as text that ``parse_group`` reads: "Z(12)".
        action: How the group acts, in a phrase.
        method: How it was found.
        order: The number of elements of a finite group.
        dimension: That of a continuous group.
        approximate: Whether it holds only in part.
        confirmed: Whether the test on held-out samples stands (``confirm``).
        p_value: Of that test, after Holm's correction.
        effect: What the symmetry costs, as a share of what can be learned.
        interval: Limits of the effect, each at 95 %.
        margin: The largest effect that counts as a symmetry.
        samples: How many samples it was tested on.
        trivial: Why it holds for a trivial reason; empty where it does not.
        notes: Anything else worth knowing.
        symmetry: The group and its actions.
        custom: Representations that ``symmetry`` names and the library does not.
        layout: How data are laid out.
        labels: Which weights of a linear map are equal, shape (d_out, d_in) or (K,).
        generators: Of a continuous group, exact, shape (D, d, d): as they act on ``coordinates``,
            or on these and a last one that is always 1, where there are translations.
        centre: The point that is subtracted from inputs before generators and symmetry act, one
            number for each column; empty for the origin.
        metric: The symmetric form that they leave invariant, shape (d, d), where there is one.
        coordinates: What they act on: columns, or what the columns of all blocks have in common.
        classes: Every class of actions that was looked at, as a dictionary of plain values each,
            with the algebra found in it and whether it was chosen.
        discrete: Reflections and the like beyond the continuous group, as a dictionary each, and
            whether they hold.
        layers: Of a network whose first layers have the symmetry, all its layers, as a dictionary
            each: the type learned, the shares of its paths, and whether it is strict.
        model: The model that has the symmetry.
        model_spec: What ``build_model`` makes such a model from; needed to save it.
        soft: Where it holds in part, a model that prefers the symmetry and is not bound to it, and
            how it compares with the strict model and with a free predictor.
        input_names: Of the positions of the input, where they have names.
        output_names: Of those of the output.

    Example:
        >>> finding = Finding(
        ...     "Z(12), cyclic shift",
        ...     "Z(12)",
        ...     "cyclic shift",
        ...     "linear colours",
        ...     order=12,
        ...     confirmed=True,
        ...     p_value=1e-4,
        ...     effect=0.004,
        ... )
        >>> print(finding)
        Z(12), cyclic shift: confirmed (p = 0.0001), costs 0.4 % of what can be learned
    """

    name: str
    group: str
    action: str
    method: str
    order: int | None = None
    dimension: int | None = None
    approximate: bool = False
    confirmed: bool = False
    p_value: float = 1.0
    effect: float = math.nan
    interval: tuple[float, float] = (-math.inf, math.inf)
    margin: float = 0.05
    samples: int = 0
    trivial: str = ""
    notes: tuple[str, ...] = ()
    symmetry: Symmetry | None = None
    custom: Mapping[str, RowRep] = field(default_factory=dict, repr=False)
    layout: Layout = Layout()
    labels: NDArray[np.int64] | None = field(default=None, repr=False)
    generators: NDArray[np.float64] | None = field(default=None, repr=False)
    metric: NDArray[np.float64] | None = field(default=None, repr=False)
    centre: tuple[float, ...] = ()
    coordinates: tuple[str, ...] = ()
    classes: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    discrete: tuple[Mapping[str, Any], ...] = ()
    layers: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    model: nn.Module | None = field(default=None, repr=False)
    model_spec: Mapping[str, Any] | None = None
    soft: SoftOffer | None = field(default=None, repr=False)
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.p_value <= 1:
            raise ValueError(f"expected a p-value between 0 and 1, got {self.p_value!r}")
        for name in _LISTS:
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, axes in (("generators", 3), ("metric", 2)):
            self._keep_matrices(name, axes)
        object.__setattr__(self, "interval", (float(self.interval[0]), float(self.interval[1])))
        for name, kind in (("approximate", bool), ("confirmed", bool), ("p_value", float)):
            object.__setattr__(self, name, kind(getattr(self, name)))  # numpy's own have no JSON
        if self.labels is not None:
            labels = np.array(self.labels)
            if labels.ndim not in (1, 2) or not np.issubdtype(labels.dtype, np.integer):
                raise ValueError(
                    "expected integer labels of a vector or a matrix, got "
                    f"{labels.dtype} of shape {labels.shape}"
                )
            labels = labels.astype(np.int64)
            labels.flags.writeable = False
            object.__setattr__(self, "labels", labels)

    def _keep_matrices(self, name: str, axes: int) -> None:
        """Square matrices of finite numbers, which nobody may change."""
        if getattr(self, name) is None:
            return
        given = np.array(getattr(self, name), dtype=np.float64)
        if given.ndim != axes or given.shape[-1] != given.shape[-2] or not np.isfinite(given).all():
            raise ValueError(
                f"expected finite square matrices as {name}, got an array of shape {given.shape}"
            )
        given.flags.writeable = False
        object.__setattr__(self, name, given)

    @property
    def cost(self) -> str:
        """The effect in words."""
        if math.isnan(self.effect):
            return "nothing can be learned"
        if abs(self.effect) < _NEGLIGIBLE:  # rounding errors have no meaning, nor has their sign
            return f"costs less than {_NEGLIGIBLE * 100:g} % of what can be learned"
        verb = "costs" if self.effect >= 0 else "saves"
        percent = float(f"{abs(self.effect) * 100:.2g}")
        return f"{verb} {percent:g} % of what can be learned"

    @property
    def verdict(self) -> str:
        """Whether it stands, in a few words."""
        if self.trivial:
            return "holds trivially"
        if self.soft is not None and not self.confirmed:
            return "holds nearly"
        return "confirmed" if self.confirmed else "not confirmed"

    def predict(self, X: ArrayLike | Tensor, *, soft: bool | None = None) -> NDArray[np.float64]:
        """What the model predicts for data as they were given: values, or logits of classes.

        Args:
            X: Inputs, shape ``(N, n)``, ``(N, n, channels)`` for sequences and sets, or images.
            soft: Whether to predict with the soft model; by default where there is one and it
                predicted the rows held out better than the strict one.

        Raises:
            ValueError: If there is no such model, or the shape is not that of the data.
        """
        if soft is None:
            soft = self.soft is not None and self.soft.is_better
        model = self.model
        if soft:
            model = None if self.soft is None else self.soft.model
        if model is None:
            what = "a soft model" if soft else "a model"
            raise ValueError(f"expected {what} of {self.name!r:.80} to predict with, got none")
        like = next(model.parameters())
        x = torch.as_tensor(X if isinstance(X, Tensor) else np.asarray(X)).to(like)
        x = self.layout.rows(x)
        with torch.no_grad():
            y = model(x)
        if self.layout.output_channels > 1:
            y = y.unflatten(1, (self.layout.output_channels, -1))
            y = y if self.layout.channels_first else y.transpose(1, 2)
        predicted: NDArray[np.float64] = y.double().cpu().numpy()
        return predicted

    def to_json(self) -> dict[str, Any]:
        """Everything but the labels and the weights, of what JSON knows.

        A finite group has an ``order``, a continuous one a ``dimension``.

        Example:
            >>> Finding("S(3)", "S(3)", "all positions", "swaps", order=6).to_json()["order"]
            6
        """
        plain = {name: getattr(self, name) for name in _PLAIN}
        for name in ("order", "dimension"):
            if plain[name] is None:
                del plain[name]
        written = None if self.symmetry is None else json.loads(self.symmetry.to_json())
        spec = None if self.model_spec is None else dict(self.model_spec)
        tables = {name: rep.table.tolist() for name, rep in self.custom.items()}
        rest = {
            **{
                name: None if matrices is None else matrices.tolist()
                for name, matrices in (("generators", self.generators), ("metric", self.metric))
            },
            "interval": list(self.interval),
            "symmetry": written,
            "custom": tables,
            "layout": {**asdict(self.layout), "image": list(self.layout.image)},
            "model": spec,
            "soft": None if self.soft is None else self.soft.to_json(),
        }
        lists = {name: list(getattr(self, name)) for name in _LISTS}
        return {**plain, **lists, **rest}

    def save(self, folder: str | Path) -> Path:
        """Write ``finding.json``, and the weights of what models there are.

        Those of the model are in ``model.safetensors``, of the soft one in ``soft.safetensors``.

        Args:
            folder: Made where it is not there.

        Returns:
            The folder.

        Raises:
            ValueError: If there is a model without a description to build it from.

        Example:
            >>> import tempfile
            >>> finding = Finding("S(3)", "S(3)", "all positions", "swaps", order=6)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Finding.load(finding.save(folder)).name
            'S(3)'
        """
        offer = self.soft
        models = [(_WEIGHTS, self.model, self.model_spec)]
        if offer is None:
            models.append((_SOFT_WEIGHTS, None, None))
        else:
            models.append((_SOFT_WEIGHTS, offer.model, offer.model_spec))
        if any(model is not None and spec is None for _, model, spec in models):
            raise ValueError(
                f"expected a description (model_spec) of the model of {self.name!r:.80} to save "
                "it with, got none"
            )
        folder = _made(folder)
        labels = None if self.labels is None else self.labels.tolist()
        given = {
            **self.to_json(),
            "labels": labels,
            "has_weights": self.model is not None,
            "has_soft_weights": offer is not None and offer.model is not None,
        }
        for file, model, spec in models:
            if model is None:
                (folder / file).unlink(missing_ok=True)
            else:
                Checkpoint(folder / file, _fingerprint(given, spec)).save(model.state_dict(), {})
        write_json(folder / _FILE, {"format": _FORMAT, **given})
        return folder

    @staticmethod
    def load(folder: str | Path) -> Finding:
        """Read what ``save`` wrote, and build the model anew.

        Raises:
            ValueError: If it is damaged, or another version wrote it.
        """
        given = _read(Path(folder) / _FILE, "a finding")
        try:
            return _restored(given, Path(folder))
        except (KeyError, TypeError, RuntimeError) as error:
            raise ValueError(
                f"expected a finding in {str(folder)!r}, got a damaged one "
                f"({type(error).__name__}: {error!s:.200})"
            ) from error

    def __str__(self) -> str:
        why = f" ({shown_p_value(self.p_value)}), {self.cost}"
        return f"{self.name}: {self.verdict}" + (f": {self.trivial}" if self.trivial else why)

    def _repr_html_(self) -> str:
        rest = str(self)[len(self.name) :]
        return f"<p><b>{html.escape(self.name)}</b>{html.escape(rest)}</p>"


@dataclass(frozen=True, eq=False)
class Findings(Sequence[Finding]):
    """All that one search found, and what it tried.

    Args:
        findings: What was found: continuous groups first, then the largest.
        tried: What was tried, a text or a dictionary of plain values each.
        seconds: How long it took.
        notes: Anything else worth knowing.
        trivial: Symmetries that hold for a trivial reason, and are no discoveries.
        nearly: Symmetries that are broken too much to be claimed, but whose soft model predicts
            better than a model without them.

    Example:
        >>> found = Findings([Finding("S(3)", "S(3)", "all positions", "swaps", order=6)])
        >>> len(found), found[0].name, found.best
        (1, 'S(3)', None)
    """

    findings: Sequence[Finding] = ()
    tried: Sequence[str | Mapping[str, Any]] = ()
    seconds: float = 0.0
    notes: Sequence[str] = ()
    trivial: Sequence[Finding] = ()
    nearly: Sequence[Finding] = ()

    def __post_init__(self) -> None:
        for name in ("findings", "tried", "notes", "trivial", "nearly"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @overload
    def __getitem__(self, at: int) -> Finding: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Finding]: ...

    def __getitem__(self, at: int | slice) -> Finding | Sequence[Finding]:
        return self.findings[at]

    @property
    def best(self) -> Finding | None:
        """The largest symmetry that is confirmed and not trivial; None where there is none.

        One of the whole task comes before those of layers of a network.
        """
        sure = [f for f in self.findings if f.confirmed and not f.trivial]
        return max(
            sure,
            key=lambda f: (not f.layers, f.dimension or 0, f.order or 0, -f.p_value),
            default=None,
        )

    def to_json(self) -> dict[str, Any]:
        """What ``isotropy discover --json`` says.

        Example:
            >>> Findings(tried=["all swaps"], seconds=0.5).to_json().get("seconds")
            0.5
        """
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "tried": [one if isinstance(one, str) else dict(one) for one in self.tried],
            "seconds": self.seconds,
            "notes": list(self.notes),
            "trivial": [finding.to_json() for finding in self.trivial],
            "nearly": [finding.to_json() for finding in self.nearly],
        }

    def save(self, folder: str | Path) -> Path:
        """Write ``findings.json``, and each finding to a folder of its own inside.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Findings.load(Findings(tried=["all swaps"]).save(folder)).tried
            ('all swaps',)
        """
        folder = _made(folder)
        places = {}
        for kind in _PLACES:
            several = getattr(self, kind)
            places[kind] = [f"{_PLACES[kind]}-{number}" for number in range(1, len(several) + 1)]
            for place, finding in zip(places[kind], several, strict=True):
                finding.save(folder / place)
        whole = {**self.to_json(), **places}
        write_json(folder / _LIST, {"format": _FORMAT, **whole})
        return folder

    @staticmethod
    def load(folder: str | Path) -> Findings:
        """Read what ``save`` wrote.

        Raises:
            ValueError: If it is damaged, or another version wrote it.
        """
        folder = Path(folder)
        given = _read(folder / _LIST, "findings")
        loaded = {}
        for kind, word in _PLACES.items():
            places = given.get(kind, [] if kind in _LATER else None)
            known = {f"{word}-{number}" for number in range(1, len(places or ()) + 1)}
            if not isinstance(places, list) or not known.issuperset(map(str, places)):
                raise ValueError(
                    f"expected findings in {str(folder)!r}, got a damaged list of them"
                )
            loaded[kind] = [Finding.load(folder / place) for place in places]
        return Findings(
            loaded["findings"],
            given.get("tried", ()),
            given.get("seconds", 0.0),
            given.get("notes", ()),
            loaded["trivial"],
            loaded["nearly"],
        )

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings] or ["no symmetry found"]
        for finding in (*self.findings, *self.nearly):
            if finding.soft is not None:
                lines += [] if finding.confirmed else [str(finding)]
                lines += [f"  {finding.soft.comparison}", f"  {finding.soft.comparison.gain}"]
        return "\n".join([*lines, *map(str, self.trivial)])


def _made(folder: str | Path) -> Path:
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"expected a folder to save to, got the file {str(folder)!r}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _read(path: Path, what: str) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"expected a folder with {path.name}, got {str(path.parent)!r}")
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"expected {what} as JSON in {str(path)!r}, got {error}") from error
    version = given.get("format") if isinstance(given, dict) else None
    if version != _FORMAT:
        raise ValueError(
            f"expected {what} of format {_FORMAT} in {str(path)!r}, got format {version!r:.40}"
        )
    return dict(given)


def _restored(given: dict[str, Any], folder: Path) -> Finding:
    plain = {name: given[name] for name in _PLAIN if name in given}
    low, high = given["interval"]
    # JSON has no spelling for these
    plain["effect"] = math.nan if given["effect"] is None else given["effect"]
    interval = (-math.inf if low is None else low, math.inf if high is None else high)
    written, spec, labels = given["symmetry"], given["model"], given["labels"]
    custom = {name: RowRep(name, table) for name, table in given["custom"].items()}
    named: dict[str, Rep] = dict(custom)
    symmetry = None if written is None else Symmetry.from_json(json.dumps(written), named)
    partition = None if labels is None else np.array(labels)
    model = None
    if given["has_weights"]:
        model = build_model(spec, symmetry, partition)
        _load_weights(model, folder / _WEIGHTS, _fingerprint(given, spec))
    offer = None
    if given.get("soft") is not None:
        offer = SoftOffer(
            SoftComparison(**given["soft"]["comparison"]), None, given["soft"]["model"]
        )
    if offer is not None and given["has_soft_weights"]:
        soft_spec = given["soft"]["model"]
        soft = build_model(soft_spec, symmetry, partition)
        _load_weights(soft, folder / _SOFT_WEIGHTS, _fingerprint(given, soft_spec))
        offer = replace(offer, model=soft)
    return Finding(
        **plain,
        interval=interval,
        symmetry=symmetry,
        custom=custom,
        layout=Layout(**{**given["layout"], "image": tuple(given["layout"].get("image", ()))}),
        labels=partition,
        generators=given.get("generators"),
        metric=given.get("metric"),
        model=model,
        model_spec=spec,
        soft=offer,
    )


def _load_weights(model: nn.Module, path: Path, fingerprint: str) -> None:
    saved = Checkpoint(path, fingerprint).load()
    if saved is None:
        raise ValueError(f"expected the weights {path.name} in {str(path.parent)!r}, got none")
    state = saved[0]
    floating = next((t for t in state.values() if t.is_floating_point()), torch.empty(0))
    model.to(floating.dtype).load_state_dict(state)
    model.eval()


def _fingerprint(given: Mapping[str, Any], spec: Mapping[str, Any] | None) -> str:
    """Which finding the weights belong to."""
    return json_text({"name": given["name"], "symmetry": given["symmetry"], "model": spec})
