"""Z(2), mirror images: how to load the model and predict with it."""

from pathlib import Path

import numpy as np

from isotropy.discovery import Finding

finding = Finding.load(Path(__file__).parent)
print(finding)

x = np.random.default_rng(0).normal(size=(5, 1, 4, 4))  # rows like yours, in their units
print(finding.predict(x).shape)  # values, or logits of classes
# finding.model is a torch.nn.Module; finding.symmetry its group and how it acts
