"""Committee: a method for many rows that splits them across experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from os import PathLike

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._memory import check_memory
from covary._module import child, static
from covary._words import counted
from covary.committee.expert import Group, Models, Priors, Recipe, add, height, slopes, times
from covary.committee.experts import Dealt, Experts, Groups, Table, by_place
from covary.committee.learning import FEWEST, MOST, SAMPLE, independent, shared
from covary.committee.ledger import Ledger
from covary.committee.members import Members
from covary.committee.partition import PARTITIONS, parts
from covary.committee.rules import AbstractRule, as_rule
from covary.data import Data
from covary.executors import as_executor
from covary.executors.choose import Executor
from covary.executors.fingerprint import fingerprint
from covary.gram.base import AbstractGram, Workspace
from covary.gram.dense import Dense
from covary.gram.vecchia.neighbours import column_scales, scaled
from covary.inference.base import AbstractInference
from covary.inference.condition import as_model, bind
from covary.inference.plan import AbstractPlan, HasModel
from covary.model import Model
from covary.posterior import Combination
from covary.selection.learn import Learned, learn
from covary.selection.state import counting

COST = 9e-11  # seconds per evaluation on one core, divided by the cube of the rows of an expert
NEAREST = 32  # default number of experts that predict a new input
ROWS = 1000  # rows per expert if the number of experts is not given
LEARNING = ("levels", "full", "stochastic", "independent")


class Committee(AbstractPlan):
    """Committee of experts: the rows are split across exact models, whose predictions are combined.

    Useful for millions of rows, on one or many machines. Time and memory grow with n times the rows of an expert, and experts
    run in parallel. Information is transferred between experts only by the rule that combines them, so that
    :class:`covary.gram.Vecchia` or :class:`covary.gram.LowRank` are often more accurate if they fit into memory.

    Parameters
    ----------
    experts
        Number of experts; by default, each has about a thousand rows.
    rule
        Rule that combines the experts: ``"grbcm"``, ``"rbcm"``, ``"bcm"``, ``"gpoe"``, ``"poe"``, ``"nearest"``, or a rule
        from :mod:`covary.committee`. The default, the generalised robust Bayesian committee machine, is the only one that
        converges to the exact posterior as rows are added.
    partition
        Assignment of rows to experts: ``"kmeans"`` (compact parts), ``"kd_tree"`` (boxes; fast for thousands of experts),
        ``"random"``, ``"arrival"`` (in order of arrival), ``"column:NAME"``.
    gram
        Gram of each expert; ``Dense()`` by default.
    learning
        How to learn hyperparameters. Shared hyperparameters maximise the sum of the experts' log evidences: ``"levels"``
        learns on a sample of rows, then on more and more experts (of at most 60,000 rows); ``"full"`` ends with all of them;
        ``"stochastic"`` uses a few experts per step. ``"independent"`` learns separate hyperparameters for each expert.
    nearest
        Number of experts that predict a new input, those whose parts are nearest to it. None means all experts, which is
        always the case with the partitions ``"random"`` and ``"arrival"``. With thousands of experts this is slow and rarely
        better.
    executor
        Workers: None for this process, ``"dask"`` for all cores of this machine, the address of a Dask scheduler, or an
        executor from :mod:`covary.executors`.
    folder
        Folder into which the rows of a table on disk are sorted by expert; every worker needs access to it. By default, a
        temporary folder that is removed with the model.
    names
        Names of the columns, for ``"column:NAME"``; set by estimators.

    Examples
    --------
    >>> from covary import GP, Data, Model, condition
    >>> x = np.linspace(0.0, 6.0, 60)[:, None]
    >>> post = condition(Model(GP("Matern52()")), Data(x, np.sin(x[:, 0])), gram=Committee(3, rule="rbcm"))
    >>> post.predict([[1.0]]).f.mean.round(1)
    array([0.8])
    """

    experts: int | None = static(None)
    _: KW_ONLY
    rule: AbstractRule | str = static("grbcm")
    partition: str = static("kmeans")
    gram: AbstractGram = child(Dense())
    learning: str = static("levels")
    nearest: int | None = static(NEAREST)
    executor: Executor | str | None = static(None)
    folder: str | None = static(None)
    names: tuple[str, ...] | None = static(None)
    table: Table | None = static(None)
    settled: Experts | Dealt | None = static(None)

    @property
    def combined(self) -> AbstractRule:
        """The rule as an object."""
        return as_rule(self.rule)

    def count(self, rows: int) -> int:
        """Return the number of experts for a number of rows."""
        return max(1, round(rows / ROWS)) if self.experts is None else int(self.experts)

    def seconds(self, rows: int) -> float:
        """Estimate the seconds of learning on one core: about twenty evaluations, and the posterior of every expert."""
        size, shared = rows / self.count(rows), 8 if self.combined.common else 1
        return COST * size**2 * (20 * min(rows, MOST) + shared * rows)

    def check(self, rows: int) -> None:
        """Raise an error for invalid arguments, before any computation."""
        rule, experts, kind = self.combined, self.experts, self.partition
        if experts is not None and (isinstance(experts, bool) or not isinstance(experts, int | np.integer) or experts < 1):
            raise fail("Committee", Option("experts") + f" is {experts!r}", "give a positive integer")
        if experts is not None and experts > rows:
            what = f"{counted(experts, 'expert')} for {counted(rows, 'row')}"
            raise fail("Committee", what, "use at most one expert per distinct row")
        if self.learning not in LEARNING:
            what = Option("learning") + f" is {self.learning!r}"
            raise fail("Committee", what, f"choose one of {', '.join(map(repr, LEARNING))}")
        if not isinstance(kind, str) or (kind not in PARTITIONS and not kind.startswith("column:")):
            known = ", ".join(map(repr, PARTITIONS))
            raise fail("Committee", Option("partition") + f" is {kind!r}", f"choose one of {known}, or 'column:NAME'")
        nearest = self.nearest
        if nearest is not None and (isinstance(nearest, bool) or not isinstance(nearest, int | np.integer) or nearest < 1):
            raise fail("Committee", Option("nearest") + f" is {nearest!r}", "give a positive integer, or None for all experts")
        if rule.local and kind in ("random", "arrival"):
            what = Option("rule") + f" is 'nearest' but partition is {kind!r}"
            raise fail("Committee", what, "use a spatial partition: 'kmeans', 'kd_tree' or 'column:NAME'")
        if rule.common and self.table is not None and kind == "arrival":
            what = (
                Option("rule") + " is 'grbcm', whose experts share rows drawn from the whole table, but partition is 'arrival'"
            )
            raise fail("Committee", what, "use another rule, or " + Option("partition", "'kd_tree'"))
        if rule.common and self.learning == "independent":
            what = Option("rule") + " is 'grbcm' but learning is 'independent'"
            raise fail("Committee", what, "use " + Option("rule", "'rbcm'") + ", or learn shared hyperparameters")
        if isinstance(self.gram, AbstractPlan):
            raise fail("Committee", "the gram of an expert is a committee", "use a single committee with more experts instead")
        as_executor(self.executor)

    def check_model(self, model: Model, data: Data, inference: AbstractInference) -> None:
        """Raise an error for models that experts cannot share, and for grams that do not support the model."""
        bind("Committee", model, data.take(slice(0, 1)), self.gram, Workspace())
        if model.prior.basis is not None:
            what = "the model has explicit basis functions, whose weights experts cannot share"
            raise fail("Committee", what, "use a mean function, or another method")
        if inference.in_batches:
            raise fail("Committee", "the inference is SVGP", "use " + Option("inference", "Exact()", "Laplace()", "EP()"))

    def check_room(self, model: Model, data: Data) -> None:
        """Raise an error if the matrices of an expert do not fit into memory."""
        largest = self.divided.largest()
        needed = self.gram.bytes_needed(model, largest, data.dtype.itemsize)
        if needed:
            check_memory("Committee", needed, f"the largest expert has {counted(largest, 'row')}: use more experts")

    def prepare(self, model: Model, data: Data, *, key: int = 0) -> tuple[Committee, Data]:
        """Return the committee with every row assigned to an expert, and the data, using the length-scales of this model."""
        if self.settled is not None:
            return self, data
        n = data.rows if self.table is None else self.table.rows
        self.check(n)
        rule, M = self.combined, self.count(n)
        x = np.asarray(data.X.x, np.float64)
        unit = column_scales(model.prior.kernels, data.X)
        if self.table is not None:
            settled = self.table.deal(
                as_executor(self.executor),
                self.partition,
                M,
                x,
                unit=unit,
                seed=key,
                names=self.names,
                shared=rule.common and M > 1,
                note=counting("sorting rows"),
            )
            return self.replace(settled=settled), data
        if not rule.common or M == 1:
            splitter, rows = parts(self.partition, x, M, unit=unit, seed=key, names=self.names, even=not rule.local)
            return self.replace(settled=Experts(rows, None, splitter)), data
        order = np.random.default_rng(key).permutation(n)
        shared, rest = np.sort(order[: n // M]), np.sort(order[n // M :])
        splitter, rows = parts(self.partition, x[rest], M - 1, unit=unit, seed=key, names=self.names)
        return self.replace(settled=Experts([rest[r] for r in rows], shared, splitter)), data

    @property
    def divided(self) -> Experts | Dealt:
        """Assignment of rows to experts, after :meth:`prepare`."""
        assert self.settled is not None
        return self.settled

    # the protocol of a plan ----------------------------------------------------------------------------------------
    def held(self, data: Data, ledger: Ledger | None = None, *, alone: bool = False) -> Groups:
        """Return the groups of experts on their workers; if ``alone``, the shared rows form an expert of their own."""
        return self.divided.held(self.executor, data, ledger, alone=alone)

    def learn(
        self,
        model: Model,
        data: Data,
        *,
        inference: AbstractInference,
        priors: Priors | None,
        n_restarts: int,
        starts: Sequence[Model | HasModel],
        rivals: Sequence[Model | HasModel],
        max_time: float | None,
        checkpoint: str | PathLike[str] | None,
        key: int,
    ) -> Learned:
        """Learn the hyperparameters of a committee; called by :func:`covary.learn`."""
        self.check(data.rows if self.table is None else self.table.rows)
        self.check_model(model, data, inference)
        ledger = None
        if checkpoint is not None:
            files = None if self.table is None else self.table.source.state()
            settings = self.replace(executor=None, table=None, folder=None, nearest=None)
            course = (priors or {}, n_restarts, [as_model(s) for s in starts], [as_model(r) for r in rivals], key)
            ledger = Ledger(checkpoint, fingerprint(data, model, inference, settings, files, *course))
        n = data.rows if self.table is None else self.table.rows
        if self.table is not None:
            self.table.survey(as_executor(self.executor), self.partition, self.count(n), counting("checking rows"))
        enough = int(np.clip(n / self.count(n), FEWEST, SAMPLE))  # about the rows of an expert
        rows = np.sort(np.random.default_rng(key).permutation(data.rows)[:enough])
        coarse = learn(
            model,
            data.take(rows),
            inference=inference,
            priors=priors,
            n_restarts=n_restarts,
            starts=starts,
            rivals=rivals,
            max_time=max_time,
            checkpoint=None if ledger is None else ledger.sample,
            key=key,
        )
        settled, _ = self.prepare(coarse.model, data, key=key)
        settled.check_room(coarse.model, data)
        held = settled.held(data, ledger, alone=True)
        recipe = Recipe(inference, self.gram, coarse.objective.jitter)
        left = None if max_time is None else max(max_time - coarse.seconds, 0.0)
        if self.learning == "independent":
            done = independent(coarse, held, recipe, settled, priors=priors, max_time=left, key=key)
        else:
            done = shared(coarse, held, recipe, settled, max_time=left, key=key)
        if ledger is not None and done.status not in ("interrupted", "out of time"):
            ledger.clear()
        return done

    def condition(self, model: Model | HasModel, data: Data, inference: AbstractInference) -> Combination[Members]:
        """Compute the posterior of a committee; called by :func:`covary.condition`."""
        inner = as_model(model)
        self.check(data.rows if self.table is None else self.table.rows)
        self.check_model(inner, data, inference)
        settled, models = None, inner
        if isinstance(model, Learned) and model.recipe == self and isinstance(model.gram, Committee):
            settled = model.gram
            models = own_models(model, inner, settled.divided)
        settled = settled or self.prepare(inner, data)[0]
        settled.check_room(inner, data)
        return posterior(settled, inner, models, data, settled.held(data), settled.divided.common(data), inference)

    def log_evidence_and_grad(self, model: Model, data: Data, inference: AbstractInference) -> tuple[float, Model]:
        """Return the sum of the experts' log evidences and its gradient, a model whose values are the derivatives."""
        held, recipe, common = self._ready(model, data, inference)
        found = held.map(slopes, model, recipe, common)
        if common is not None:  # count the shared rows once
            base, slope = slopes(Group((0,), (common,)), model, recipe, None)
            others = held.experts - 1
            found.append((-others * base, times(-others, slope)))
        total = found[0]
        for value, gradient in found[1:]:
            total = total[0] + value, add(total[1], gradient)
        return total

    def log_evidence(self, model: Model, data: Data, inference: AbstractInference) -> float:
        """Return the sum of the experts' log evidences, without its gradient."""
        held, recipe, common = self._ready(model, data, inference)
        value = sum(held.map(height, model, recipe, common))
        if common is not None:
            value -= (held.experts - 1) * height(Group((0,), (common,)), model, recipe, None)
        return value

    def _ready(self, model: Model, data: Data, inference: AbstractInference) -> tuple[Groups, Recipe, Data | None]:
        """Return the groups of experts whose evidences are added, their settings, and the shared rows."""
        self.check_model(model, data, inference)
        settled, _ = self.prepare(model, data)
        settled.check_room(model, data)
        return settled.held(data), Recipe(inference, self.gram), settled.divided.common(data)


def own_models(learned: Learned, model: Model, settled: Experts | Dealt) -> Models:
    """Return the model of all experts, or one per expert by its index."""
    if learned.thetas is None:
        return model
    return {k: learned.objective.packing.unpack(theta) for k, theta in zip(settled.numbers(), learned.thetas, strict=True)}


def posterior(
    committee: Committee,
    model: Model,
    models: Models,
    data: Data,
    held: Groups,
    common: Data | None,
    inference: AbstractInference,
    known: tuple[float, str] | None = None,
) -> Combination[Members]:
    r"""Return the posterior of a committee whose rows have been assigned to experts.

    Its log evidence is the sum of the experts' log evidences. If all experts share the rows c, the experts are independent
    given these rows: :math:`\log p(y_c) + \sum_k \log p(y_k\mid y_c)`. If the evidence and the status are ``known``, no expert
    is conditioned before the first prediction.
    """
    rule, recipe = committee.combined, Recipe(inference, committee.gram)
    kept = committee.divided, committee.nearest, committee.partition
    members = Members(rule, model, models, held, recipe, common, data.X, *kept)
    evidence, status = known or members.evidence()
    return Combination(model, data, members, evidence, status, type(committee).__name__)


def extended(post: Combination[Members], data: Data, committee: Committee) -> Combination[Members]:
    """Return the posterior of experts with independent hyperparameters after rows were added.

    A new row is assigned to the expert that has the row nearest to it, in length-scales; under the rule ``"nearest"``, to the
    expert in whose part it lies.

    Parameters
    ----------
    post
        Posterior before the update.
    data
        All rows, the old ones first.
    committee
        Settings of the committee.
    """
    from scipy.spatial import KDTree

    members, old = post.experts, post.data.rows
    x, settled = np.asarray(data.X.x, np.float64), members.settled
    assert isinstance(settled, Experts)
    owner = np.empty(old, np.int64)
    for number, mine in enumerate(settled.rows):
        owner[mine] = number
    near = scaled(x, column_scales(post.model.prior.kernels, data.X))
    whose = owner[KDTree(near[:old]).query(near[old:])[1]]
    if members.rule.local:
        whose = by_place(settled.splitter).among(settled.numbers()).assign(x[old:])
    rows = [np.concatenate([mine, old + np.flatnonzero(whose == number)]) for number, mine in enumerate(settled.rows)]
    grown = committee.replace(settled=Experts(rows, None, settled.splitter))
    return posterior(grown, post.model, members.models, data, grown.held(data), None, members.recipe.inference)
