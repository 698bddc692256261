"""The posterior of a committee behind the same wall as every other: only how new inputs are answered is its own."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from covary._checks import fail
from covary._memory import free_memory
from covary.committee.expert import Asked, Call, Recipe, called, expert, freshly, heights, joints, nearest, opinions, prior
from covary.committee.experts import Experts
from covary.committee.held import Held
from covary.committee.rules import BCM, LEAST, NOTHING, RBCM, AbstractRule, GPoE, PoE, Sums, for_outputs, joint_bcm
from covary.data import Data, Inputs
from covary.gram.base import AbstractBound
from covary.prediction import Spread
from covary.sites import Noise

KEPT = 0.25  # of the free memory: what posteriors of experts may take that are kept between predictions


class CommitteeFactor:
    """What stands where other posteriors have a factor: a committee has none, and says so."""

    basis = None
    jitter = 0.0

    def __init__(self, sites: Any) -> None:
        self.sites = sites

    @property
    def observed(self) -> bool:
        """Whether the noise is Gaussian."""
        return isinstance(self.sites, Noise)

    @property
    def spread(self) -> Any:
        """The noise of every row, where it is Gaussian."""
        return self.sites.variance if self.observed else np.empty(0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise fail("Committee", f"a committee has no one matrix, and so no {name}", "predict, or use another method")


class CommitteeBound(AbstractBound):
    """Experts where they are, and the rule that combines them.

    Parameters
    ----------
    rule
        How.
    model, models
        The model of the whole, and that of all experts, or one for each by its number.
    held
        Groups of experts, and where they are worked on.
    recipe
        How each infers.
    shared
        Rows that all of them share, or None.
    X
        The inputs, or a sample of them.
    settled
        Who has which rows, and the partition, which tells whose a new input is (the rule ``"nearest"``, and ``nearest``).
    nearest
        How many experts are asked about a new input, the nearest ones; None for all.
    """

    composite = True

    def __init__(
        self,
        rule: AbstractRule,
        model: Any,
        models: Any,
        held: Held,
        recipe: Recipe,
        shared: Data | None,
        X: Inputs,
        settled: Any = None,
        nearest: int | None = None,
    ) -> None:
        self.rule, self.model, self.models, self.held, self.recipe = rule, model, models, held, recipe
        self.shared, self.X, self.settled = shared, X, settled
        self.nearest = nearest
        self.kernels = model.prior.kernels
        self.common = None if shared is None else expert(shared, model, recipe, None)
        self._seats: Held | None = None
        self._output: int | None = None

    @property
    def rows(self) -> int:
        """The rows of all experts, those they share counted once."""
        return self.held.total + (0 if self.shared is None else self.shared.rows)

    @property
    def elsewhere(self) -> bool:
        """Whether the rows are on disk, and ``X`` is a sample of them."""
        return not isinstance(self.settled, Experts)

    @property
    def width(self) -> int:
        """The rows of an expert, those it shares included; of the nearest one those that a new input has to itself."""
        return max(self.size // max(self.held.experts, 1), 1) if self.rule.local else self.size

    @property
    def size(self) -> int:
        """The rows of an expert, those it shares included."""
        return max(self.held.total // max(self.held.experts, 1) + (0 if self.shared is None else self.shared.rows), 1)

    @property
    def experts(self) -> int:
        """How many experts there are, the common one included."""
        return self.held.experts + (self.shared is not None)

    def told(self, partition: str, names: Any) -> str:
        """How many experts there are, how rows were parted and experts are combined, who is asked; ``names`` of the columns."""
        kind, _, column = partition.partition(":")
        if column:
            kind = f"column {column if names is None or not column.isdigit() else names[int(column)]}"
        who = "that of its part is" if self.rule.local else f"the {self.nearest} nearest are" if self.some else "all are"
        own = ", each with hyperparameters of its own" if isinstance(self.models, dict) else ""
        rule = type(self.rule).__name__.lower()
        return f"{self.experts:,}, parted by {kind}, combined by {rule}; {who} asked about a new row{own}"

    def on(self, executor: Any) -> CommitteeBound:
        """The same experts, worked on by somebody else."""
        other = copy(self)
        other.held, other._seats = self.held.on(executor), None
        return other

    def only(self, output: int) -> CommitteeBound:
        """The same experts, asked for one of several outputs."""
        other = copy(self)
        other._output = output
        return other

    def ask(self, function: Any, *arguments: Any, wanted: Any = None, note: Any = None) -> list[Any]:
        """A function of every group of experts, in their order. They keep their seats where that fits into memory.

        ``wanted``: the numbers of the experts that are needed, if not all are; groups without any are left out.
        """
        held, which = self.held, None
        if wanted is not None:
            which = [i for i, item in enumerate(held.items) if not wanted.isdisjoint(item.numbers)]
        if self._seats is None:
            calls = [Call(held.load, item, self._models(item), self.recipe, self.shared) for item in held.items]
            matrices = held.experts * self.model.likelihood.latents
            if 8 * matrices * self.size**2 > KEPT * free_memory() * (1 if held.executor.workers == 1 else 2):
                some = calls if which is None else [calls[i] for i in which]
                return held.executor.map(freshly, some, wanted, function, *arguments, note=note)
            self._seats = Held(held.executor, called, calls, held.rows, held.experts)
        return self._seats.map(function, *arguments, which=which, note=note)

    def _models(self, item: Any) -> Any:
        """The model of all experts, or those that the experts of a group have for themselves."""
        return {k: self.models[k] for k in item.numbers} if isinstance(self.models, dict) else self.models

    @property
    def some(self) -> bool:
        """Whether the nearest experts alone are asked about a new input."""
        return self._placed and self.nearest is not None and self.nearest < self.held.experts

    @property
    def _placed(self) -> bool:
        """Whether the experts have their places among the inputs."""
        return self.held.experts > 1 and getattr(getattr(self.settled, "splitter", None), "local", False)

    def asked(self, X: Inputs) -> Asked:
        """Who is asked about every input."""
        if not self._placed:
            return Asked(first=self.settled.numbers()[0])
        count = self.nearest if self.some else 1
        return Asked(self.settled.near(np.asarray(X.x, np.float64), self.X, count), not self.some)

    def heights(self, note: Any = None) -> tuple[list[float], list[str]]:
        """The log evidence of every expert, and how its inference ended."""
        found = self.ask(heights, note=note)
        return [v for values, _ in found for v in values], [end for _, ends in found for end in ends]

    def opinions(self, X: Inputs) -> Sums:
        """What all experts say of new inputs together, as sums that a larger committee may add to its own."""
        start = None if self.common is None else self.common.latent(X)
        asked = self.asked(X)
        found = self.ask(opinions, self.rule, X, start, asked, wanted=asked.wanted)
        total = found[0]
        for sums in found[1:]:
            total = total + sums
        return total

    def conditional(self, factor: Any, solved: Any, X: Inputs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        if self.rule.local and self.held.experts > 1:
            said = self._nearest(X)
        elif self.held.experts == 0:
            assert self.common is not None
            said = self.common.latent(X)
        else:
            said = self.rule.verdict(self.opinions(X))
        mean = said.mean - for_outputs(prior(self.model, X).mean, said.mean)
        mean = mean if self._output is None else mean[:, self._output]
        return mean.astype(X.x.dtype), said.variance.astype(X.x.dtype) if variance else None

    def _nearest(self, X: Inputs) -> Spread:
        """Every new input answered by the expert in whose part it lies; a part without rows falls to the one beside it."""
        whose = self.settled.splitter.among(self.settled.numbers()).assign(np.asarray(X.x, np.float64))
        found = [part for group in self.ask(nearest, X, whose, wanted=frozenset(whose.tolist())) for part in group]
        base = prior(self.model, X)  # what is said where nobody is
        outputs = found[0][1].shape[1:] if found else base.mean.shape[1:]
        mean, variance = np.array(for_outputs(base.mean, np.empty((X.rows, *outputs)))), np.array(base.variance)
        for rows, means, variances in found:
            mean[rows], variance[rows] = means, variances
        return Spread(mean, variance)

    def check_joint(self) -> None:
        """Refuse rules and settings that say nothing of several inputs jointly."""
        if self.some:
            what = "different experts are asked about different inputs, and say nothing of several inputs jointly"
            raise fail("Committee", what, "use nearest=None, or ask for variances")
        simple = isinstance(self.rule, PoE | BCM) or (isinstance(self.rule, GPoE) and self.rule.weights == "equal")
        if isinstance(self.rule, RBCM) or (self.experts > 1 and (not simple or isinstance(self.models, dict))):
            name = type(self.rule).__name__
            what = "experts with hyperparameters of their own have no common prior"
            what = what if simple else f"{name} says nothing of several inputs jointly"
            raise fail("Committee", what, "use rule='bcm' with shared hyperparameters, or ask for variances")

    def joint(self, factor: Any, X: Inputs) -> np.ndarray:
        """The joint covariance at new inputs, by the rules that have one (R&W, eq. 8.30).

        The rule is applied to the experts' covariances of all inputs together, and the inverse of a sum of matrices has another
        diagonal than the inverses of the sums of their diagonals: variances input by input (:meth:`conditional`) are its
        diagonal where one input is asked for, where one expert speaks, and where the inputs have nothing to do with each other.
        """
        self.check_joint()
        covariances = [part for group in self.ask(joints, X) for part in group]
        if len(covariances) == 1:
            return covariances[0]
        K = self.model.kernel.gram(X)
        if isinstance(self.rule, BCM):
            nought = np.zeros(X.rows)  # the covariance does not depend on the means
            both = joint_bcm(np.stack([nought] * len(covariances)), np.stack(covariances), nought, K)
            assert both.covariance is not None
            return both.covariance
        scale = 1.0 if isinstance(self.rule, PoE) else 1 / len(covariances)
        floor = np.diag(LEAST * np.maximum(np.diagonal(K), NOTHING))
        precision = scale * sum(np.linalg.inv(C + floor) for C in covariances)
        return np.linalg.inv(precision)
