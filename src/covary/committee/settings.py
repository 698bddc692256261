"""Committee: the rows parted among experts, as one more way of handling many rows."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from covary._checks import fail
from covary._memory import check_memory
from covary._module import child, static
from covary._words import counted
from covary.committee.bound import CommitteeBound, CommitteeFactor
from covary.committee.expert import Group, Recipe, add, slopes, times
from covary.committee.experts import Experts
from covary.committee.held import Held
from covary.committee.learning import FEWEST, MOST, SAMPLE, independent, ledger_of, shared, start_on_sample
from covary.committee.partition import PARTITIONS, parts
from covary.committee.rules import AbstractRule, as_rule
from covary.data import Data
from covary.executors import as_executor
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.gram.neighbours import column_scales, scaled
from covary.inference.base import Solved
from covary.inference.condition import dense_buffers
from covary.inference.exact import residual
from covary.inference.svgp import SVGP
from covary.likelihoods.gaussian import Gaussian
from covary.posterior import Posterior
from covary.selection.learn import Learned
from covary.selection.progress import counting

COST = 9e-11  # seconds on one core for an evaluation, by the cube of an expert's rows
NEAREST = 32  # experts that are asked about a new input
ROWS = 1000  # of an expert, if nobody says how many experts there are to be
LEARNING = ("levels", "full", "stochastic", "independent")


class Committee(AbstractGram):
    """The rows parted among experts, each an exact model of its own rows; new inputs are answered by all of them together.

    Good for millions of rows, on one machine or many: time and memory grow with n times the rows of an expert, and experts
    work side by side. What they cannot do is pass on what one knows to another beyond the rule by which they are combined:
    where :class:`covary.gram.Vecchia` or :class:`covary.gram.LowRank` fit into memory, they are often sharper.

    Parameters
    ----------
    experts
        How many; by default so many that each has about a thousand rows.
    rule
        How they are combined: ``"grbcm"``, ``"rbcm"``, ``"bcm"``, ``"gpoe"``, ``"poe"``, ``"nearest"``, or a rule from
        :mod:`covary.committee`. The generalised robust committee machine is the one that comes to the exact answer as
        rows are added.
    partition
        Who gets which rows: ``"kmeans"`` (compact parts), ``"kd_tree"`` (boxes; quick for thousands of experts), ``"random"``,
        ``"arrival"`` (as they come), ``"column:NAME"``.
    gram
        How an expert handles its own rows; ``Dense()``.
    learning
        How hyperparameters are learned. They maximise the sum of the experts' evidences, and are shared: ``"levels"``, on a
        sample of rows, then on more and more experts (of at most 60,000 rows); ``"full"``, at the end on all of them;
        ``"stochastic"``, a few experts at a step. ``"independent"``: each expert has its own.
    nearest
        How many experts are asked about a new input: those whose parts are nearest to it. None asks all of them, as do rows
        dealt out at random or as they come; where there are thousands it takes long, and is hardly ever better.
    executor
        Where the work is done: None for this process, ``"dask"`` for all cores of this machine, the address of a Dask
        scheduler, or an executor from :mod:`covary.executors`.
    folder
        Where the rows of a table on disk are sorted by expert: a folder that every worker reaches. By default a temporary one,
        which ends with the model.
    names
        What the columns are called, for ``"column:NAME"``; estimators give it.

    Examples
    --------
    >>> from covary import GP, Data, Model, condition
    >>> x = np.linspace(0.0, 6.0, 60)[:, None]
    >>> post = condition(Model(GP("Matern52()")), Data(x, np.sin(x[:, 0])), gram=Committee(3, rule="rbcm"))
    >>> post.predict([[1.0]]).f.mean.round(1)
    array([0.8])
    """

    composite: ClassVar[bool] = True

    experts: int | None = static(None)
    _: KW_ONLY
    rule: Any = static("grbcm")
    partition: str = static("kmeans")
    gram: AbstractGram = child(Dense())
    learning: str = static("levels")
    nearest: int | None = static(NEAREST)
    executor: Any = static(None)
    folder: str | None = static(None)
    names: tuple[str, ...] | None = static(None)
    table: Any = static(None)
    settled: Any = static(None)

    @property
    def combined(self) -> AbstractRule:
        """The rule itself."""
        return as_rule(self.rule)

    def count(self, rows: int) -> int:
        """How many experts so many rows get."""
        return max(1, round(rows / ROWS)) if self.experts is None else int(self.experts)

    def seconds(self, rows: int) -> float:
        """What learning from so many rows will take on one core, roughly: twenty evaluations, and every posterior."""
        size, shared = rows / self.count(rows), 8 if self.combined.common else 1
        return COST * size**2 * (20 * min(rows, MOST) + shared * rows)

    def check(self, rows: int) -> None:
        """Refuse what makes no sense, before any work."""
        rule, experts, kind = self.combined, self.experts, self.partition
        if experts is not None and (isinstance(experts, bool) or not isinstance(experts, int | np.integer) or experts < 1):
            raise fail("Committee", f"experts is {experts!r}", "give a whole number, one or more")
        if experts is not None and experts > rows:
            raise fail(
                "Committee",
                f"{counted(experts, 'expert')} for {counted(rows, 'row')}",
                "ask for no more experts than rows that differ",
            )
        if self.learning not in LEARNING:
            raise fail("Committee", f"learning is {self.learning!r}", f"choose one of {', '.join(map(repr, LEARNING))}")
        if not isinstance(kind, str) or (kind not in PARTITIONS and not kind.startswith("column:")):
            known = ", ".join(map(repr, PARTITIONS))
            raise fail("Committee", f"partition is {kind!r}", f"choose one of {known}, or 'column:NAME'")
        nearest = self.nearest
        if nearest is not None and (isinstance(nearest, bool) or not isinstance(nearest, int | np.integer) or nearest < 1):
            raise fail("Committee", f"nearest is {nearest!r}", "give a whole number, one or more, or None for all experts")
        if rule.local and kind in ("random", "arrival"):
            what = f"rule is 'nearest' and partition {kind!r}"
            raise fail("Committee", what, "part the rows by place: 'kmeans', 'kd_tree' or 'column:NAME'")
        if rule.common and self.table is not None and kind == "arrival":
            what = "rule is 'grbcm', whose experts share rows drawn from everywhere, and partition 'arrival'"
            raise fail("Committee", what, "use another rule, or partition='kd_tree'")
        if rule.common and self.learning == "independent":
            what = "rule is 'grbcm' with hyperparameters of its own for each expert"
            raise fail("Committee", what, "use rule='rbcm', or learn them together")
        if getattr(self.gram, "composite", False):
            raise fail(
                "Committee", "the gram of an expert is a committee", "a flat committee says the same: ask for more experts"
            )
        as_executor(self.executor)

    def check_model(self, model: Any, inference: Any) -> None:
        """Refuse models that experts cannot share."""
        if model.prior.basis is not None:
            what = "the model has explicit basis functions, whose weights experts cannot share"
            raise fail("Committee", what, "use a mean function, or another method")
        if isinstance(inference, SVGP):
            raise fail("Committee", "the inference is SVGP", "use Exact(), Laplace() or EP() for the experts")

    def check_room(self, model: Any, data: Data) -> None:
        """Refuse experts whose matrices cannot fit."""
        if isinstance(self.gram, Dense):
            largest = self.settled.largest()
            needed = dense_buffers(model) * largest**2 * data.dtype.itemsize
            check_memory("Committee", needed, f"the largest expert has {counted(largest, 'row')}: ask for more experts")

    def prepare(self, model: Any, data: Data, *, key: int = 0) -> tuple[Committee, Data]:
        """The committee with every row given to an expert, by the length-scales of this model."""
        if self.settled is not None:
            return self, data
        n = data.rows if self.table is None else self.table.rows
        self.check(n)
        rule, M = self.combined, self.count(n)
        x = np.asarray(data.X.x, np.float64)
        unit = column_scales(model.prior.kernels, data.X)
        if self.table is not None:
            shared = rule.common and M > 1
            where = as_executor(self.executor)
            asked: Any = {"unit": unit, "seed": key, "names": self.names, "shared": shared, "note": counting("sorting rows")}
            return self.replace(settled=self.table.deal(where, self.partition, M, x, **asked)), data
        if not rule.common or M == 1:
            splitter, rows = parts(self.partition, x, M, unit=unit, seed=key, names=self.names, even=not rule.local)
            return self.replace(settled=Experts(rows, None, splitter)), data
        order = np.random.default_rng(key).permutation(n)
        shared, rest = np.sort(order[: n // M]), np.sort(order[n // M :])
        splitter, rows = parts(self.partition, x[rest], M - 1, unit=unit, seed=key, names=self.names)
        return self.replace(settled=Experts([rest[r] for r in rows], shared, splitter)), data

    def bind(self, kernels: Any, X: Any, basis: Any = None, workspace: Any = None) -> Any:
        """What an expert would bind: the verbs come here for their checks alone."""
        return self.gram.bind(kernels, X, basis, workspace)

    # what the verbs leave to a committee ---------------------------------------------------------------------------
    def held(self, data: Data, ledger: Any = None, *, alone: bool = False) -> Held:
        """Every group of experts, ready to be worked on; the rows they share as an expert of their own if ``alone``."""
        return self.settled.held(self.executor, data, ledger, alone=alone)

    def learn(
        self, model: Any, data: Data, *, inference: Any, priors: Any, checkpoint: Any, key: int, max_time: Any, **search: Any
    ) -> Learned:
        """What ``learn`` returns for a committee."""
        self.check(data.rows if self.table is None else self.table.rows)
        self.check_model(model, inference)
        arrays = [data.X.x, data.y, *(v for v in (data.noise_variance, data.weight, data.scatter) if v is not None)]
        files = None if self.table is None else self.table.source.state()
        settings = repr(self.replace(executor=None, table=None, folder=None, nearest=None))
        ledger, journal = ledger_of(checkpoint, *arrays, model, inference, settings, files, key)
        n = data.rows if self.table is None else self.table.rows
        if self.table is not None:
            self.table.survey(as_executor(self.executor), self.partition, self.count(n), counting("looking at rows"))
        enough = int(np.clip(n / self.count(n), FEWEST, SAMPLE))  # as many as an expert has
        rows = np.sort(np.random.default_rng(key).permutation(data.rows)[:enough])
        common = {"inference": inference, "priors": priors, "max_time": max_time, "key": key}
        coarse = start_on_sample(model, data.take(rows), journal=journal, **common, **search)
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
            journal.unlink(missing_ok=True)
            ledger.clear()
        return done

    def condition(self, model: Any, data: Data, inference: Any) -> Posterior:
        """What ``condition`` returns for a committee."""
        inner = getattr(model, "model", model)
        self.check(data.rows if self.table is None else self.table.rows)
        self.check_model(inner, inference)
        mine = isinstance(model, Learned) and model.recipe == self
        settled = model.gram if mine else self.prepare(inner, data)[0]
        settled.check_room(inner, data)
        models = own_models(model, inner, settled.settled) if mine else inner
        held = settled.held(data)
        return posterior(settled, inner, models, data, held, settled.settled.common(data), inference)

    def evidence(self, model: Any, data: Data, inference: Any) -> tuple[float, Any]:
        """What ``log_evidence_and_grad`` returns for a committee: its posterior's, with the slopes in the model's shape."""
        self.check_model(model, inference)
        settled, _ = self.prepare(model, data)
        recipe, common = Recipe(inference, self.gram), settled.settled.common(data)
        held = settled.held(data)
        found = held.map(slopes, model, recipe, common)
        if common is not None:  # what all of them share is counted once
            base, slope = slopes(Group((0,), (common,)), model, recipe, None)
            others = sum(len(item.numbers) for item in held.items) - 1
            found.append((-others * base, times(-others, slope)))
        total = found[0]
        for value, gradient in found[1:]:
            total = total[0] + value, add(total[1], gradient)
        return total


def own_models(learned: Any, model: Any, settled: Any) -> Any:
    """The model of all experts, or one for each by its number."""
    if not isinstance(learned.start, dict) or "thetas" not in learned.start:
        return model
    thetas = learned.start["thetas"]
    return {k: learned.objective.packing.unpack(theta) for k, theta in zip(settled.numbers(), thetas, strict=True)}


def posterior(
    committee: Committee, model: Any, models: Any, data: Data, held: Held, common: Data | None, inference: Any
) -> Posterior:
    r"""The posterior of a committee whose experts have been given their rows.

    Its evidence is the sum of the experts' evidences; where all share the rows c, that of experts independent given those:
    :math:`\log p(y_c) + \sum_k \log p(y_k\mid y_c)`.
    """
    rule, recipe = committee.combined, Recipe(inference, committee.gram)
    bound = CommitteeBound(rule, model, models, held, recipe, common, data.X, committee.settled, committee.nearest)
    values, ends = bound.heights(counting("conditioning"))
    base = 0.0 if bound.common is None else bound.common.log_evidence
    value = base + sum(v - base for v in values)
    odd = [end for end in ends if end not in ("exact", "converged")]
    status = f"{odd[0]} ({len(odd)} of {counted(len(ends), 'expert')})" if odd else ends[0] if ends else "exact"
    gaussian = isinstance(model.likelihood, Gaussian)
    sites = model.likelihood.sites(data) if gaussian else None
    shift = residual(model, data) if gaussian else np.zeros(data.rows)
    return Posterior(model, data, bound, Solved(CommitteeFactor(sites), shift, np.empty(0), float(value), status))


def extended(post: Posterior, data: Data, committee: Committee) -> Posterior:
    """The posterior of the same experts, each with its own hyperparameters, after rows were added to those they had.

    A new row goes to the expert that has the row nearest to it, in length-scales; under the rule ``"nearest"`` to the one in
    whose part it lies.

    Parameters
    ----------
    post
        What was believed before.
    data
        All rows, the old ones first.
    committee
        The settings.
    """
    from scipy.spatial import KDTree

    bound, old = post.bound, post.data.rows
    x, settled = np.asarray(data.X.x, np.float64), bound.settled
    owner = np.empty(old, np.int64)
    for number, mine in enumerate(settled.rows):
        owner[mine] = number
    near = scaled(x, column_scales(post.model.prior.kernels, data.X))
    whose = owner[KDTree(near[:old]).query(near[old:])[1]]
    if bound.rule.local:
        whose = settled.splitter.among(settled.numbers()).assign(x[old:])
    rows = [np.concatenate([mine, old + np.flatnonzero(whose == number)]) for number, mine in enumerate(settled.rows)]
    grown = committee.replace(settled=Experts(rows, None, settled.splitter))
    return posterior(grown, post.model, bound.models, data, grown.held(data), None, bound.recipe.inference)
