"""The tests that a search can use, by name."""

from pymc_active.relevant_inputs.anchored import Anchored
from pymc_active.relevant_inputs.fdt import FDT
from pymc_active.relevant_inputs.node_test import GPT, NodeTest, NoNodeTest

TESTS: dict[str, type[NodeTest]] = {"anchored": Anchored, "bisection": NoNodeTest, "fdt": FDT, "gpt": GPT}


def node_test_of(name: str) -> type[NodeTest]:
    """The test of a name; an unknown one is a ValueError."""
    if name not in TESTS:
        raise ValueError(f"test must be one of {', '.join(TESTS)}; got {name!r}")
    return TESTS[name]
