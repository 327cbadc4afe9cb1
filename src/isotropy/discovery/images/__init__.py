"""Symmetries of images: which motions leave the class, and which layers may commute with them."""
