"""The experts of a committee, in this process or on workers, and the rule that combines their predictions."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._memory import free_memory
from covary._words import counted
from covary.committee.expert import (
    Asked,
    Call,
    Common,
    Models,
    R,
    Recipe,
    Seat,
    called,
    expert,
    freshly,
    heights,
    joints,
    nearest,
    opinions,
    prior,
)
from covary.committee.experts import Dealt, Experts, Groups, Item, by_place
from covary.committee.held import Held
from covary.committee.left_out import leave_one_out
from covary.committee.rules import BCM, LEAST, NOTHING, RBCM, AbstractRule, GPoE, PoE, Sums, for_outputs, joint_bcm
from covary.data import Data, Inputs
from covary.executors.choose import Executor
from covary.executors.pieces import Note
from covary.model import Model
from covary.prediction import Spread
from covary.selection.state import counting

KEPT = 0.25  # fraction of the free memory for posteriors of experts that are kept between predictions


class Members:
    """Experts of a committee, and the rule that combines their predictions.

    Parameters
    ----------
    rule
        Rule of combination.
    model, models
        Model of the committee, and the model of all experts or one per expert by its index.
    held
        Groups of experts on their workers.
    recipe
        Settings of the experts.
    shared
        Rows shared by all experts, or None.
    X
        Inputs, or a sample of them.
    settled
        Assignment of rows to experts, with the partition, which assigns new inputs (the rule ``"nearest"``, and ``nearest``).
    nearest
        Number of experts that predict a new input, the nearest ones; None for all.
    partition
        Name of the partition, as in :class:`covary.committee.Committee`.
    """

    def __init__(
        self,
        rule: AbstractRule,
        model: Model,
        models: Models,
        held: Groups,
        recipe: Recipe,
        shared: Data | None,
        X: Inputs,
        settled: Experts | Dealt,
        nearest: int | None = None,
        partition: str = "kmeans",
    ) -> None:
        self.rule, self.model, self.models, self.held, self.recipe = rule, model, models, held, recipe
        self.shared, self.X, self.settled = shared, X, settled
        self.nearest, self.partition = nearest, partition
        self.common = None if shared is None else expert(shared, model, recipe, None)
        self._seats: Held[Call[Item], list[Seat]] | None = None

    @property
    def rows(self) -> int:
        """Number of rows of all experts, with shared rows counted once."""
        return self.held.total + (0 if self.shared is None else self.shared.rows)

    @property
    def on_disk(self) -> bool:
        """Whether the rows are on disk, and ``X`` is a sample of them."""
        return not isinstance(self.settled, Experts)

    @property
    def classes(self) -> dict[int, int]:
        """Number of rows of each class, if the rows are on disk."""
        return self.settled.classes if isinstance(self.settled, Dealt) else {}

    @property
    def width(self) -> int:
        """Mean number of rows that one expert uses per new input; with a local rule, each input has a single expert."""
        return max(self.size // max(self.held.experts, 1), 1) if self.rule.local else self.size

    @property
    def size(self) -> int:
        """Mean number of rows of an expert, including shared rows."""
        return max(self.held.total // max(self.held.experts, 1) + (0 if self.shared is None else self.shared.rows), 1)

    @property
    def count(self) -> int:
        """Number of experts, including the common one."""
        return self.held.experts + (self.shared is not None)

    def described(self, columns: list[str] | None) -> str:
        """Describe the number of experts, the partition and the rule of combination; ``columns`` are the column names."""
        kind, _, column = self.partition.partition(":")
        if column:
            kind = f"column {column if columns is None or not column.isdigit() else columns[int(column)]}"
        who = "that of its part is" if self.rule.local else f"the {self.nearest} nearest are" if self.some else "all are"
        own = ", with independent hyperparameters" if isinstance(self.models, dict) else ""
        rule = type(self.rule).__name__.lower()
        return f"{self.count:,}, split by {kind}, combined by {rule}; {who} used for a new row{own}"

    def on(self, executor: Executor | str | None) -> Members:
        """Return the same experts on another executor."""
        other = copy(self)
        other.held, other._seats = self.held.on(executor), None
        return other

    def ask(
        self,
        function: Callable[[list[Seat], *Common], R],
        *arguments: *Common,
        wanted: frozenset[int] | None = None,
        note: Note | None = None,
    ) -> list[R]:
        """Apply a function to every group of experts, in order; conditioned experts are kept if they fit into memory.

        If ``wanted`` is given, only these experts are needed, and groups without any of them are left out.
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

    def _models(self, item: Item) -> Models:
        """Return the model of all experts, or the models of the experts of a group."""
        return {k: self.models[k] for k in item.numbers} if isinstance(self.models, dict) else self.models

    @property
    def some(self) -> bool:
        """Whether only the nearest experts predict a new input."""
        return self._placed and self.nearest is not None and self.nearest < self.held.experts

    @property
    def _placed(self) -> bool:
        """Whether the experts have positions among the inputs."""
        return self.held.experts > 1 and self.settled.splitter is not None and self.settled.splitter.local

    def asked(self, X: Inputs) -> Asked:
        """Select the experts that predict each input."""
        if not self._placed:
            return Asked(first=self.settled.numbers()[0])
        count = self.nearest if self.nearest is not None and self.some else 1
        return Asked(self.settled.near(np.asarray(X.x, np.float64), self.X, count), not self.some)

    def evidence(self) -> tuple[float, str]:
        """Log evidence of the committee, and the status of the experts' inferences."""
        found = self.ask(heights, note=counting("conditioning"))
        values, ends = [v for values, _ in found for v in values], [end for _, ends in found for end in ends]
        base = 0.0 if self.common is None else self.common.log_evidence
        odd = [end for end in ends if end not in ("exact", "converged")]
        status = f"{odd[0]} ({len(odd)} of {counted(len(ends), 'expert')})" if odd else ends[0] if ends else "exact"
        return float(base + sum(v - base for v in values)), status

    def opinions(self, X: Inputs) -> Sums:
        """Return the predictions of all experts as partial sums, which a larger committee can add to its own."""
        start = None if self.common is None else self.common.latent(X)
        asked = self.asked(X)
        found = self.ask(opinions, self.rule, X, start, asked, wanted=asked.wanted)
        total = found[0]
        for sums in found[1:]:
            total = total + sums
        return total

    def predict(self, X: Inputs) -> Spread:
        """Return the combined mean and variance of the latent function at new inputs."""
        if self.rule.local and self.held.experts > 1:
            return self._nearest(X)
        if self.held.experts == 0:
            assert self.common is not None
            return self.common.latent(X)
        return self.rule.verdict(self.opinions(X))

    def _nearest(self, X: Inputs) -> Spread:
        """Predict every new input by the expert in whose part it lies; a part without rows is merged with its neighbour."""
        whose = by_place(self.settled.splitter).among(self.settled.numbers()).assign(np.asarray(X.x, np.float64))
        found = [part for group in self.ask(nearest, X, whose, wanted=frozenset(whose.tolist())) for part in group]
        base = prior(self.model, X)  # the prediction of inputs without an expert
        outputs = found[0][1].shape[1:] if found else base.mean.shape[1:]
        mean, variance = np.array(for_outputs(base.mean, np.empty((X.rows, *outputs)))), np.array(base.variance)
        for rows, means, variances in found:
            mean[rows], variance[rows] = means, variances
        return Spread(mean, variance)

    def leave_one_out(self, data: Data, most: int, key: int) -> tuple[np.ndarray, Spread]:
        """Return rows drawn at random and the leave-one-out predictions of the latent function there; NaN if one fails."""
        return leave_one_out(self, data, most, key)

    def check_joint(self) -> None:
        """Raise an error for rules and settings that define no joint covariance of several inputs."""
        if self.some:
            what = "different inputs are predicted by different experts and have no joint covariance"
            raise fail("Committee", what, "use " + Option("nearest", "None") + ", or predict variances only")
        simple = isinstance(self.rule, PoE | BCM) or (isinstance(self.rule, GPoE) and self.rule.weights == "equal")
        if isinstance(self.rule, RBCM) or (self.count > 1 and (not simple or isinstance(self.models, dict))):
            name = type(self.rule).__name__
            what = "experts with independent hyperparameters have no common prior"
            what = what if simple else f"under {name} several inputs have no joint covariance"
            do = "use " + Option("rule", "'bcm'") + " with shared hyperparameters, or predict variances only"
            raise fail("Committee", what, do)

    def joint(self, X: Inputs) -> np.ndarray:
        """Return the joint covariance at new inputs, for rules that define one (R&W, eq. 8.30).

        The rule is applied to the experts' covariances of all inputs together. The diagonal of the result differs from the
        variances of single inputs (:meth:`predict`), since the inverse of a sum of matrices does not have the inverses of the
        summed diagonals on its diagonal. They agree for a single input, for a single expert, and for independent inputs.
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
