"""Kernel expressions: text in, tree out, and the kernels that come of it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pymc_active as pma
from pymc_active.kernels.expressions import (
    BASE_KERNELS,
    Base,
    Product,
    Sum,
    base_kernels,
    parse,
)

SE, PER, RQ, LIN = Base("SE"), Base("PER"), Base("RQ"), Base("LIN")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("SE", SE),
        ("SE[2]", Base("SE", 2)),
        ("SE[ 12 ]", Base("SE", 12)),
        ("LIN + PER", Sum((LIN, PER))),
        ("LIN + PER * RQ", Sum((LIN, Product((PER, RQ))))),
        ("LIN * PER + RQ", Sum((Product((LIN, PER)), RQ))),
        ("(LIN + PER) * RQ", Product((Sum((LIN, PER)), RQ))),
        ("LIN + (PER + RQ)", Sum((LIN, PER, RQ))),
        ("LIN * (PER * RQ)", Product((LIN, PER, RQ))),
        ("((SE))", SE),
        ("  SE+LIN*( SE[0]+PER )  ", Sum((SE, Product((LIN, Sum((Base("SE", 0), PER))))))),
    ],
)
def test_parsing(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    "text",
    [*BASE_KERNELS, "LIN + PER * RQ[0]", "(SE[1] + MAT32) * (LIN0 + PER) * RQ", "SE + SE * SE"],
)
def test_printing_reads_back(text):
    assert str(parse(text)) == text
    assert parse(str(parse(text))) == parse(text)


def test_base_kernels_from_left_to_right():
    bases = base_kernels(parse("LIN + (SE[1] + PER) * RQ"))
    assert bases == [LIN, Base("SE", 1), PER, RQ]


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "expected a base kernel or '('"),
        ("SE +", 4, "expected a base kernel or '('"),
        ("SE + * PER", 5, "expected a base kernel or '('"),
        ("SE PER", 3, "expected '+', '*' or the end"),
        ("(SE + PER", 9, "expected ')'"),
        ("SE)", 2, "expected '+', '*' or the end"),
        ("SE[a]", 2, "expected '+', '*' or the end"),
        ("SE[-1]", 2, "expected '+', '*' or the end"),
        ("SE - PER", 3, "expected '+', '*' or the end"),
        ("2 * SE", 0, "expected a base kernel or '('"),
        ("SE + RBF", 5, "unknown kernel 'RBF'; the known ones are LIN, LIN0, MAT12"),
        ("se", 0, "unknown kernel 'se'"),
    ],
)
def test_malformed_expressions_are_shown_with_the_position(text, position, problem):
    with pytest.raises(ValueError, match="cannot read the kernel expression") as raised:
        parse(text)
    headline, shown, marker = str(raised.value).split("\n")
    assert headline.startswith(f"cannot read the kernel expression at position {position}: ")
    assert problem in headline
    assert shown == f"  {text}"
    assert marker == "  " + " " * position + "^"


def test_an_expression_is_a_string():
    with pytest.raises(TypeError, match="a kernel expression is a string such as 'LIN"):
        parse(3)


# The kernels themselves, in the paper's parametrisation.

X = np.random.default_rng(1).uniform(0, 1, size=(5, 2))
Z = np.random.default_rng(2).uniform(0, 1, size=(4, 2))
DIFFERENCE = X[:, None] - Z
R2 = (DIFFERENCE**2).sum(-1)
ELL, SF, P, ALPHA, C = 0.4, 1.3, 0.7, 0.6, np.array([0.2, 0.9])
VALUES = {
    "log_lengthscale": np.log(ELL),
    "log_outputscale": np.log(SF),
    "log_period": np.log(P),
    "log_alpha": np.log(ALPHA),
    "location": C,
}
R = np.sqrt(R2) / ELL
KERNELS = {
    "SE": np.exp(-R2 / (2 * ELL**2)),
    "MAT12": np.exp(-R),
    "MAT32": (1 + np.sqrt(3) * R) * np.exp(-np.sqrt(3) * R),
    "MAT52": (1 + np.sqrt(5) * R + 5 / 3 * R**2) * np.exp(-np.sqrt(5) * R),
    "RQ": (1 + R2 / (2 * ALPHA * ELL**2)) ** -ALPHA,
    "PER": np.exp(-2 * (np.sin(np.pi * DIFFERENCE / P) ** 2).sum(-1) / ELL**2),
    "LIN": (X - C) @ (Z - C).T,
    "LIN0": X @ Z.T,
}


def covariance(expression):
    """Prior covariance of f between X and Z by the array route."""
    gpm = pma.composite_gp(X, np.arange(5.0), expression, mean="zero", priors={"log_noise": 0.0})
    parts = []
    for name, shape in gpm.shapes.items():
        kind = next(kind for kind in VALUES if name.startswith(kind))
        parts.append(np.broadcast_to(VALUES[kind], shape).ravel())
    theta = np.concatenate(parts)
    kernel = gpm.posterior().kernel
    full = np.append(theta, 0.0)
    return kernel.at(full, X, Z).K, kernel.at(full, X, X).K, kernel.diagonal(full, X)[0]


def test_every_base_kernel_is_known_here():
    assert set(KERNELS) == set(BASE_KERNELS)


@pytest.mark.parametrize("name", list(KERNELS))
def test_base_kernels_are_their_formulas(name):
    # PyMC's offset of 1e-12 under the root of Matérn kernels changes r by less than 1e-6 at r = 0 only.
    cross, _, _ = covariance(name)
    assert_allclose(cross, SF**2 * KERNELS[name], rtol=1e-9)


@pytest.mark.parametrize("name", list(KERNELS))
def test_the_diagonal_is_that_of_the_matrix(name):
    _, full, diagonal = covariance(name)
    assert_allclose(diagonal, np.diag(full), rtol=3e-6)


@pytest.mark.parametrize(
    ("expression", "combine"),
    [
        ("SE + PER", lambda k: SF**2 * (k["SE"] + k["PER"])),
        ("SE * PER", lambda k: SF**4 * k["SE"] * k["PER"]),
        ("LIN + PER * RQ", lambda k: SF**2 * k["LIN"] + SF**4 * k["PER"] * k["RQ"]),
        ("(LIN0 + SE) * MAT52", lambda k: SF**4 * (k["LIN0"] + k["SE"]) * k["MAT52"]),
        ("SE * RQ * PER", lambda k: SF**6 * k["SE"] * k["RQ"] * k["PER"]),
    ],
)
def test_expressions_add_and_multiply(expression, combine):
    """Each factor has an output scale of its own."""
    cross, full, diagonal = covariance(expression)
    assert_allclose(cross, combine(KERNELS), rtol=1e-9)
    assert_allclose(diagonal, np.diag(full), rtol=3e-6)


def test_an_index_picks_one_input():
    cross, _, _ = covariance("SE[1]")
    expected = SF**2 * np.exp(-(DIFFERENCE[..., 1] ** 2) / (2 * ELL**2))
    assert_allclose(cross, expected, rtol=1e-12)


def test_an_index_beyond_the_inputs_is_refused():
    with pytest.raises(ValueError, match=r"SE\[2\] needs input 2, but X has inputs 0 to 1"):
        pma.composite_gp(X, np.zeros(5), "LIN + SE[2]")
