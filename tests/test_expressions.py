"""Kernel expressions: text in, tree out, and the kernels that come of it."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pymc_active as pma
from pymc_active.kernels import BASE_KERNELS, Base, Product, Sum, grid, paper_models, parse
from pymc_active.kernels.expressions import base_kernels

SE, PER, RQ, LIN = Base("SE"), Base("PER"), Base("RQ"), Base("LIN")


def tree_of(expression):
    """The tree as it was written, for ``==`` ignores the order."""
    if isinstance(expression, Base):
        return expression.name, expression.input
    return type(expression), [tree_of(child) for child in expression.children]


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
    assert tree_of(parse(text)) == tree_of(tree)


@pytest.mark.parametrize(
    "text",
    [*BASE_KERNELS, "LIN + PER * RQ[0]", "(SE[1] + MAT32) * (LIN0 + PER) * RQ", "SE + SE * SE"],
)
def test_printing_reads_back(text):
    assert str(parse(text)) == text
    assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "expected a base kernel or '('"),
        ("SE +", 4, "expected a base kernel or '('"),
        ("SE + * PER", 5, "expected a base kernel or '('"),
        ("SE PER", 3, "expected '+', '*' or the end"),
        ("(SE + PER", 9, "expected ')'"),
        ("SE)", 2, "expected '+', '*' or the end"),
        ("SE[a]", 2, "inputs are numbered, as in SE[0]"),
        ("SE[-1]", 2, "inputs are numbered, as in SE[0]"),
        ("SE - PER", 3, "expected '+', '*' or the end"),
        ("2 * SE", 0, "expected a base kernel or '('"),
        ("SE + RBF", 5, "unknown kernel 'RBF' (write SE); the known ones are C, LIN, LIN0, MAT12"),
        ("se", 0, "unknown kernel 'se' (write SE)"),
        ("SE + Matern32", 5, "unknown kernel 'Matern32' (write MAT32)"),
        ("SE + XX", 5, "unknown kernel 'XX'; the known ones"),
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


# Values: random trees, compared with what Python makes of the text.


def random_tree(rng, depth=3):
    if depth == 0 or rng.random() < 0.25:
        return Base(str(rng.choice(["SE", "PER", "LIN", "RQ"])), rng.choice([None, 0, 1]))
    kind = Sum if rng.random() < 0.5 else Product
    return kind(tuple(random_tree(rng, depth - 1) for _ in range(rng.integers(2, 4))))


def shuffled(expression, rng):
    """The same with terms and factors in another order and grouped in pairs."""
    if isinstance(expression, Base):
        return expression
    parts = [shuffled(child, rng) for child in expression.children]
    rng.shuffle(parts)
    result = parts[0]
    for part in parts[1:]:
        pair = (result, part) if rng.random() < 0.5 else (part, result)
        result = pair[0] + pair[1] if isinstance(expression, Sum) else pair[0] * pair[1]
    return result


def value(expression, rng):
    """Python's value of the text with a random number for each base kernel."""
    text = re.sub(r"\[(\d)\]", r"_\1", str(expression))
    return eval(text, {"__builtins__": {}}, {f"{name}{i}": rng() for name in BASE_KERNELS for i in ("", "_0", "_1")})


def whole_number(seed):
    """Large random integers: two polynomials that are equal at them are equal."""
    generator = np.random.default_rng(seed)
    return lambda: int(generator.integers(10**6, 10**7))


TREES = [random_tree(np.random.default_rng(seed)) for seed in range(60)]


def test_order_and_grouping_do_not_count():
    rng = np.random.default_rng(1)
    for tree in TREES:
        other = shuffled(tree, rng)
        assert other == tree
        assert hash(other) == hash(tree)
        assert tree_of(other.canonical()) == tree_of(tree.canonical())
        assert tree_of(tree.canonical().canonical()) == tree_of(tree.canonical())


def test_different_expressions_are_unequal():
    assert parse("SE + SE") != SE
    assert parse("SE * SE") != parse("SE + SE")
    assert parse("SE[0]") != SE
    assert parse("SE * PER + SE * LIN") != parse("SE * (PER + LIN)")
    assert SE != "SE"
    assert len({parse("SE + PER"), parse("PER + SE"), parse("PER * SE")}) == 2


@pytest.mark.parametrize(
    ("text", "canonical", "distributed"),
    [
        ("SE", "SE", "SE"),
        ("SE + PER", "PER + SE", "PER + SE"),
        ("SE + SE", "SE + SE", "SE + SE"),
        ("SE * SE * LIN", "LIN * SE * SE", "LIN * SE * SE"),
        ("PER * RQ + LIN", "LIN + PER * RQ", "LIN + PER * RQ"),
        ("(SE + PER) * (PER + SE)", "(PER + SE) * (PER + SE)", "PER * PER + PER * SE + PER * SE + SE * SE"),
        ("SE * (LIN + LIN * (RQ + PER))", "SE * (LIN + LIN * (PER + RQ))", "LIN * PER * SE + LIN * RQ * SE + LIN * SE"),
    ],
)
def test_canonical_forms(text, canonical, distributed):
    assert str(parse(text).canonical()) == canonical
    assert str(parse(text).canonical(distributed=True)) == distributed


def test_canonical_forms_have_the_same_value():
    for tree in TREES:
        expected = value(tree, whole_number(1))
        assert value(tree.canonical(), whole_number(1)) == expected
        assert value(tree.canonical(distributed=True), whole_number(1)) == expected


def test_distributed_forms_are_equal_where_the_values_are():
    """Among small trees, of which some are equal by chance."""
    trees = [random_tree(np.random.default_rng(seed), depth=2) for seed in range(150)]
    trees += [tree * SE for tree in trees[:20]] + [
        Sum(tuple(term * SE for term in tree.children)) for tree in trees[:20] if isinstance(tree, Sum)
    ]
    by_form, by_value = {}, {}
    for i, tree in enumerate(trees):
        by_form.setdefault(tree.canonical(distributed=True), []).append(i)
        by_value.setdefault(value(tree, whole_number(2)), []).append(i)
    assert list(by_form.values()) == list(by_value.values())
    assert any(len({trees[i] for i in same}) > 1 for same in by_form.values())


# Neighbours and grids.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SE", "SE + SE, SE + LIN, SE * SE, SE * LIN, LIN"),
        (
            "SE + LIN",
            "SE + LIN + SE, SE + LIN + LIN, (SE + LIN) * SE, (SE + LIN) * LIN, SE * SE + LIN, SE * LIN + LIN, "
            "SE + LIN * SE, SE + LIN * LIN, LIN + LIN, SE + SE",
        ),
        (
            "SE * SE",
            "SE * SE + SE, SE * SE + LIN, (SE + SE) * SE, (SE + LIN) * SE, SE * SE * SE, SE * SE * LIN, LIN * SE",
        ),
    ],
)
def test_neighbours_by_hand(text, expected):
    assert [str(near) for near in parse(text).neighbours(["SE", "LIN"])] == expected.split(", ")


def test_neighbours_are_distinct_and_reproducible_and_equal_for_equal_expressions():
    rng = np.random.default_rng(3)
    for tree in TREES[:15]:
        near = tree.neighbours(n_inputs=2)
        assert len(set(near)) == len(near)
        assert tree not in near
        assert [str(other) for other in tree.neighbours(n_inputs=2)] == [str(other) for other in near]
        assert set(shuffled(tree, rng).neighbours(n_inputs=2)) == set(near)


def test_the_grid():
    models = [str(expression) for expression in grid()]
    assert models[:6] == ["SE", "PER", "LIN", "RQ", "SE + PER", "SE + LIN"]
    assert models[10:12] == ["SE * PER", "SE * LIN"]
    assert len(models) == 16
    assert [str(e) for e in grid(["SE", "LIN"], ["LIN + SE", SE, "SE * SE"])] == [
        "SE",
        "LIN",
        "SE + LIN",
        "SE * LIN",
        "SE * SE",
    ]


@pytest.mark.parametrize("rooted", [False, True])
@pytest.mark.parametrize(
    ("series", "expert", "found"),
    [
        ("airline", "LIN + PER * RQ", "SE * (LIN + LIN * (PER + RQ))"),
        ("mauna_loa", "SE + PER * SE + RQ + SE", "LIN * SE + SE * (PER + RQ)"),
    ],
)
def test_the_papers_models(series, expert, found, rooted):
    models = paper_models(series, rooted=rooted)
    assert len(set(models)) == len(models) == 18
    linear = "LIN0" if rooted else "LIN"
    assert [str(model) for model in models[-2:]] == [text.replace("LIN", linear) for text in (expert, found)]
    names = {base.name for model in models for base in base_kernels(model)}
    assert names == {"SE", "PER", linear, "RQ"}


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: grid([]), ValueError, "bases is empty: name at least one of C, LIN, LIN0"),
        (lambda: grid("SE"), TypeError, r"bases must be a sequence such as \['SE', 'PER'\]; got 'SE'"),
        (lambda: grid(["SE", "RBF"]), ValueError, r"unknown kernel 'RBF' \(write SE\); the known ones are C, LIN"),
        (lambda: grid(["SE", 3]), TypeError, "a kernel expression is a string such as"),
        (lambda: grid(["SE * PER"]), ValueError, r"bases must be base kernels such as 'SE' .* got 'SE \* PER'"),
        (lambda: grid(["SE[2]"], n_inputs=2), ValueError, r"SE\[2\] needs input 2, but there are inputs 0 to 1"),
        (lambda: grid(extra=["SE + PER[1]"]), ValueError, r"PER\[1\] needs input 1, but there are inputs 0 to 0"),
        (lambda: grid(extra="SE"), TypeError, "extra must be a sequence"),
        (lambda: grid(n_inputs=0), ValueError, "n_inputs must be a positive whole number; got 0"),
        (lambda: SE.neighbours([]), ValueError, "bases is empty"),
        (lambda: SE.neighbours(["foo"]), ValueError, "unknown kernel 'foo'"),
        (lambda: SE.neighbours(["SE[1]"]), ValueError, r"SE\[1\] needs input 1"),
        (lambda: Base("SE", 3).neighbours(n_inputs=2), ValueError, r"SE\[3\] needs input 3"),
        (lambda: paper_models("sunspots"), ValueError, "series must be one of airline, mauna_loa; got 'sunspots'"),
    ],
)
def test_malformed_grids_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


# The kernels themselves, in the paper's parametrisation.

X = np.random.default_rng(1).uniform(0, 1, size=(5, 2))
Z = np.random.default_rng(2).uniform(0, 1, size=(4, 2))
DIFFERENCE = X[:, None] - Z
R2 = (DIFFERENCE**2).sum(-1)
ELL, SF, P, ALPHA, C = 0.4, 1.3, 0.7, 0.6, np.array([0.2, 0.9])
PLACE, WIDTH = 0.45, 0.1
VALUES = {
    "log_lengthscale": np.log(ELL),
    "log_outputscale": np.log(SF),
    "log_period": np.log(P),
    "log_alpha": np.log(ALPHA),
    "location_STEP": PLACE,
    "location": C,
    "log_width": np.log(WIDTH),
}
R = np.sqrt(R2) / ELL


def zero_mean_periodic():
    """From PER and its average over the periods of both inputs, at 400 phases of each."""
    periodic = np.exp(-2 * (np.sin(np.pi * DIFFERENCE / P) ** 2).sum(-1) / ELL**2)
    average = np.exp(-2 * np.sin(np.pi * np.arange(400) / 400) ** 2 / ELL**2).mean() ** 2
    return (periodic - average) / (1 - average)


KERNELS = {
    "SE": np.exp(-R2 / (2 * ELL**2)),
    "MAT12": np.exp(-R),
    "MAT32": (1 + np.sqrt(3) * R) * np.exp(-np.sqrt(3) * R),
    "MAT52": (1 + np.sqrt(5) * R + 5 / 3 * R**2) * np.exp(-np.sqrt(5) * R),
    "RQ": (1 + R2 / (2 * ALPHA * ELL**2)) ** -ALPHA,
    "PER": np.exp(-2 * (np.sin(np.pi * DIFFERENCE / P) ** 2).sum(-1) / ELL**2),
    "PER0": zero_mean_periodic(),
    "C": np.ones((len(X), len(Z))),
    "LIN": (X - C) @ (Z - C).T,
    "LIN0": X @ Z.T,
    "STEP": np.outer(*(1 / (1 + np.exp(-(rows[:, 0] - PLACE) / WIDTH)) for rows in (X, Z))),
}


def covariance(expression):
    """Prior covariance of f between X and Z by the array route."""
    # A step is along one input.
    expression = "STEP[0]" if expression == "STEP" else expression
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


def test_a_step_needs_an_index_where_there_are_several_inputs():
    with pytest.raises(ValueError, match=r"a step is along one of the 2 inputs: write STEP\[0\]"):
        pma.composite_gp(X, np.zeros(5), "LIN + STEP")


def test_the_place_of_a_step_is_told_in_the_users_units():
    years = 1900 + 10 * X[:, :1]
    gpm = pma.composite_gp(years, np.arange(5.0), "STEP", x_scale=(1900, 10))
    values = gpm.constrain(np.array([[0.7, np.log(0.1), 0.0, 0.0, 0.0]]))
    assert gpm.labels[:2] == ["location_STEP", "log_width_STEP"]
    assert_allclose([values["location_STEP_original_units"][0], values["width_STEP"][0]], [1907, 1])
