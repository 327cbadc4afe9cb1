"""Randomness that can be repeated: one generator from a seed, several from one generator."""

from numbers import Integral

import torch

_WORD = 2**32


def generator(
    seed: int | torch.Generator | None = None, device: torch.device | str = "cpu"
) -> torch.Generator:
    """Make a random number generator, or take the one that is given.

    Args:
        seed: an integer in [0, 2⁶⁴) for the same numbers every time, ``None`` for different ones
            each time, or a generator, which is returned as it is.
        device: where a new generator draws its numbers.

    Returns:
        The generator. PyTorch's global one is never touched.

    Raises:
        TypeError: if ``seed`` is none of these.
        ValueError: if ``seed`` is out of range.

    Example:
        >>> a, b = generator(0), generator(0)
        >>> bool((torch.rand(3, generator=a) == torch.rand(3, generator=b)).all())
        True
        >>> generator(a) is a
        True
    """
    if isinstance(seed, torch.Generator):
        return seed
    new = torch.Generator(device)
    if seed is None:
        new.seed()
        return new
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(
            f"expected an int, a torch.Generator or None as the seed, got {type(seed).__name__}"
        )
    if not 0 <= seed < 2**64:
        raise ValueError(f"expected a seed in [0, 2**64), got {seed}")
    return new.manual_seed(int(seed))


def spawn(parent: torch.Generator, n: int) -> list[torch.Generator]:
    """Make generators that are independent of one another and of their parent.

    The children depend on the parent's state alone, and the call advances that state, so spawning
    again gives new ones. The CPU generator of PyTorch reads only the low 32 bits of its seed, in
    which numbers drawn at random would collide once in a while; the children's seeds are spaced by
    the golden ratio modulo 2³² and so never do.

    Args:
        parent: where the seeds come from.
        n: how many children to make.

    Returns:
        ``n`` generators on the parent's device.

    Raises:
        ValueError: if ``n`` is negative.

    Example:
        >>> children = spawn(generator(0), 3)
        >>> len({float(torch.rand((), generator=child)) for child in children})
        3
    """
    if not 0 <= n < _WORD:
        raise ValueError(f"expected a number of generators in [0, 2**32), got {n}")
    first = int(torch.randint(_WORD, (), generator=parent, device=parent.device))
    golden = 0x9E3779B9  # odd, hence a bijection modulo 2**32
    seeds = ((first + i * golden) % _WORD for i in range(n))
    return [torch.Generator(parent.device).manual_seed(seed) for seed in seeds]
