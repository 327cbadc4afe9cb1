"""Continuous symmetry: generators from data, and the exact Lie algebra near them."""
