"""How experts that each saw some of the rows speak with one voice (W 71 to 73; R&W, section 8.3.5).

Every rule is a product of the experts' Gaussians, each to a power, over a power of something all of them already contain
(the prior, or what a common expert says):

.. math:: p(f_*\\mid D) \\propto \\prod_k p_k^{\\beta_k}(f_*) \\Big/ p_0^{\\,\\sum_k\\beta_k - 1}(f_*)

so that precisions and precision-weighted means add up. Sums are what experts, and experts of experts, pass on
(:class:`Sums`); only the last one turns them into a mean and a variance. Any tree of experts then says the same as a flat
committee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from covary._checks import fail
from covary._module import Module, static
from covary._words import counted
from covary.prediction import Spread

LEAST = 1e-12  # of the variance before: what an expert that is certain is taken for
NOTHING = 1e-200  # the variance of what was known from the start (a line at zero, a row without noise)


@dataclass(frozen=True)
class Sums:
    """What some experts say together, before anybody divides: every field is a sum over them, so two of them add.

    With :math:`\\beta` the weight, :math:`\\Lambda` the precision and :math:`\\mu` the mean of an expert, and index 0 for
    what it started from: ``precision`` is :math:`\\sum\\beta\\Lambda`, ``shift`` :math:`\\sum\\beta\\Lambda\\mu`, ``weight``
    :math:`\\sum\\beta`, ``base`` and ``base_shift`` the sums of :math:`\\Lambda_0` and :math:`\\Lambda_0\\mu_0`, ``taken`` and
    ``taken_shift`` those of :math:`\\beta\\Lambda_0` and :math:`\\beta\\Lambda_0\\mu_0`, ``experts`` how many there are. All
    of them are per row, since not every expert need be asked about every row.
    """

    precision: np.ndarray
    shift: np.ndarray
    weight: np.ndarray
    base: np.ndarray
    base_shift: np.ndarray
    taken: np.ndarray
    taken_shift: np.ndarray
    experts: np.ndarray

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def among(self, rows: np.ndarray, count: int) -> Sums:
        """The same for so many rows, of which these are some and nothing is said of the others."""
        return Sums(*(_among(getattr(self, name), rows, count) for name in self.__dataclass_fields__))


def _among(values: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    out = np.zeros((count, *values.shape[1:]))
    out[rows] = values
    return out


def opinion(expert: Spread, start: Spread, weight: np.ndarray) -> Sums:
    """What one expert adds, with its weight per row."""
    precision, base = _inverse(expert.variance), _inverse(start.variance)
    shift, base_shift = _times(precision, expert.mean), _times(base, start.mean)
    many, wide = _by(weight, base), _by(weight, shift)
    one = np.ones(len(weight))
    return Sums(many * precision, wide * shift, weight, base, base_shift, many * base, wide * base_shift, one)


def _inverse(variance: np.ndarray) -> np.ndarray:
    return np.linalg.inv(variance) if variance.ndim == 3 else 1 / variance


def _times(precision: np.ndarray, mean: np.ndarray) -> np.ndarray:
    return np.einsum("mij,mj->mi", precision, mean) if precision.ndim == 3 else _by(precision, mean) * mean


def _by(weight: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Weights per row, shaped to multiply something with more axes."""
    return weight.reshape(len(weight), *(1,) * (like.ndim - 1))


def _raised(variance: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Variances no smaller than some; of a matrix those on its diagonal."""
    if variance.ndim == 1:
        return np.maximum(variance, least)
    wanting = np.maximum(least - np.einsum("mii->mi", variance), 0.0)
    return variance + wanting[:, :, None] * np.eye(variance.shape[-1])


def _below_zero(gained: np.ndarray) -> np.ndarray:
    """The negative part of numbers, or of symmetric matrices."""
    if gained.ndim == 1:
        return np.minimum(gained, 0.0)
    values, vectors = np.linalg.eigh((gained + gained.transpose(0, 2, 1)) / 2)
    return (vectors * np.minimum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)


def for_outputs(mean: np.ndarray, like: np.ndarray) -> np.ndarray:
    """A mean per row, for each of several outputs where ``like`` has them."""
    return mean if mean.ndim == like.ndim else np.broadcast_to(mean[:, None], like.shape)


def _log_det(variance: np.ndarray) -> np.ndarray:
    """The log variance per latent function: of a matrix, the log determinant over its order."""
    return np.linalg.slogdet(variance)[1] / variance.shape[-1] if variance.ndim == 3 else np.log(variance)


def entropy_drop(expert: Spread, start: Spread) -> np.ndarray:
    r"""How much surer an expert is than what it started from: :math:`\tfrac12(\log\sigma_0^2 - \log\sigma_k^2)` (W, eq. 1.58).

    The difference of the differential entropies; for several latent functions per function, so that a committee on them all
    weighs as one on each would. Never below zero: data do not make a Gaussian process less sure.
    """
    return np.maximum(0.5 * (_log_det(start.variance) - _log_det(expert.variance)), 0.0)


class AbstractRule(Module):
    """A rule of combination: how much each expert weighs, and what is divided by.

    ``corrected``: what the experts share is counted once. ``common``: they share the rows of one expert, and start from what
    it says instead of from the prior. ``local``: every new input is left to one expert.
    """

    corrected: ClassVar[bool] = False
    common: ClassVar[bool] = False
    local: ClassVar[bool] = False

    def weight(self, expert: Spread, start: Spread, first: Any) -> np.ndarray:
        """How much an expert weighs, per row; ``first``: whether it is the first one after the common one there."""
        return np.ones(len(expert.mean))

    def opinion(self, expert: Spread, start: Spread, first: Any = False) -> Sums:
        """What one expert adds to the sums, given what it started from."""
        variance = np.asarray(start.variance, np.float64)
        before = variance if variance.ndim == 1 else np.einsum("mii->mi", variance)
        least = np.maximum(before, NOTHING)
        start = Spread(for_outputs(start.mean, expert.mean), _raised(variance, least))
        expert = Spread(expert.mean, _raised(np.asarray(expert.variance, np.float64), LEAST * least))
        return opinion(expert, start, self.weight(expert, start, first))

    def verdict(self, sums: Sums) -> Spread:
        """Mean and variance of the latent function, from the sums over all experts."""
        precision, shift = self.total(sums)
        variance = _inverse(precision)
        return Spread(_times(variance, shift), variance)

    def total(self, sums: Sums) -> tuple[np.ndarray, np.ndarray]:
        r"""The precision and the precision-weighted mean of all together (W, eqs. 1.56, 1.57; algorithm 2).

        Experts that are less sure than what they started from (Laplace's method amid outliers, or where several rows are
        shared) would take :math:`\sum_k\beta_k(\Lambda_0-\Lambda_k)` off, and with many of them leave less than nothing. Where
        that sum is not positive its average is taken off instead, which leaves at least the experts' average precision.
        """
        if not self.corrected:
            return sums.precision, sums.shift
        base, start = sums.base / _by(sums.experts, sums.base), sums.base_shift / _by(sums.experts, sums.base_shift)
        precision, shift = sums.precision + (base - sums.taken), sums.shift + (start - sums.taken_shift)
        lost = _below_zero(sums.precision - sums.taken)
        if not lost.any():
            return precision, shift
        back = _by(1 / np.maximum(sums.weight, 1.0) - 1, lost) * lost
        return precision + back, shift + _times(back, _times(_inverse(sums.base), sums.base_shift))


class PoE(AbstractRule):
    r"""Product of experts: :math:`\sigma_*^{-2} = \sum_k\sigma_k^{-2}`. Far from data its variance is the prior's over M.

    Examples
    --------
    >>> said = [Spread(np.array([m]), np.array([v])) for m, v in ((1.0, 0.5), (2.0, 0.2), (0.0, 0.9))]
    >>> prior = Spread(np.zeros(1), np.ones(1))
    >>> combine(PoE(), said, prior).variance.round(6)
    array([0.123288])
    """


class GPoE(AbstractRule):
    r"""Generalised product of experts: weights that sum to one, so that far from data the prior is found again.

    .. math:: \sigma_*^{-2} = \sum_k\beta_k\sigma_k^{-2},\qquad \sum_k\beta_k = 1

    Parameters
    ----------
    weights
        ``"equal"``: 1/M each, cautious; ``"entropy"``: in proportion to how much each expert has learned at that place.
    """

    weights: str = static("equal")

    def weight(self, expert: Spread, start: Spread, first: Any) -> np.ndarray:
        return np.ones(len(expert.mean)) if self.weights == "equal" else entropy_drop(expert, start)

    def total(self, sums: Sums) -> tuple[np.ndarray, np.ndarray]:
        if self.weights == "equal":
            return sums.precision / _by(sums.experts, sums.precision), sums.shift / _by(sums.experts, sums.shift)
        known = sums.weight > 1e-9  # where nobody knows anything, all say what they started from
        share = np.where(known, 1 / np.where(known, sums.weight, 1.0), 0.0)
        other = np.where(known, 0.0, 1 / sums.experts)
        return (
            _by(share, sums.precision) * sums.precision + _by(other, sums.base) * sums.base,
            _by(share, sums.shift) * sums.shift + _by(other, sums.base_shift) * sums.base_shift,
        )


class BCM(AbstractRule):
    r"""Bayesian committee machine: :math:`\sigma_*^{-2} = \sum_k\sigma_k^{-2} + (1-M)\sigma_{**}^{-2}` (R&W, eqs. 8.29, 8.30).

    Right where the experts' data are independent given f(x*). Every expert counts in full, however little it knows.
    """

    corrected: ClassVar[bool] = True


class RBCM(AbstractRule):
    r"""Robust Bayesian committee machine: experts weigh as much as they have learned (W, eqs. 1.55 to 1.58).

    .. math:: \sigma_*^{-2} = \sum_k\beta_k\sigma_k^{-2} + \Bigl(1-\sum_k\beta_k\Bigr)\sigma_{**}^{-2},\qquad
        \beta_k = \tfrac12\bigl(\log\sigma_{**}^2 - \log\sigma_k^2\bigr)

    One expert alone is *not* what it says by itself (:math:`\beta_1\ne1`, unless its variance is the prior's over e²): surer
    where it knows much, less sure where it knows little. Amid many data the weights pass one, and the error bars are too
    narrow.
    """

    corrected: ClassVar[bool] = True

    def weight(self, expert: Spread, start: Spread, first: Any) -> np.ndarray:
        return entropy_drop(expert, start)


class GRBCM(AbstractRule):
    r"""Generalised robust committee machine: every expert also sees the rows of a common one, c, and starts from what it says.

    .. math:: \sigma_*^{-2} = \sum_{k}\beta_k\sigma_{+k}^{-2} + \Bigl(1-\sum_k\beta_k\Bigr)\sigma_c^{-2},\qquad
        \beta_1 = 1,\quad \beta_k = \tfrac12\bigl(\log\sigma_c^2 - \log\sigma_{+k}^2\bigr)

    Which expert is the first is free; a :class:`covary.committee.Committee` takes the one nearest to the new input. Exact for
    one expert and for two; the only rule here that comes to the exact posterior as rows are added.

    References
    ----------
    Liu, Cai, Wang & Ong (2018), Generalized robust Bayesian committee machine for large-scale Gaussian process regression,
    eqs. 11 to 14.
    """

    corrected: ClassVar[bool] = True
    common: ClassVar[bool] = True

    def weight(self, expert: Spread, start: Spread, first: Any) -> np.ndarray:
        return np.where(first, 1.0, entropy_drop(expert, start))


class Nearest(AbstractRule):
    """Every new input is left to the expert in whose part of the inputs it lies: cheap, and jumps where parts meet."""

    local: ClassVar[bool] = True


RULES: dict[str, Any] = {"poe": PoE, "gpoe": GPoE, "bcm": BCM, "rbcm": RBCM, "grbcm": GRBCM, "nearest": Nearest}


def as_rule(value: Any, who: str = "Committee") -> AbstractRule:
    """A rule, or the rule of that name."""
    if isinstance(value, GPoE) and value.weights not in ("equal", "entropy"):
        raise fail(who, f"the weights of GPoE are {value.weights!r}", "choose 'equal' or 'entropy'")
    if isinstance(value, AbstractRule):
        return value
    if not isinstance(value, str) or value not in RULES:
        raise fail(who, f"rule is {value!r}", f"choose one of {', '.join(map(repr, RULES))}, or give a rule")
    return RULES[value]()


def combine(rule: AbstractRule | str, said: list[Spread], start: Spread | list[Spread]) -> Spread:
    """What experts say together, from what each says of the latent function at the same inputs.

    Parameters
    ----------
    rule
        How: a rule, or its name.
    said
        Mean and variance of every expert: (m,), or (m, L) and (m, L, L) for L latent functions.
    start
        What they started from: the prior's mean and variance, one for all or one each (independent experts; the precision of
        the prior is then averaged over them, W algorithm 2); under GRBCM what the common expert says.

    Examples
    --------
    >>> said = [Spread(np.array([m]), np.array([v])) for m, v in ((1.0, 0.5), (2.0, 0.2), (0.0, 0.9))]
    >>> found = combine("rbcm", said, Spread(np.zeros(1), np.ones(1)))
    >>> found.mean.round(6), found.variance.round(6)
    (array([1.912001]), array([0.218756]))
    """
    rule = as_rule(rule, "combine")
    if rule.local:
        raise fail("combine", "the rule 'nearest' needs to know where the experts are", "use a Committee with that rule")
    if not said:
        raise fail("combine", "said is empty", "give what at least one expert says")
    starts = start if isinstance(start, list) else [start] * len(said)
    if len(starts) != len(said):
        raise fail(
            "combine",
            f"start has {counted(len(starts), 'entry', 'entries')} for {counted(len(said), 'expert')}",
            "give one, or one each",
        )
    sums = rule.opinion(said[0], starts[0], True)
    for k in range(1, len(said)):
        sums = sums + rule.opinion(said[k], starts[k])
    return rule.verdict(sums)


def joint_bcm(means: np.ndarray, covariances: np.ndarray, prior_mean: np.ndarray, prior: np.ndarray) -> Spread:
    r"""The committee machine on a block of test inputs at once (R&W, eqs. 8.29, 8.30).

    .. math:: [\mathrm{cov}]^{-1} = -(M-1)K_{**}^{-1} + \sum_k[\mathrm{cov}_k]^{-1},\qquad
        E = \mathrm{cov}\sum_k[\mathrm{cov}_k]^{-1}E_k

    Sharper than input by input, since the inputs of the block carry what one expert knows to another; so the answer depends on
    which inputs are asked for together. A prior mean is taken off before and added after.

    Parameters
    ----------
    means, covariances
        What every expert says of the block: (M, m) and (M, m, m).
    prior_mean, prior
        The prior's mean (m,) and covariance (m, m) there.
    """
    M, m = means.shape
    scale = np.sqrt(np.maximum(np.diagonal(prior), NOTHING))
    floor = LEAST * np.eye(m)
    P0 = np.linalg.inv(prior / np.outer(scale, scale) + floor)
    gained, shift = -M * P0, np.zeros(m)
    for mean, covariance in zip(means, covariances, strict=True):
        P = np.linalg.inv(covariance / np.outer(scale, scale) + floor)
        gained, shift = gained + P, shift + P @ ((mean - prior_mean) / scale)
    precision = P0 + gained + (1 / M - 1) * _below_zero(gained[None])[0]  # as in AbstractRule.total
    joint = np.linalg.inv((precision + precision.T) / 2)
    joint = (joint + joint.T) / 2 * np.outer(scale, scale)
    found = prior_mean + joint @ (shift / scale)
    return Spread(found, np.maximum(np.diagonal(joint), 0.0), joint)
