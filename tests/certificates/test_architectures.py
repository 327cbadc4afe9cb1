"""The catalogue of networks: texts, codes, sizes and caps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from certificate_parts import KINDS, BitReader, BitWriter, TensorSum, write_group
from isotropy.certificates import Architecture, Rejected, architecture
from isotropy.groups import GridFlips, Group, code_length, p4, p4m, parse_group

TEXTS = (
    "mlp",
    "mlp-300-100",
    "lenet5",
    "convnet",
    "convnet-46",
    "resnet20",
    "resnet20-8",
    "lenet5 equivariant p4",
    "convnet-8 equivariant p4m",
    "resnet20 shared p4m",
    "lenet5 shared GridFlips",
    "mlp shared S(5)",
    "mlp-64 shared p4(28)",
    "mlp-64-64 equivariant SO(3) 2*V+Scalar",
    "mlp equivariant SO13p V+T(1,1)+3*T(0,2)",
)
MNIST, CIFAR = (1, 28, 28), (3, 32, 32)


def coded(value: Architecture) -> BitWriter:
    value.write(writer := BitWriter())
    return writer


def delta_length(value: int) -> int:
    """Of Elias' delta code for a natural number, which codes the next positive one."""
    length = (value + 1).bit_length()
    return 2 * (length.bit_length() - 1) + length


# --- texts ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS)
def test_text_and_code_read_back(text: str) -> None:
    value = architecture(text)
    assert str(value) == text
    assert architecture(f"  {text} ") == value
    reader = BitReader(coded(value).to_bytes())
    assert Architecture.read(reader) == value
    assert reader.position == len(coded(value))
    reader.finish()


def test_default_sizes_are_left_out_of_the_text() -> None:
    assert str(architecture("convnet-16 shared p4")) == "convnet shared p4"
    assert architecture("mlp-150-150-150") == architecture("mlp")


widths = st.lists(st.integers(1, 4096), min_size=1, max_size=16).map(tuple)
spaces = st.lists(
    st.tuples(st.integers(1, 4096), st.sampled_from(KINDS)), min_size=1, max_size=16
).map(lambda terms: TensorSum(tuple(terms)))
image_groups = st.sampled_from([p4(3), p4m(3), GridFlips(2)])
architectures = st.one_of(
    st.builds(Architecture, st.just("mlp"), widths),
    st.builds(Architecture, st.sampled_from(["convnet", "resnet20"]), widths.map(lambda w: w[:1])),
    st.builds(
        Architecture,
        st.sampled_from(["convnet", "resnet20"]),
        widths.map(lambda w: w[:1]),
        st.just("shared"),
        image_groups,
    ),
    st.builds(
        Architecture,
        st.just("mlp"),
        widths,
        st.just("shared"),
        st.sampled_from(["Z(7)", "S(5)+S(2)", "p4(5)", "Z(3)*S(4)"]).map(parse_group),
    ),
    st.builds(
        Architecture,
        st.just("mlp"),
        widths,
        st.just("equivariant"),
        st.sampled_from(["SO(3)", "O13", "Sp(2)", "D2d(5)"]).map(parse_group),
        spaces,
    ),
)


@given(architectures)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_every_architecture_reads_back(value: Architecture) -> None:
    assert architecture(str(value)) == value
    assert Architecture.read(BitReader(coded(value).to_bytes())) == value


@given(st.binary(max_size=24))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_bytes_are_rejected_or_one_code(data: bytes) -> None:
    reader = BitReader(data)
    try:
        value = Architecture.read(reader)
    except Rejected:
        return
    written = coded(value)
    assert len(written) == reader.position
    assert BitReader(data).bits(len(written)) == BitReader(written.to_bytes()).bits(len(written))


# --- what a name costs ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "bits"), [("lenet5", 3), ("mlp", 4), ("convnet", 4), ("resnet20", 4)]
)
def test_defaults_cost_a_few_bits(text: str, bits: int) -> None:
    assert len(coded(architecture(text))) == bits


def test_sizes_cost_their_elias_codes() -> None:
    sizes = delta_length(15), delta_length(299), delta_length(99)
    assert len(coded(architecture("mlp-300-100"))) == 4 + delta_length(1) + sum(sizes[1:])
    assert len(coded(architecture("convnet-17"))) == 4 + delta_length(16)


@pytest.mark.parametrize("name", ["lenet5", "convnet", "resnet20-20"])
@pytest.mark.parametrize("group", [p4(3), p4m(3)], ids=["p4", "p4m"])
@pytest.mark.parametrize("variant", ["equivariant", "shared"])
def test_symmetry_is_charged(name: str, group: Group, variant: str) -> None:
    plain = len(coded(architecture(name)))
    turned = len(coded(architecture(f"{name} {variant} {type(group).__name__}")))
    assert turned == plain + 1 + code_length(group)


def test_group_and_representation_are_charged() -> None:
    group = parse_group("SO(3)")
    bits = len(coded(architecture("mlp equivariant SO(3) 2*V+Scalar")))
    terms = delta_length(1) + delta_length(1) + delta_length(0) + 2 * 3
    assert bits == 4 + 1 + code_length(group) + terms


# --- how large they are -----------------------------------------------------------------


def lenet5_size(channels: int, side: int, classes: int) -> int:
    inner = ((side - 4) // 2 - 4) // 2
    convolutions = 20 * 25 * channels + 20 + 50 * 20 * 25 + 50
    return convolutions + 500 * 50 * inner**2 + 500 + classes * 500 + classes


def convnet_size(channels: int, k: int, classes: int, slices: int = 1) -> int:
    weights = 9 * (channels * k + slices * (k * k + 2 * k * k + 6 * 4 * k * k))
    return weights + 2 * (2 * k + 7 * 2 * k) + 2 * k * classes + classes


def resnet20_size(channels: int, w: int, classes: int, slices: int = 1) -> int:
    pairs = 6 * w * w + (2 + 5 * 4) * w * w + (8 + 5 * 16) * w * w
    norms = 2 * (w + 6 * w + 6 * 2 * w + 6 * 4 * w)
    return 9 * (channels * w + slices * pairs) + norms + 4 * w * classes + classes


def test_lenet5_has_the_published_size() -> None:
    assert lenet5_size(1, 28, 10) == 431_080
    assert architecture("lenet5").parameter_count(MNIST, 10) == 431_080
    assert architecture("lenet5").parameter_count(CIFAR, 100) == lenet5_size(3, 32, 100)


def test_resnet20_has_the_published_size() -> None:
    assert resnet20_size(3, 16, 10) == 269_722  # 0.27 million (He et al. 2016)
    assert architecture("resnet20").parameter_count(CIFAR, 10) == 269_722
    assert architecture("resnet20-5").parameter_count(MNIST, 7) == resnet20_size(1, 5, 7)


@pytest.mark.parametrize("k", [1, 16, 46])
def test_convnet_has_the_size_of_table_a20(k: int) -> None:
    assert architecture(f"convnet-{k}").parameter_count(CIFAR, 10) == convnet_size(3, k, 10)


def test_mlp_and_convnet_match_as_the_thesis_says() -> None:
    """Three layers of 150 units have about as many parameters as k = 46 (thesis A.4)."""
    perceptron = architecture("mlp").parameter_count(CIFAR, 10)
    assert perceptron == 3072 * 150 + 150 + 2 * (150 * 150 + 150) + 150 * 10 + 10
    network = architecture("convnet-46").parameter_count(CIFAR, 10)
    assert abs(network / perceptron - 1) < 0.05


@pytest.mark.parametrize(("group", "slices"), [("p4", 4), ("p4m", 8)])
@pytest.mark.parametrize("asked", [3, 16, 40])
def test_equivariant_networks_are_as_large_as_plain_ones(
    group: str, slices: int, asked: int
) -> None:
    for name, size in (("convnet", convnet_size), ("resnet20", resnet20_size)):
        plain = size(3, asked, 10)
        nearest = min((size(3, k, 10, slices) for k in range(1, 64)), key=lambda n: abs(n - plain))
        found = architecture(f"{name}-{asked} equivariant {group}").parameter_count(CIFAR, 10)
        assert found == nearest


@pytest.mark.parametrize("group", ["p4", "p4m"])
def test_equivariant_lenet5_is_as_large_as_the_plain_one(group: str) -> None:
    found = architecture(f"lenet5 equivariant {group}").parameter_count(MNIST, 10)
    assert abs(found / 431_080 - 1) < 0.01


@pytest.mark.parametrize(("group", "orbits"), [("p4", (7, 4)), ("p4m", (6, 3))])
def test_shared_lenet5_has_a_weight_for_each_orbit(group: str, orbits: tuple[int, int]) -> None:
    kernel, pixels = orbits  # of 5 by 5 and of 4 by 4 places
    wanted = 20 * kernel + 20 + 50 * 20 * kernel + 50 + 500 * 50 * pixels + 500 + 5010
    assert architecture(f"lenet5 shared {group}").parameter_count(MNIST, 10) == wanted


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("resnet20 equivariant p4", CIFAR),
        ("lenet5 shared p4m", MNIST),
        ("mlp shared S(5)", (10,)),
        ("mlp-20 equivariant SO(3) 2*V", (6,)),
    ],
)
def test_a_network_without_memory_counts_the_same(text: str, shape: tuple[int, ...]) -> None:
    value = architecture(text)
    with torch.device("meta"):
        empty = value.build(shape, 3)
    assert all(parameter.is_meta for parameter in empty.parameters())
    full = {name: value.shape for name, value in value.build(shape, 3).named_parameters()}
    assert {name: value.shape for name, value in empty.named_parameters()} == full
    assert value.parameter_count(shape, 3) == sum(shape.numel() for shape in full.values())


def test_networks_are_float32_on_the_cpu_whatever_the_default() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        model = architecture("lenet5 shared p4").build(MNIST, 10)
    finally:
        torch.set_default_dtype(torch.float32)
    kinds = {(value.dtype, value.device.type) for value in model.parameters()}
    assert kinds == {(torch.float32, "cpu")}


# --- what is refused --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"expected an architecture such as lenet5, got an empty text"),
        ("vgg", r"expected a network among mlp, lenet5, convnet, resnet20, got 'vgg'"),
        ("vgg shared p4", r"expected a network among mlp, lenet5, convnet, resnet20, got 'vgg'"),
        ("mlp-a", r"expected sizes such as 300-100 after mlp, got 'a'"),
        ("mlp-", r"expected sizes such as 300-100 after mlp, got ''"),
        ("mlp-٣", r"expected sizes such as 300-100 after mlp"),
        ("mlp-99999999999", r"expected sizes such as 300-100 after mlp"),
        ("mlp-0", r"expected sizes from 1 to 4096, got 0"),
        ("convnet-4097", r"expected sizes from 1 to 4096, got 4097"),
        ("mlp" + "-2" * 17, r"expected 1 to 16 sizes for mlp, got 17"),
        ("lenet5-20", r"expected 0 sizes for lenet5, got 1"),
        ("convnet-2-3", r"expected 1 sizes for convnet, got 2"),
        ("lenet5 plain", r"expected a variant equivariant or shared after lenet5, got 'plain'"),
        ("lenet5 turned p4", r"expected a variant equivariant or shared after lenet5, got 'turn"),
        ("lenet5 shared", r"expected a group p4, p4m, GridFlips after lenet5 shared, got ''"),
        ("lenet5 shared S(5)", r"expected a group p4, p4m, GridFlips after lenet5 shared, got 'S"),
        ("convnet equivariant GridFlips", r"expected a group p4, p4m for convnet equivariant"),
        ("mlp shared", r"expected a group after mlp shared, such as S\(5\), got none"),
        ("mlp shared SO(3)", r"expected a group of permutations for mlp shared, got SO\(3\)"),
        ("mlp shared S(5000)", r"expected a group on at most 4096 dimensions for mlp shared"),
        ("mlp shared S(5", r"cannot read the group 'S\(5'"),
        ("mlp equivariant SO(3)", r"expected a group and a representation after mlp equivariant"),
        ("mlp equivariant SU(2) V", r"expected a group of real matrices for mlp equivariant"),
        ("mlp equivariant SO(9) V", r"expected a group on at most 8 dimensions for mlp equivaria"),
        ("mlp equivariant SO(3) W", r"expected a term Scalar, V, T\(2\).*, got 'W'"),
        ("mlp equivariant SO(3) V++V", r"expected a sum of terms Scalar, V, .*, got ''"),
        ("mlp equivariant SO(3) 5000*V", r"expected 1 to 4096 copies of V, got 5000"),
        ("mlp equivariant SO(3) V" + "+V" * 16, r"expected 1 to 16 terms in a representation"),
        (
            "mlp equivariant conjugate(SO(2),[[1,0.1],[0,1]]) V",
            r"expected numbers of 16 bits in a change of basis",
        ),
    ],
)
def test_bad_texts(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        architecture(text)


def test_no_text() -> None:
    with pytest.raises(TypeError, match=r"expected the text of an architecture, got int"):
        architecture(5)  # type: ignore[arg-type]


def test_parts_that_do_not_go_together() -> None:
    space = TensorSum.parse("V")
    with pytest.raises(ValueError, match=r"expected no group for a plain lenet5, got one"):
        Architecture("lenet5", (), "plain", p4(3))
    with pytest.raises(ValueError, match=r"expected a group p4, p4m for lenet5 equi.*, got p4\(9"):
        Architecture("lenet5", (), "equivariant", p4(9))
    with pytest.raises(ValueError, match=r"expected no representation for lenet5, got V"):
        Architecture("lenet5", (), "shared", p4(3), space)
    with pytest.raises(ValueError, match=r"expected no representation for mlp shared S\(5\), got"):
        Architecture("mlp", (5,), "shared", parse_group("S(5)"), space)
    with pytest.raises(ValueError, match=r"expected a representation of the inputs for mlp equiva"):
        Architecture("mlp", (5,), "equivariant", parse_group("SO(3)"))
    with pytest.raises(ValueError, match=r"expected a variant plain, equivariant, shared, got 'x'"):
        Architecture("lenet5", (), "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected a group for mlp shared, got none"):
        Architecture("mlp", (5,), "shared")


@pytest.mark.parametrize(
    ("text", "shape", "classes", "message"),
    [
        ("lenet5", (784,), 10, r"expected inputs \(channels, h, w\) for lenet5, got shape \(784,"),
        ("mlp", (28, 28), 10, r"expected inputs \(features,\) or \(channels, h, w\) for mlp, got"),
        ("mlp", (0,), 10, r"expected inputs of 1 to 10000000 numbers, got shape \(0,\)"),
        ("mlp", (4,), 0, r"expected 1 to 65536 classes, got 0"),
        ("lenet5", (1, 12, 28), 10, r"of at least 13 by 13 for lenet5, got 1 channels of 12 by"),
        ("convnet", (1, 7, 7), 10, r"of at least 8 by 8 for convnet, got 1 channels of 7 by 7"),
        ("resnet20 shared p4", (1, 9, 8), 2, r"expected square images for resnet20 shared p4, got"),
        ("mlp shared S(5)", (7,), 2, r"expected inputs of 5 numbers, or a multiple, for S\(5\), "),
        ("mlp equivariant SO(3) V", (4,), 2, r"expected inputs of 3 numbers for V\(SO\(3\)\), got"),
        ("mlp shared Z(4000)", (4000,), 2, r"expected layers of at most 10000000 weights before Z"),
        (
            "mlp-4096-4096 equivariant SO(3) V",
            (3,),
            2,
            r"expected layers of at most 10000000 weights before SO\(3\) makes them fewer, got",
        ),
        (
            "mlp" + "-4096" * 4,
            (4096,),
            10,
            r"expected at most 50000000 parameters, got 67166218 for mlp-4096",
        ),
    ],
)
def test_bad_inputs(text: str, shape: tuple[int, ...], classes: int, message: str) -> None:
    value = architecture(text)
    with pytest.raises(ValueError, match=message):
        value.parameter_count(shape, classes)
    with pytest.raises(ValueError, match=message):
        value.build(shape, classes)


def test_codes_beyond_the_caps_are_rejected() -> None:
    def rejected(message: str, *steps: object) -> None:
        writer = BitWriter()
        for step in steps:
            if isinstance(step, Group):
                write_group(writer, step)
            elif isinstance(step, tuple):
                writer.below(*step)
            else:
                assert isinstance(step, int)
                writer.natural(step)
        with pytest.raises(Rejected, match=message):
            Architecture.read(BitReader(writer.to_bytes() + bytes(8)))

    convnet, sized, shared = (2, 4), (1, 2), (1, 2)
    rejected(r"expected a number of at most 4095", convnet, sized, 4096)
    rejected(r"expected a number of at most 15", (0, 4), sized, 16)
    rejected(r"expected the short code for the default sizes of convnet", convnet, sized, 15)
    symmetric = (1, 2)
    rejected(r"expected a group p4, p4m, GridFlips", (1, 4), symmetric, shared, p4(28))
    rejected(r"expected a group p4, p4m", (1, 4), symmetric, (0, 2), GridFlips(2))
    wide = (0, 4), (0, 2), symmetric
    rejected(r"expected a group on at most 4096", *wide, shared, parse_group("S(5000)"))
    rejected(r"expected a group on at most 8", *wide, (0, 2), parse_group("SO(9)"), 0, 0, (1, 6))
    rejected(r"expected a number of at most 15", *wide, (0, 2), parse_group("SO(3)"), 16)
