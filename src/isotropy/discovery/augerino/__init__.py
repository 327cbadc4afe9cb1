"""Learned augmentation: the law of the transformations is trained with the model."""
