"""Command-line options of Gaussian processes. Imports nothing slow: ``covary fit --help`` reads this module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from covary._families import Json, Options, Setting

LEARNING, EXPERTS = "Learning", "Committees of experts"

LIKELIHOODS = (
    *("auto", "classes", "gaussian", "student_t", "laplace", "heteroscedastic", "poisson", "negative_binomial", "binomial"),
    *("gamma", "ordinal"),
)

SETTINGS = (
    Setting(
        "likelihood",
        "Type of the target. auto: text, true/false or two distinct integers are classes, small "
        "integers are counts (negative_binomial), anything else is gaussian. Also: student_t and laplace (outliers), "
        "heteroscedastic (varying noise), poisson, binomial (with --size-column), gamma (positive), ordinal (levels 0, "
        "1, ...), classes.",
        default="auto",
        choices=LIKELIHOODS,
        metavar="NAME",
    ),
    Setting(
        "inference",
        "Inference method. auto: exact under Gaussian noise, otherwise Laplace's method (ep for laplace noise). "
        "ep is slower and more accurate, especially for two classes.",
        default="auto",
        choices=("auto", "exact", "laplace", "ep"),
        metavar="auto|exact|laplace|ep",
    ),
    Setting(
        "link",
        "Link function from the latent function to a probability, for two classes.",
        choices=("logit", "probit"),
        metavar="logit|probit",
        show_default="logit",
    ),
    Setting(
        "method",
        "Method for large tables. auto chooses by the number of rows and inputs, the target and the memory (and reports why): "
        "exact; markov (exact, one input); vecchia (nearest neighbours, Gaussian noise); low_rank (inducing inputs); svgp "
        "(inducing inputs in mini-batches, any target); subset; committee (experts on parts of the rows).",
        default="auto",
        choices=("auto", "exact", "markov", "vecchia", "low_rank", "svgp", "subset", "committee"),
        metavar="NAME",
    ),
    Setting(
        "objective",
        "Objective that the hyperparameters maximise: evidence; loo, leave-one-out log density; gcv, generalised "
        "cross-validation; kfold, ten folds. All except evidence require Gaussian noise and the exact method.",
        default="evidence",
        choices=("evidence", "loo", "gcv", "kfold"),
        metavar="NAME",
    ),
    Setting(
        "experts",
        "Split the rows across this many experts, each an exact model of its own rows. Every option in this panel "
        "implies --method committee (--scheduler and --workers only for a Parquet table).",
        kind=int,
        minimum=1,
        panel=EXPERTS,
        metavar="N",
        show_default="one for every 1,000 rows",
        noted=False,
    ),
    Setting(
        "rule",
        "How to combine experts: (generalised) robust Bayesian committee machine, Bayesian committee machine, "
        "(generalised) product of experts, or the nearest expert alone.",
        choices=("grbcm", "rbcm", "bcm", "gpoe", "poe", "nearest"),
        panel=EXPERTS,
        metavar="grbcm|rbcm|bcm|gpoe|poe|nearest",
        show_default="grbcm",
        noted=False,
    ),
    Setting(
        "partition",
        "How to split the rows: kmeans (compact parts), kd_tree (boxes, fast for thousands of experts), random, "
        "arrival (in the order of the table), column:NAME.",
        panel=EXPERTS,
        metavar="NAME",
        show_default="kmeans; kd_tree if the rows stay on disk",
        noted=False,
    ),
    Setting(
        "learning",
        "How to train the experts: levels (jointly, on a sample of rows, then on more and more experts), full (the same, "
        "ending with all of them), stochastic (jointly, a few experts per step), independent (each on its own).",
        choices=("levels", "full", "stochastic", "independent"),
        panel=EXPERTS,
        metavar="levels|full|stochastic|independent",
        show_default="levels",
        noted=False,
    ),
    Setting(
        "nearest",
        "Number of nearest experts used for a new row.",
        kind=int,
        minimum=1,
        panel=EXPERTS,
        metavar="N",
        show_default="32",
        noted=False,
    ),
    Setting(
        "folder",
        "Folder for the rows of a Parquet table sorted by expert, if they stay on disk. Every worker must have access "
        "to it, and the model needs it later.",
        panel=EXPERTS,
        metavar="DIR",
        show_default="the model's name with .rows",
        is_path=True,
        noted=False,
    ),
    Setting(
        "kernel",
        "Kernel, such as '2*Matern52() + Periodic(period=fixed(1)).on(0)'; .on() numbers the inputs from 0.",
        metavar="TEXT",
        show_default="Matern52 with one length-scale per input (Gaussian noise: or Matern32 if the evidence prefers it; "
        "classes: plus a constant)",
    ),
    Setting(
        "seasonality",
        "Seasonal terms to add to the default kernel for a date column, such as yearly,weekly.",
        multiple=True,
        metavar="yearly|weekly|daily",
        show_default="none",
    ),
    Setting(
        "restarts",
        "Number of additional starts of the hyperparameter search.",
        kind=int,
        minimum=0,
        maximum=1000,
        metavar="N",
        show_default="2; 0 for classes",
        argument="n_restarts",
    ),
)


@dataclass(frozen=True)
class Chosen:
    """Option values as parsed by the command."""

    likelihood: str
    inference: str
    link: str | None
    method: str
    objective: str
    experts: int | None
    rule: str | None
    partition: str | None
    learning: str | None
    nearest: int | None
    folder: str | None
    kernel: str | None
    seasonality: list[str]
    restarts: int | None

    @classmethod
    def of(cls, given: Mapping[str, Json]) -> Chosen:
        """Return the options in ``given`` with defaults for all others; types are those of :data:`SETTINGS`."""
        values: dict[str, Any] = {setting.name: setting.start for setting in SETTINGS} | dict(given)
        return cls(**{f.name: values[f.name] for f in fields(cls)})


OPTIONS = Options(
    SETTINGS,
    title=LEARNING,
    values={
        ("inference", "Exact"): "--inference exact",
        ("inference", "Laplace"): "--inference laplace",
        ("inference", "EP"): "--inference ep",
        ("inference", "SVGP"): "--method svgp",
        ("gram", "Dense"): "--method exact",
        ("gram", "Markov"): "--method markov",
        ("gram", "Vecchia"): "--method vecchia",
        ("gram", "LowRank"): "--method low_rank",
        ("gram", "Subset"): "--method subset",
        ("method", "Committee"): "--method committee",
        ("objective", "LeaveOneOut"): "--objective loo",
        ("objective", "GeneralisedCrossValidation"): "--objective gcv",
        ("objective", "KFold"): "--objective kfold",
    },
    python=(
        *("basis", "bounds", "class_kernels", "class_weight", "fixed", "gram", "jitter", "local_errors", "loss", "mean"),
        *("multi_class", "noise", "priors", "schedule", "select", "standardise"),
    ),
    remedies={
        "regression": "use --likelihood gaussian",
        "in the kernel": "in --kernel",
        "noise kernel": "noise is learned from the data; leave it out, or give the known one with --noise-column",
    },
    sources={
        "SVGP.train": "--checkpoint",
        "Committee": "--experts",
        "inference.Laplace": "--inference laplace",
        "inference.EP": "--inference ep",
        "inference.SVGP": "--method svgp",
        "gram.Markov": "--method markov",
        "gram.Vecchia": "--method vecchia",
        "gram.LowRank": "--method low_rank",
        "gram.Subset": "--method subset",
        "selection.LeaveOneOut": "--objective loo",
        "LeaveOneOut": "--objective loo",
        "KFold": "--objective kfold",
    },
    data=("GPRegressor", "GPClassifier"),
)
