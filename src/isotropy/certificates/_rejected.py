"""Why a certificate is not accepted."""

from __future__ import annotations


class Rejected(ValueError):
    """A certificate, or bytes that claim to be one, does not hold; the message says why."""
