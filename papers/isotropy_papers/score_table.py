"""How every network of a search space does on a data set: a search without any training."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save

from isotropy.run import atomic_write
from isotropy.search import ChildProposal, SearchSpace, State
from isotropy_papers._all_networks import check_all_networks, network_numbers
from isotropy_papers._score_table_file import FORMAT, table_parts


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Right answers of every network of a space after each epoch of its training.

    Networks are closed sets of groups, see `SearchSpace.network`. A set that is closed is the
    smallest closed one around all that it holds, and the intersection of closed sets is closed: so
    the network of any state is the intersection of all networks that hold its groups, and a table
    of all networks knows it without looking at weights. A table of some networks does not, and
    holds their counts only.

    Args:
        name: Of the data.
        space: What the networks are made of.
        networks: Closed sets of groups, each once.
        validation: How many validation rows each network classifies rightly, of shape
            (networks, seeds, epochs), in whole numbers.
        test: The same of test rows.
        validation_rows: How many validation rows there are.
        test_rows: How many test rows there are.
        parameters: How many numbers each network learns, of shape (networks,).
        complete: Whether the networks are all those of the space. What follows from that is
            checked, by the weights of a few states, when the network of a state is first asked for.

    Raises:
        ValueError: If shapes do not agree, a count is above the number of rows, or a network that
            all of them would have to hold is missing.

    Example:
        >>> space = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((4,),))
        >>> counts = np.array([70, 82, 79, 90]).reshape(4, 1, 1)
        >>> sizes = np.array([1024, 512, 512, 256])
        >>> table = ScoreTable(
        ...     "flips", space, tuple(space.states()), counts, counts, 100, 100, sizes
        ... )
        >>> table.score(ChildProposal(State(("vertical flip",))), seed=0)
        0.82
    """

    name: str
    space: SearchSpace
    networks: tuple[State, ...]
    validation: NDArray[Any]
    test: NDArray[Any]
    validation_rows: int
    test_rows: int
    parameters: NDArray[Any]
    complete: bool = True

    def __post_init__(self) -> None:
        shape = np.shape(self.validation)
        if len(shape) != 3 or shape[0] != len(self.networks) or 0 in shape:
            raise ValueError(
                f"expected validation counts of shape ({len(self.networks)}, seeds, epochs), "
                f"got {shape}"
            )
        if np.shape(self.test) != shape:
            raise ValueError(f"expected test counts of shape {shape}, got {np.shape(self.test)}")
        if np.shape(self.parameters) != shape[:1]:
            raise ValueError(
                f"expected {shape[0]} numbers of parameters, got shape {np.shape(self.parameters)}"
            )
        for part, rows in (("validation", self.validation_rows), ("test", self.test_rows)):
            counts = np.asarray(getattr(self, part))
            if not np.issubdtype(counts.dtype, np.integer):
                raise ValueError(f"expected {part} counts in whole numbers, got {counts.dtype}")
            if counts.min() < 0 or counts.max() > rows:
                raise ValueError(
                    f"expected {part} counts from 0 to {rows}, got {counts.min()} to {counts.max()}"
                )
            object.__setattr__(self, part, counts)
        object.__setattr__(self, "parameters", np.asarray(self.parameters))
        if len(set(self.networks)) != len(self.networks):
            raise ValueError("expected every network once, got some more often")
        if self.complete:
            network_numbers(self.space, self.networks)

    @property
    def seeds(self) -> int:
        """How many seeds every network was trained with."""
        return int(self.validation.shape[1])

    @property
    def epochs(self) -> int:
        """How many epochs every network was trained for."""
        return int(self.validation.shape[2])

    @cached_property
    def _index(self) -> dict[State, int]:
        """The number of the network of every state."""
        if not self.complete:
            raise ValueError(
                f"expected a table of all networks of its space, got {len(self.networks)} networks "
                f"in {self.name!r}"
            )
        check_all_networks(self.space, self.networks)
        return network_numbers(self.space, self.networks)

    def network_of(self, state: State) -> int:
        """The number of the network of a state.

        Args:
            state: Any state of the space.

        Raises:
            ValueError: If it is not of the space, or the networks are not all of the space's.
        """
        if state not in self._index:
            raise ValueError(f"expected a state of the space of {self.name!r}, got {state.key!r}")
        return self._index[state]

    def network(self, state: State) -> State:
        """The largest state with the network of a state, as `SearchSpace.network` has it.

        Args:
            state: Any state of the space.
        """
        return self.networks[self.network_of(state)]

    def score(self, proposal: ChildProposal, seed: int) -> float:
        """The validation accuracy of a child, a share.

        Args:
            proposal: The child: of any number of epochs up to the table's, trained afresh or from
                its own shorter training.
            seed: Of its training, below the number of seeds.

        Raises:
            ValueError: If it starts from another state, or the seed or epochs are not tabulated.
        """
        return self._share(self.validation, self.validation_rows, proposal, seed)

    def test_score(self, proposal: ChildProposal, seed: int) -> float:
        """The test accuracy of a child, a share; arguments as those of `score`.

        Args:
            proposal: The child.
            seed: Of its training.
        """
        return self._share(self.test, self.test_rows, proposal, seed)

    def best(self, seed: int) -> float:
        """The largest validation accuracy of any network after its last epoch.

        Args:
            seed: Of the trainings.
        """
        return float(self.validation[:, seed, -1].max()) / self.validation_rows

    def _share(self, counts: NDArray[Any], rows: int, proposal: ChildProposal, seed: int) -> float:
        number = self.network_of(proposal.state)
        if proposal.start is not None and self.network_of(proposal.start) != number:
            raise ValueError(
                f"expected a child that starts afresh or from its own training, got one of "
                f"{proposal.state.key!r} that starts from {proposal.start.key!r}"
            )
        epochs = self.epochs if proposal.epochs is None else proposal.epochs
        if not 1 <= epochs <= self.epochs:
            raise ValueError(f"expected from 1 to {self.epochs} epochs, got {epochs}")
        if not 0 <= seed < self.seeds:
            raise ValueError(f"expected a seed from 0 to {self.seeds - 1}, got {seed}")
        return float(counts[number, seed, epochs - 1]) / rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to one safetensors file, wholly or not at all.

        Args:
            path: The file; its folder must exist.
        """
        header = {
            "name": self.name,
            "space": json.loads(self.space.description()),
            "validation rows": self.validation_rows,
            "test rows": self.test_rows,
            "complete": self.complete,
        }
        has = [[name in one.groups for name in self.space.groups] for one in self.networks]
        largest = max(self.validation_rows, self.test_rows)
        counts = np.int16 if largest <= np.iinfo(np.int16).max else np.int32
        tensors = {
            "validation": torch.from_numpy(self.validation.astype(counts)),
            "test": torch.from_numpy(self.test.astype(counts)),
            "parameters": torch.from_numpy(self.parameters.astype(np.int64)),
            "groups": torch.tensor(has, dtype=torch.uint8),
            "hidden": torch.tensor([one.hidden for one in self.networks]),
        }
        metadata = {"isotropy_score_table": str(FORMAT), "table": json.dumps(header)}
        with atomic_write(path) as file:
            file.write(save(tensors, metadata))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ScoreTable:
        """Read a table that `save` wrote.

        Args:
            path: The file.

        Raises:
            ValueError: If there is none, it is damaged, or of another kind or a newer format.
        """
        return cls(**table_parts(os.fspath(path)))
