"""Rules that combine the predictions of experts trained on parts of the rows (W 71 to 73; R&W, section 8.3.5).

Every rule is a product of powers of the experts' Gaussians, divided by a power of a density that all of them contain (the
prior, or the prediction of a common expert):

.. math:: p(f_*\\mid D) \\propto \\prod_k p_k^{\\beta_k}(f_*) \\Big/ p_0^{\\,\\sum_k\\beta_k - 1}(f_*)

so that precisions and precision-weighted means are sums over experts. Partial sums (:class:`Sums`) are added in any order, and
converted to a mean and a variance at the end. Any tree of experts therefore predicts the same as a flat committee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from covary._checks import fail
from covary._errors import Option
from covary._module import Module, static
from covary._words import counted
from covary.prediction import Spread

LEAST = 1e-12  # minimum variance of an expert, as a fraction of the variance of its start
NOTHING = 1e-200  # minimum variance of a start, where the prior is certain (a line at zero, a row without noise)


@dataclass(frozen=True)
class Sums:
    """Partial sums of the predictions of some experts: every field is a sum over experts, so that two records can be added.

    With :math:`\\beta` the weight, :math:`\\Lambda` the precision and :math:`\\mu` the mean of an expert, and index 0 for its
    start (the prior, or the prediction of the common expert): ``precision`` is :math:`\\sum\\beta\\Lambda`, ``shift``
    :math:`\\sum\\beta\\Lambda\\mu`, ``weight``
    :math:`\\sum\\beta`, ``base`` and ``base_shift`` the sums of :math:`\\Lambda_0` and :math:`\\Lambda_0\\mu_0`, ``taken`` and
    ``taken_shift`` those of :math:`\\beta\\Lambda_0` and :math:`\\beta\\Lambda_0\\mu_0`, ``experts`` their number. All
    fields are per row, since an expert need not predict every row.
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
        """Return the sums for ``count`` rows, with the given values at ``rows`` and zero elsewhere."""
        return Sums(*(_among(getattr(self, name), rows, count) for name in self.__dataclass_fields__))


def _among(values: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    out = np.zeros((count, *values.shape[1:]))
    out[rows] = values
    return out


def opinion(expert: Spread, start: Spread, weight: np.ndarray) -> Sums:
    """Return the contribution of one expert to the sums, given its weight per row."""
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
    """Reshape weights per row for multiplication with an array that has more axes."""
    return weight.reshape(len(weight), *(1,) * (like.ndim - 1))


def _raised(variance: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Raise variances to a minimum; for matrices, those on the diagonal."""
    if variance.ndim == 1:
        return np.maximum(variance, least)
    wanting = np.maximum(least - np.einsum("mii->mi", variance), 0.0)
    return variance + wanting[:, :, None] * np.eye(variance.shape[-1])


def _below_zero(gained: np.ndarray) -> np.ndarray:
    """Return the negative part of numbers or of symmetric matrices."""
    if gained.ndim == 1:
        return np.minimum(gained, 0.0)
    values, vectors = np.linalg.eigh((gained + gained.transpose(0, 2, 1)) / 2)
    return (vectors * np.minimum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)


def for_outputs(mean: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Broadcast a mean per row to the outputs of ``like``, if it has several."""
    return mean if mean.ndim == like.ndim else np.broadcast_to(mean[:, None], like.shape)


def _log_det(variance: np.ndarray) -> np.ndarray:
    """Return the log variance per latent function; for a matrix, the log determinant divided by its order."""
    return np.linalg.slogdet(variance)[1] / variance.shape[-1] if variance.ndim == 3 else np.log(variance)


def entropy_drop(expert: Spread, start: Spread) -> np.ndarray:
    r"""Return the entropy reduction of an expert, :math:`\tfrac12(\log\sigma_0^2 - \log\sigma_k^2)` (W, eq. 1.58).

    This is the difference of the differential entropies of its start and its prediction. For several latent functions it is
    averaged over functions, so that a joint committee has the same weights as separate ones. It is clipped at zero, since
    data do not increase the variance of a Gaussian process.
    """
    return np.maximum(0.5 * (_log_det(start.variance) - _log_det(expert.variance)), 0.0)


class AbstractRule(Module):
    """Rule that combines experts: the weight of each expert, and the correction for what they share.

    ``corrected``: the density that the experts share is counted once. ``common``: all experts have the rows of a common
    expert, and start from its prediction instead of the prior. ``local``: every new input is predicted by a single expert.
    """

    corrected: ClassVar[bool] = False
    common: ClassVar[bool] = False
    local: ClassVar[bool] = False

    def weight(self, expert: Spread, start: Spread, first: np.ndarray | bool) -> np.ndarray:
        """Return the weight of an expert per row; ``first`` marks the rows where it is the first after the common expert."""
        return np.ones(len(expert.mean))

    def opinion(self, expert: Spread, start: Spread, first: np.ndarray | bool = False) -> Sums:
        """Return the contribution of one expert to the sums, given its start (the prior or the common prediction)."""
        variance = np.asarray(start.variance, np.float64)
        before = variance if variance.ndim == 1 else np.einsum("mii->mi", variance)
        least = np.maximum(before, NOTHING)
        start = Spread(for_outputs(start.mean, expert.mean), _raised(variance, least))
        expert = Spread(expert.mean, _raised(np.asarray(expert.variance, np.float64), LEAST * least))
        return opinion(expert, start, self.weight(expert, start, first))

    def verdict(self, sums: Sums) -> Spread:
        """Return mean and variance of the latent function from the sums over all experts."""
        precision, shift = self.total(sums)
        variance = _inverse(precision)
        return Spread(_times(variance, shift), variance)

    def total(self, sums: Sums) -> tuple[np.ndarray, np.ndarray]:
        r"""Return the combined precision and precision-weighted mean (W, eqs. 1.56, 1.57; algorithm 2).

        Experts with a smaller precision than their start (Laplace's method near outliers, or with several shared rows)
        subtract :math:`\sum_k\beta_k(\Lambda_0-\Lambda_k)`, and the result may be negative if there are many. Where this sum
        is positive, its average is subtracted instead, so that at least the average precision of the experts remains.
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
    r"""Product of experts: :math:`\sigma_*^{-2} = \sum_k\sigma_k^{-2}`. Far from data, its variance is the prior variance / M.

    Examples
    --------
    >>> said = [Spread(np.array([m]), np.array([v])) for m, v in ((1.0, 0.5), (2.0, 0.2), (0.0, 0.9))]
    >>> prior = Spread(np.zeros(1), np.ones(1))
    >>> combine(PoE(), said, prior).variance.round(6)
    array([0.123288])
    """


class GPoE(AbstractRule):
    r"""Generalised product of experts: the weights sum to one, so that the prediction far from data is the prior.

    .. math:: \sigma_*^{-2} = \sum_k\beta_k\sigma_k^{-2},\qquad \sum_k\beta_k = 1

    Parameters
    ----------
    weights
        ``"equal"``: 1/M each, which is conservative; ``"entropy"``: proportional to the entropy reduction of each expert.
    """

    weights: str = static("equal")

    def weight(self, expert: Spread, start: Spread, first: np.ndarray | bool) -> np.ndarray:
        return np.ones(len(expert.mean)) if self.weights == "equal" else entropy_drop(expert, start)

    def total(self, sums: Sums) -> tuple[np.ndarray, np.ndarray]:
        if self.weights == "equal":
            return sums.precision / _by(sums.experts, sums.precision), sums.shift / _by(sums.experts, sums.shift)
        known = sums.weight > 1e-9  # where no expert reduces the entropy, all predict their start
        share = np.where(known, 1 / np.where(known, sums.weight, 1.0), 0.0)
        other = np.where(known, 0.0, 1 / sums.experts)
        return (
            _by(share, sums.precision) * sums.precision + _by(other, sums.base) * sums.base,
            _by(share, sums.shift) * sums.shift + _by(other, sums.base_shift) * sums.base_shift,
        )


class BCM(AbstractRule):
    r"""Bayesian committee machine: :math:`\sigma_*^{-2} = \sum_k\sigma_k^{-2} + (1-M)\sigma_{**}^{-2}` (R&W, eqs. 8.29, 8.30).

    Exact if the experts' data are independent given f(x*). Every expert has weight one, even far from its data.
    """

    corrected: ClassVar[bool] = True


class RBCM(AbstractRule):
    r"""Robust Bayesian committee machine: experts are weighted by their entropy reduction (W, eqs. 1.55 to 1.58).

    .. math:: \sigma_*^{-2} = \sum_k\beta_k\sigma_k^{-2} + \Bigl(1-\sum_k\beta_k\Bigr)\sigma_{**}^{-2},\qquad
        \beta_k = \tfrac12\bigl(\log\sigma_{**}^2 - \log\sigma_k^2\bigr)

    A committee of one expert does *not* return its prediction (:math:`\beta_1\ne1`, unless its variance is the prior variance
    divided by e²): the variance is smaller near its data and larger far from them. Where data are dense the weights exceed
    one, and the error bars are too narrow.
    """

    corrected: ClassVar[bool] = True

    def weight(self, expert: Spread, start: Spread, first: np.ndarray | bool) -> np.ndarray:
        return entropy_drop(expert, start)


class GRBCM(AbstractRule):
    r"""Generalised robust Bayesian committee machine: every expert also has the rows of a common expert c, and starts from
    its prediction.

    .. math:: \sigma_*^{-2} = \sum_{k}\beta_k\sigma_{+k}^{-2} + \Bigl(1-\sum_k\beta_k\Bigr)\sigma_c^{-2},\qquad
        \beta_1 = 1,\quad \beta_k = \tfrac12\bigl(\log\sigma_c^2 - \log\sigma_{+k}^2\bigr)

    Any expert can be the first; :class:`covary.committee.Committee` uses the one nearest to the new input. Exact for one and
    for two experts. This is the only rule here that converges to the exact posterior as rows are added.

    References
    ----------
    Liu, Cai, Wang & Ong (2018), Generalized robust Bayesian committee machine for large-scale Gaussian process regression,
    eqs. 11 to 14.
    """

    corrected: ClassVar[bool] = True
    common: ClassVar[bool] = True

    def weight(self, expert: Spread, start: Spread, first: np.ndarray | bool) -> np.ndarray:
        return np.where(first, 1.0, entropy_drop(expert, start))


class Nearest(AbstractRule):
    """Prediction by the expert in whose part a new input lies: cheap, but discontinuous at the boundaries of parts."""

    local: ClassVar[bool] = True


RULES: dict[str, type[AbstractRule]] = {"poe": PoE, "gpoe": GPoE, "bcm": BCM, "rbcm": RBCM, "grbcm": GRBCM, "nearest": Nearest}


def as_rule(value: AbstractRule | str, who: str = "Committee") -> AbstractRule:
    """Return a rule, given as a rule or by its name."""
    if isinstance(value, GPoE) and value.weights not in ("equal", "entropy"):
        raise fail(who, f"the weights of GPoE are {value.weights!r}", "choose 'equal' or 'entropy'")
    if isinstance(value, AbstractRule):
        return value
    if not isinstance(value, str) or value not in RULES:
        raise fail(who, Option("rule") + f" is {value!r}", f"choose one of {', '.join(map(repr, RULES))}, or give a rule")
    return RULES[value]()


def combine(rule: AbstractRule | str, said: list[Spread], start: Spread | list[Spread]) -> Spread:
    """Combine the predictions of experts at the same inputs.

    Parameters
    ----------
    rule
        A rule, or its name.
    said
        Mean and variance of every expert: (m,), or (m, L) and (m, L, L) for L latent functions.
    start
        Prior mean and variance, either one for all experts or one per expert. With independent hyperparameters, the precision
        of the prior is averaged over experts (W, algorithm 2). Under GRBCM, the prediction of the common expert.

    Examples
    --------
    >>> said = [Spread(np.array([m]), np.array([v])) for m, v in ((1.0, 0.5), (2.0, 0.2), (0.0, 0.9))]
    >>> found = combine("rbcm", said, Spread(np.zeros(1), np.ones(1)))
    >>> found.mean.round(6), found.variance.round(6)
    (array([1.912001]), array([0.218756]))
    """
    rule = as_rule(rule, "combine")
    if rule.local:
        raise fail("combine", "the rule 'nearest' needs the positions of the experts", "use a Committee with that rule")
    if not said:
        raise fail("combine", "said is empty", "give the predictions of at least one expert")
    starts = start if isinstance(start, list) else [start] * len(said)
    if len(starts) != len(said):
        what = f"start has {counted(len(starts), 'entry', 'entries')} for {counted(len(said), 'expert')}"
        raise fail("combine", what, "give one for all experts, or one per expert", argument="start")
    sums = rule.opinion(said[0], starts[0], True)
    for k in range(1, len(said)):
        sums = sums + rule.opinion(said[k], starts[k])
    return rule.verdict(sums)


def joint_bcm(means: np.ndarray, covariances: np.ndarray, prior_mean: np.ndarray, prior: np.ndarray) -> Spread:
    r"""Combine the joint predictions of experts for a block of test inputs (R&W, eqs. 8.29, 8.30).

    .. math:: [\mathrm{cov}]^{-1} = -(M-1)K_{**}^{-1} + \sum_k[\mathrm{cov}_k]^{-1},\qquad
        E = \mathrm{cov}\sum_k[\mathrm{cov}_k]^{-1}E_k

    The result is more accurate than the combination for single inputs, since the correlation of the inputs in a block transfers
    information between experts. It therefore depends on which inputs are predicted together. The prior mean is subtracted first
    and added at the end.

    Parameters
    ----------
    means, covariances
        Predictions of the experts for the block: (M, m) and (M, m, m).
    prior_mean, prior
        Prior mean (m,) and covariance (m, m) of the block.
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
