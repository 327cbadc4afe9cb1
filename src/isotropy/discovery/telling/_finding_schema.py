"""What ``finding.json`` and ``findings.json`` hold: every field, its type and its size.

Files of findings come from strangers too. Whatever is in them is checked here, before any of it is
used: a value of another type, out of range or too large is refused in a sentence that names its
field. So is a field that we do not know: a version that adds one may mean something by it that
changes what the others say. Only the rows of tables (``tried``, ``classes``, ``discrete``,
``layers``, ``certificates``) may have columns of any name, for they are shown and no more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from isotropy._run._json import shown
from isotropy._run._json_fields import (
    Field,
    Misfit,
    array,
    as_given,
    either,
    flag,
    named,
    number,
    one_of,
    or_null,
    record,
    row,
    several,
    text,
    whole,
)
from isotropy.discovery.claims._statement import KINDS
from isotropy.discovery.modelling._model_spec import model_spec
from isotropy.discovery.telling._finding_files import PLACES

MOST_FINDINGS = 100  # of a kind
GROUP_LETTERS = 2**20  # generators are written out in the text of a group
_NAME = 10_000
_MOST_NAMES = 100_000  # columns of a table
_MOST_ROWS = 20_000  # of a table that is shown
_MOST_NUMBERS = 2_000_000
_COUNT = whole(0, 2**53)
_LARGEST_ORDER = 10**4000  # that of S(1400)

_share = number(0, 1)
_loss = or_null(number(), math.nan)  # JSON has no spelling for it
_name = text(_NAME)
_sentence = text()
_names = several(_name, _MOST_NAMES)
_group = text(GROUP_LETTERS)

_version = whole(1, 2)
_layout = record(
    {},
    {
        "channels": whole(1, 2**20),
        "output_channels": whole(1, 2**20),
        "channels_first": flag,
        "sequences": flag,
        "output_sequences": flag,
        "image": several(whole(1, 2**16), 3),
        "output_image": several(whole(1, 2**16), 3),
    },
)
_symmetry = record({"format": whole(1, 1), "group": _group, "rep_in": _group, "rep_out": _group})
_comparison = record(
    {
        "loss": text(200),
        **dict.fromkeys(("strict", "free", "constant", "error"), _loss),
        "samples": _COUNT,
        "fitted": _COUNT,
    },
    {
        "strict_accuracy": or_null(_share),
        "free_accuracy": or_null(_share),
        "curve": several(row(_COUNT, _loss, _loss), 1000),
    },
)
_soft = record(
    {
        "comparison": record(
            {
                **dict.fromkeys(("free", "strict", "soft"), _loss),
                **dict.fromkeys(("better_than_free", "better_than_strict"), _loss),
                **dict.fromkeys(("free_error", "strict_error"), _loss),
                "p_value": or_null(_share, math.nan),
                "samples": _COUNT,
            }
        ),
        "model": or_null(model_spec),
    }
)
_tried = record(
    {"name": _sentence, "confirmed": flag, "p_value": or_null(_share)},
    {"method": _sentence, "effect": or_null(number()), "note": _sentence},
    others=True,
)
_class = record(
    {},
    {
        **dict.fromkeys(("action", "title", "note"), _sentence),
        **dict.fromkeys(("dimension", "unknowns"), or_null(_COUNT)),
        **dict.fromkeys(("chosen", "exact"), or_null(flag)),
        "gap": or_null(number()),
    },
    others=True,
)
_discrete = record(
    {"name": _sentence, "holds": or_null(flag)},
    {"testable": flag, "p_value": or_null(_share), "effect": or_null(number()), "note": _sentence},
    others=True,
)
_shares = named(or_null(number()), text(200), 1000)
_layer = record(
    {},
    {
        **dict.fromkeys(("layer", "maps", "type", "shares"), _sentence),
        "strict": flag,
        "history": several(_shares, 10_000),
        "lee": _shares,
    },
    others=True,
)
_certificate = record(
    {},
    {
        **dict.fromkeys(("model", "path"), _sentence),
        **dict.fromkeys(("bound", "train_error", "error", "delta"), or_null(number())),
        **dict.fromkeys(("message_bits", "bits", "n"), or_null(_COUNT)),
    },
    others=True,
)
_certificates = record(
    {},
    {
        **dict.fromkeys(("with", "without"), _certificate),
        **dict.fromkeys(("reason", "verdict"), _sentence),
        "group_bits": or_null(_COUNT),
        "paid": flag,
    },
    others=True,
)


def _certificates_or_reason(value: Any) -> Any:
    """Two certificates, or why there are none."""
    found = _certificates(value)
    if "reason" not in found and not {"with", "without"} <= found.keys():
        raise Misfit("certificates with and without the symmetry, or a reason", shown(value))
    return value


def _places(word: str) -> Field:
    """The folders of findings of a kind: word-1, word-2, …, and no others."""

    def field(value: Any) -> tuple[str, ...]:
        found: tuple[str, ...] = several(text(40), MOST_FINDINGS)(value)
        if found != (known := tuple(f"{word}-{k}" for k in range(1, len(found) + 1))):
            odd = next(
                k for k, pair in enumerate(zip(found, known, strict=True)) if pair[0] != pair[1]
            )
            misfit = Misfit(repr(known[odd]), shown(found[odd]))
            misfit.path.append(str(odd))
            raise misfit
        return found

    return field


# what each kind of symmetry adds
_labels = {"labels": or_null(array((1, 2), _MOST_NUMBERS, integers=True))}
_of_generators = {
    "centre": several(number(), _MOST_NAMES),
    "coordinates": _names,
    "generators": or_null(array((3,), _MOST_NUMBERS, square=True)),
    "metric": or_null(array((2,), _MOST_NUMBERS, square=True)),
    "classes": several(as_given(_class), _MOST_ROWS),
    "discrete": several(as_given(_discrete), _MOST_ROWS),
}
_of_layers = {"layers": several(as_given(_layer), _MOST_ROWS)}
_on_rows = {
    "rows": or_null(array((3,), _MOST_NUMBERS)),
    "outputs": or_null(array((3,), _MOST_NUMBERS, square=True)),
}
_kind = {"kind": one_of(KINDS)}
_DETAILS: Mapping[str, Field] = {
    "plain": record(_kind),
    "weights": record({**_kind, **_labels}),
    "continuous": record({**_kind, **_of_generators, **_on_rows}),
    "layers": record({**_kind, **_of_layers}),
}


def _details(value: Any) -> dict[str, Any]:
    """What the kind adds that it names."""
    kind = value.get("kind") if isinstance(value, dict) else None
    return dict(_DETAILS.get(kind if isinstance(kind, str) else "", _DETAILS["plain"])(value))


_NEEDED: Mapping[str, Field] = {
    "format": _version,
    **dict.fromkeys(("name", "action", "method"), _sentence),
    "group": _group,
    "effect": or_null(number(), math.nan),
    "interval": row(or_null(number(), -math.inf), or_null(number(), math.inf)),
    "symmetry": or_null(_symmetry),
    "custom": named(array((2,), _MOST_NUMBERS, integers=True), text(64, 1), 64),
    "layout": _layout,
    "model": or_null(model_spec),
    "has_weights": flag,
}
_KNOWN: Mapping[str, Field] = {
    "order": whole(1, _LARGEST_ORDER),
    "dimension": _COUNT,
    "approximate": flag,
    "confirmed": flag,
    "p_value": _share,
    "margin": number(0),
    "samples": _COUNT,
    "trivial": _sentence,
    "notes": several(_sentence, _MOST_ROWS),
    "input_names": _names,
    "output_names": _names,
    "soft": or_null(_soft),
    "has_soft_weights": flag,
    "comparison": or_null(_comparison),
    "equivariance_error": or_null(number(0)),
    "examples": or_null(array((3, 4, 5), _MOST_NUMBERS)),
    "certificates": or_null(_certificates_or_reason),
}
FINDING: Mapping[int, Field] = {
    1: record({**_NEEDED, **_labels}, {**_KNOWN, **_of_generators, **_of_layers}),
    2: record({**_NEEDED, "details": _details}, _KNOWN),
}

_LATER = ("nearly", "partly")  # lists that files of this format may lack
FINDINGS: Field = record(
    {
        "format": _version,
        **{kind: _places(word) for kind, word in PLACES.items() if kind not in _LATER},
    },
    {
        **{kind: _places(PLACES[kind]) for kind in _LATER},
        "answer": _sentence,
        "tried": several(
            either("a text or an object", text=_sentence, object=as_given(_tried)), _MOST_ROWS
        ),
        "seconds": number(0),
        "notes": several(_sentence, _MOST_ROWS),
        "reading": _sentence,
        "stopped": _sentence,
    },
)
