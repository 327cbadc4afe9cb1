"""Motions of images, and layers that commute with them."""
