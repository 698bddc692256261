"""Fitting of one Gaussian process: choose the method, learn the free hyperparameters, condition on data.

``method="auto"`` uses the first applicable rule of a list, which is printed in ``docs/large_n.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np

from covary._checks import check_object, fail, shown
from covary._errors import Option
from covary._memory import free_memory
from covary._words import counted
from covary.committee.partition import which_column
from covary.committee.settings import Committee
from covary.data import Data
from covary.executors import as_executor
from covary.families.gaussian_process.predict import evidence_in_units
from covary.families.gaussian_process.processes import Process
from covary.families.gaussian_process.settings import Context, Score, seed_of
from covary.families.gaussian_process.settings import Method as Asked
from covary.families.gaussian_process.start import own_priors
from covary.fits import Method, Scale
from covary.gram.base import AbstractGram
from covary.gram.dense import Dense
from covary.gram.low_rank import LowRank
from covary.gram.markov import Markov
from covary.gram.markov.state_space import representable
from covary.gram.subset import Subset
from covary.gram.vecchia import Vecchia
from covary.inference.base import AbstractInference
from covary.inference.condition import condition
from covary.inference.exact import Exact
from covary.inference.plan import AbstractPlan, HasModel
from covary.inference.svgp import SVGP
from covary.kernels.base import AbstractKernel
from covary.likelihoods.gaussian import Gaussian
from covary.model import Model
from covary.optimise.base import Clock
from covary.parameters import Packing
from covary.posterior import Combination
from covary.selection.learn import Learned, learn
from covary.selection.left_out import GeneralisedCrossValidation, KFold, LeaveOneOut
from covary.selection.priors import Priors, default_priors
from covary.selection.starts import brief, ordering, target_scale
from covary.tables.cells import DATE
from covary.tables.columns import Columns

EXACT_ROWS = 10_000  # under Gaussian noise; a fit of this size takes minutes on two cores
EXACT_OTHERS = 3_000  # under another likelihood: several factorisations for each one of exact inference
MARKOV_ROWS = 2_000  # for fewer rows, a dense fit takes less time than compiling the filter
NEIGHBOURS = 30
NEIGHBOUR_COLUMNS = 3  # low-dimensional inputs, in which near rows are the most informative
QUIET = 0.8  # largest share of noise at which neighbours may beat a smooth surface through inducing inputs
SHARE = 0.1  # share of the fitting time for estimating the share of noise
SAMPLE = 800  # rows for estimating the share of noise
INDUCING = 500
MEMORY_SHARE = 0.7  # share of free memory that a fit may use

METHODS = ("auto", "exact", "low_rank", "svgp", "vecchia", "markov", "subset", "committee")
OBJECTIVES: dict[str, Score | None] = {
    "evidence": None,
    "loo": LeaveOneOut(),
    "gcv": GeneralisedCrossValidation(),
    "kfold": KFold(10),
}
SEVERAL = 2  # number of additional starts from which one with a short length-scale is added
PATIENCE = 120.0  # seconds of work on one core above which a committee uses all cores


@dataclass(frozen=True)
class Choice:
    """Chosen method: its name, gram, inference, and the reason."""

    name: str
    gram: AbstractGram | AbstractPlan
    inference: AbstractInference
    why: str


def choose(
    who: str,
    method: Asked,
    model: Model,
    data: Data,
    inference: AbstractInference,
    *,
    free: int,
    given: bool,
    clock: Clock | None = None,
) -> Choice:
    """Resolve ``method`` for a model and data.

    Parameters
    ----------
    who
        Prefix of error messages.
    method
        A name in :data:`METHODS`, or a gram.
    model, data
        The initial model and the data to fit.
    inference
        The requested inference, or the default of the likelihood.
    free
        Bytes of free memory.
    given
        Whether the user requested this inference, which is then kept.
    clock
        The time limit for the whole fit; none by default.
    """
    if isinstance(method, AbstractGram | AbstractPlan):
        name = "committee" if isinstance(method, Committee) else type(method).__name__
        return Choice(name, method, inference, "as requested")
    if method not in METHODS:
        raise fail(who, Option("method") + f" is {method!r}", f"choose one of {', '.join(map(repr, METHODS))}, or give a gram")
    if method != "auto":
        return _named(method, inference)
    n, gaussian = data.rows, isinstance(model.likelihood, Gaussian)
    one = model.likelihood.latents == 1
    dense = need(model, data)
    why = counted(n, "row")
    markov = data.X.columns == 1 and not data.X.tags and len(model.prior.kernels) == 1 and representable(model.kernel)
    plain = gaussian or (one and model.likelihood.log_concave)
    if markov and plain and n > MARKOV_ROWS and not isinstance(inference, SVGP):
        return Choice("markov", Markov(), inference, f"{why}, one input and a kernel with a state space form: exact in O(n)")
    limit = EXACT_ROWS if gaussian else EXACT_OTHERS
    if not isinstance(inference, SVGP) and n <= _rows_for(model, limit) and dense <= MEMORY_SHARE * free:
        return Choice("exact", Dense(), inference, f"{why}: the whole matrix fits in memory and is fast")
    if (gaussian or one) and not isinstance(inference, SVGP) and crowd(data) > MEMORY_SHARE * free:
        what = f"{why}, too many for neighbours or inducing inputs in memory: split across experts"
        return Choice("committee", Committee(partition="kd_tree"), inference, what)
    if gaussian and isinstance(inference, Exact):
        if data.X.columns <= NEIGHBOUR_COLUMNS:
            return Choice("vecchia", Vecchia(NEIGHBOURS), inference, f"{why}, few inputs: conditioned on nearest neighbours")
        share = noise_share(model, data, clock)
        said = f"{why}, {100 * share:.0f} % of the variance in a sample looks like noise"
        if share <= QUIET:
            return Choice("vecchia", Vecchia(NEIGHBOURS), inference, f"{said}: conditioned on nearest neighbours")
        return Choice("low_rank", LowRank(INDUCING, rule="vfe"), inference, f"{said}: {INDUCING} inducing inputs")
    if given and one and not isinstance(inference, SVGP):
        return Choice("low_rank", LowRank(INDUCING), inference, f"{why}: {type(inference).__name__} with inducing inputs")
    return Choice(
        "svgp",
        LowRank(INDUCING),
        _batches(inference),
        f"{why} under a {type(model.likelihood).__name__} likelihood: variational, in batches",
    )


def noise_share(model: Model, data: Data, clock: Clock | None = None) -> float:
    """Return the share of noise in the variance of y, estimated on a sample in at most a tenth of the time available."""
    from covary.selection.learn import learn
    from covary.selection.starts import target_scale

    rows = np.sort(np.random.default_rng(0).permutation(data.rows)[:SAMPLE])
    some = data.take(rows)
    if not Packing(model).size:
        return model.noise / target_scale(some) ** 2
    limit = None if clock is None or clock.end is None else SHARE * max(clock.left(), 0.0)
    return learn(model, some, max_time=limit).model.noise / target_scale(some) ** 2


def _named(method: str, inference: AbstractInference) -> Choice:
    why = "as requested"
    if method == "svgp":
        return Choice(method, LowRank(INDUCING), _batches(inference), why)
    grams = {"exact": Dense, "low_rank": lambda: LowRank(INDUCING), "vecchia": lambda: Vecchia(NEIGHBOURS), "markov": Markov}
    grams |= {"subset": lambda: Subset(EXACT_OTHERS), "committee": Committee}
    return Choice(method, grams[method](), inference, why)


def _batches(inference: AbstractInference) -> AbstractInference:
    """Return the user's variational inference, or the default."""
    return inference if isinstance(inference, SVGP) else SVGP()


def _rows_for(model: Model, limit: int) -> int:
    """Return the number of rows of C coupled functions that costs as much as ``limit`` rows of one function: C n³."""
    return int(limit / model.likelihood.latents ** (1 / 3))


def crowd(data: Data) -> int:
    """Return the peak memory in bytes of neighbours or inducing inputs, excluding the rows."""
    return (4 * NEIGHBOURS + 2 * data.X.columns) * data.rows * data.dtype.itemsize


def need(model: Model, data: Data) -> int:
    """Return the peak memory in bytes of a dense fit."""
    return Dense().bytes_needed(model, data.rows, data.dtype.itemsize)


@dataclass(frozen=True)
class Fitted:
    """A fitted process, its method, its columns (with counts, if learned from a sample), and its clock."""

    process: Process
    method: Method
    columns: Columns
    clock: Clock


def fitted(
    context: Context,
    start: Model,
    data: Data,
    inference: AbstractInference,
    scale: Scale,
    rivals: Sequence[Model] = (),
) -> Fitted:
    """Learn the free hyperparameters, and condition on the data."""
    settings, who = context.settings, context.who
    priors = settings.priors
    if isinstance(priors, str) and priors == "default":
        own = own_priors(start, data.X.columns, target_scale(data)) if settings.kernel is None else {}
        priors = default_priors(start, data) | own
    if isinstance(priors, str):
        raise fail(who, Option("priors") + f" is {priors!r}", "give 'default', None, or distributions by path")
    by_path = Priors(start, priors, who=f"{who}: priors").by_path
    clock = Clock(settings.max_time)
    if context.disk is None:
        given = settings.inference not in ("auto", "laplace")
        choice = choose(who, settings.method, start, data, inference, free=free_memory(), given=given, clock=clock)
    else:
        choice = _from_disk(context, inference)
    table = choice.gram.table if isinstance(choice.gram, Committee) else None
    choice = _where(context, choice, data.rows if table is None else table.rows)
    found: HasModel | None = None
    if Packing(start).size:
        found = learn(
            start,
            data,
            inference=choice.inference,
            gram=choice.gram,
            priors=priors,
            n_restarts=settings.n_restarts,
            starts=_short(context, start, data, choice),
            rivals=rivals,
            max_time=clock,
            reserve=0.0 if isinstance(choice.gram, AbstractPlan) else 1.0,
            checkpoint=settings.checkpoint,
            key=seed_of(who, settings.random_state),
            objective=_objective(context, choice),
        )
    with clock.timing("condition"):
        post = condition(start if found is None else found, data, inference=choice.inference, gram=choice.gram)
    columns = context.columns
    if table is not None and isinstance(post, Combination):  # the columns were learned from a sample
        settled = post.experts.settled
        if context.disk is not None:
            context.disk.goes_with(settled)
        dropped = table.rows - settled.rows - settled.left_out.get(table.target, 0)
        columns = columns.counted(settled.left_out, dropped)
    model = start if found is None else found.model
    learned = found if isinstance(found, Learned) else None  # a plan may have another record
    gram = handled(choice.gram, learned)
    process = Process(post, model, choice.inference, gram, learned, by_path, evidence_in_units(post, data, scale))
    return Fitted(process, Method(choice.name, choice.why), columns, clock)


def handled(gram: AbstractGram | AbstractPlan, learned: Learned | None) -> AbstractGram | AbstractPlan:
    """Return the gram, with learned or chosen inducing inputs if any."""
    return learned.gram if learned is not None and isinstance(learned.gram, LowRank) else gram


def _short(context: Context, start: Model, data: Data, choice: Choice) -> list[Model]:
    """Return an extra start with a short length-scale, for one input or along time; always for classes by default kernel."""
    settings = context.settings
    several = settings.n_restarts >= SEVERAL or (settings.kernel is None and context.classes is not None)
    if not several or isinstance(choice.gram, Committee):
        return []
    return brief(start, data, context.columns.places(DATE) or ordering(start, data))


def _from_disk(context: Context, inference: AbstractInference) -> Choice:
    """Return a committee that reads its rows from disk."""
    reader, method = context.disk, context.settings.method
    assert reader is not None
    committee = method if isinstance(method, Committee) else Committee(partition="kd_tree")
    classes = None if context.classes is None else context.classes.values
    table = reader.table(context.who, context.columns, classes, isinstance(inference, Exact))
    why = f"{counted(table.rows, 'row')} on disk, split across {counted(committee.count(table.rows), 'expert')}"
    return Choice("committee", committee.replace(table=table), inference, why)


def _where(context: Context, choice: Choice, rows: int) -> Choice:
    """Return the choice with the executor given, and with column names if rows are split by a column."""
    settings, columns = context.settings, context.columns
    if isinstance(choice.gram, Committee):
        choice.gram.check(rows)
    if isinstance(choice.gram, Committee) and choice.gram.partition.startswith("column:"):
        names = None if columns.array else columns.keys
        which_column(choice.gram.partition[len("column:") :], names, columns.width)
        choice = replace(choice, gram=choice.gram.replace(names=None if names is None else tuple(map(str, names))))
    if settings.executor is None:
        return _by_work(choice, rows)
    if not isinstance(choice.gram, Committee):
        what = Option("executor") + f" is given but the method {choice.name!r} runs in this process"
        raise fail(context.who, what, "leave it out, or use " + Option("method", "Committee(...)"))
    return replace(choice, gram=choice.gram.replace(executor=settings.executor))


def _by_work(choice: Choice, rows: int) -> Choice:
    """Use a process per core for a committee with much work, if Dask is installed and no executor was given."""
    gram = choice.gram
    if not isinstance(gram, Committee) or gram.executor is not None or not gram.seconds(rows) > PATIENCE:
        return choice
    if find_spec("distributed") is None or as_executor("dask").workers < 2:
        return choice
    why = f"{choice.why}, on {as_executor('dask').workers} processes"
    return replace(choice, gram=gram.replace(executor="dask"), why=why)


def _objective(context: Context, choice: Choice) -> Score | None:
    """Return the objective of learning; None for the evidence."""
    who, given = context.who, context.settings.objective
    check_object(who, "objective", given)
    if (isinstance(given, str) and given not in OBJECTIVES) or not (
        isinstance(given, str) or (callable(given) and not isinstance(given, AbstractKernel))
    ):
        known = ", ".join(map(repr, OBJECTIVES))
        raise fail(who, Option("objective") + f" is {shown(given)}", f"choose one of {known}, or give an objective")
    found = OBJECTIVES[given] if isinstance(given, str) else given
    what, evidence = Option("objective") + f" is {shown(given)}, which requires ", Option("objective", "'evidence'")
    if found is not None and not isinstance(choice.inference, Exact):
        what = what + "Gaussian noise and exact inference, but " + Option("likelihood")
        what = what + f" is {shown(context.settings.likelihood)} and the inference {type(choice.inference).__name__}"
        do = "use " + evidence + ", or " + Option("likelihood", "'gaussian'") + " and " + Option("inference", "'exact'")
        raise fail(who, what, do)
    if found is not None and not isinstance(choice.gram, Dense):
        what = what + f"the exact method, but the method is {choice.name!r}"
        raise fail(who, what, "use " + Option("method", "'exact'") + ", or " + evidence)
    return found
