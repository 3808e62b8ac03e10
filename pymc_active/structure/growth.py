"""Grow the kernels of a search: level by level, then around the probable ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import batched

from pymc_active.kernels.expressions import Base, Expression, base_kernels, is_redundant
from pymc_active.structure.fitted_kernels import FittedKernels
from pymc_active.support.progress import progress

# Models handed to the executor together; an interrupt loses at most these.
_BATCH = 8
# How many neighbours of probable kernels are fitted before a search ends, if the levels fitted fewer.
_NEIGHBOURS = 100


@dataclass
class Growth:
    """A search under way, from the kernels ``first`` on; ``stopped`` says why it ended."""

    first: Sequence[Expression]
    bases: Sequence[str | Expression]
    n_inputs: int
    beside_a_constant: bool
    depth: int
    beam: int
    budget: int | None
    progressbar: bool
    search: FittedKernels
    outputs: str = ""
    level: int = 0
    stopped: str = ""
    expanded: set[Expression] = field(default_factory=set)
    candidates: dict[Expression, Expression | None] = field(default_factory=dict)

    def __post_init__(self):
        self.candidates = dict.fromkeys(self.first)

    def grow(self, last: int) -> None:
        """Fit the next levels, up to the last one or until one brings nothing better."""
        search, depth = self.search, self.depth
        while not self.stopped and self.level < last:
            self.level += 1
            before = search.best_score()
            room = None if self.budget is None else self.budget - len(search.records)
            chosen = dict(list(self.candidates.items())[:room])
            self._fit(chosen, self.level, f"Level {self.level} of at most {depth}{self.outputs}")
            if len(chosen) < len(self.candidates) or len(search.records) == self.budget:
                self.stopped = f"budget of {self.budget} kernels used up"
            elif self.level > 1 and not search.best_score() > before:
                self.stopped = f"level {self.level} brought nothing better"
            elif self.level == depth:
                self.stopped = f"depth {depth} reached"
            else:
                best = [record.expression for record in search.ranked()[: self.beam]]
                self.candidates = self._children([one for one in best if one not in self.expanded])
                if not self.candidates:
                    self.stopped = "no neighbours left"

    def try_noise(self) -> None:
        """Fit the constant kernel, which says that there is nothing but noise and has no neighbours to try."""
        if self.search.fits:
            self.search.fit({Base("C"): None}, 1)
            self.expanded.add(Base("C"))

    def grow_around(self) -> None:
        """Fit the neighbours of every probable kernel, small ones first, up to a limit."""
        search = self.search
        n_before = len(search.records)
        room = max(_NEIGHBOURS, n_before)
        while room and (probable := [one for one in search.probable() if one not in self.expanded]):
            chosen = dict(sorted(self._children(probable).items(), key=_size)[:room])
            room -= len(chosen)
            self._fit(chosen, self.level + 1, f"Around the probable kernels{self.outputs}")
            search.sample()
        if len(search.records) > n_before:
            limit = "" if room else ", the limit"
            self.stopped += f", then {len(search.records) - n_before} around probable kernels{limit}"

    def _children(self, parents: Sequence[Expression]) -> dict[Expression, Expression | None]:
        """What is one step away and not tried yet, each with the best of its parents, the first."""
        self.expanded.update(parents)
        largest = self.depth - 1 + max(len(base_kernels(kernel)) for kernel in self.first)
        children: dict[Expression, Expression | None] = {}
        for parent in parents:
            steps = (*parent.neighbours(self.bases, self.n_inputs), *parent.simpler(), *parent.exchanged())
            for child in steps:
                is_idle = is_redundant(child, beside_a_constant=self.beside_a_constant)
                if not is_idle and child not in self.search.records and len(base_kernels(child)) <= largest:
                    children.setdefault(child, parent)
        return children

    def _fit(self, chosen: Mapping[Expression, Expression | None], level: int, what: str) -> None:
        with progress(what, len(chosen), self.progressbar) as advance:
            for batch in batched(chosen.items(), _BATCH):
                self.search.fit(dict(batch), level)
                advance(len(batch))
            self.search.confirm()


def _size(child: tuple[Expression, Expression | None]) -> int:
    return len(base_kernels(child[0]))
