"""Classification by Laplace and expectation propagation compared with numbers computed independently.

W&B is Williams & Barber (1998), R&W Rasmussen & Williams (2006). The worked examples are computed from their formulas with
dense inverses, and exact values by quadrature, which is repeated here if it is fast enough.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, linalg, special, stats

from covary import GP, Data, Model, condition, learn, log_evidence, log_evidence_and_grad
from covary.inference import EP, Laplace
from covary.kernels import SquaredExponential
from covary.likelihoods import Bernoulli, Softmax, averages
from covary.likelihoods.averages import average_logistic
from covary.parameters import parameters

PRIOR = GP("2.0 * SquaredExponential(lengthscale=1.0) + 0.5 * Constant()")  # W&B, eq. 4: v0 = 2, v1 = 1/2, w = 1
BINARY = Model(PRIOR, likelihood=Bernoulli("logit"))
X2 = np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
DATA2 = Data(X2, [0, 0, 1, 1, 1])
NEW = np.array([[0.5], [-0.4], [4.0]])
MANY = Model(PRIOR, likelihood=Softmax(3))
X3 = np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0], [3.0]])
DATA3 = Data(X3, [0, 0, 1, 1, 2, 2])
EIGHT = {"rtol": 0.0, "atol": 6e-9}  # numbers known to eight decimals


def log_slopes(gradient: Model, where: str = "kernel") -> np.ndarray:
    """Derivatives over (log v0, log v1, log w) of W&B's kernel, where w = 1/ℓ²."""
    slope = {path: float(p.value) for path, p in parameters(gradient).items()}
    first, second, third = (slope[f"{where}.{name}"] for name in ("0.variance", "1.variance", "0.lengthscale"))
    return np.array([2.0 * first, 0.5 * second, -0.5 * third])


# two classes: five rows ------------------------------------------------------------------------------------------


def test_binary_mode_and_evidence() -> None:
    """W&B, eqs. 8, 9, 16 to 19 on five rows."""
    post = condition(BINARY, DATA2, inference=Laplace())
    mode = [-0.85679871, -0.52125541, 0.61425862, 1.19931948, 0.99725478]
    np.testing.assert_allclose(post.predict(X2).f.mean, mode, **EIGHT)
    np.testing.assert_allclose(BINARY.kernel.gram(X2) @ post.alpha, mode, **EIGHT)
    np.testing.assert_allclose(post.alpha, (DATA2.y > 0) - special.expit(mode), atol=1e-8)
    assert post.log_evidence == pytest.approx(-3.36469875, abs=6e-9)
    assert log_evidence(BINARY, DATA2, inference=Laplace()) == pytest.approx(post.log_evidence, abs=1e-12)


def test_binary_gradient() -> None:
    """W&B, eqs. 20 and 21 on five rows; no part of it is small."""
    value, gradient = log_evidence_and_grad(BINARY, DATA2, inference=Laplace())
    assert value == pytest.approx(-3.36469875, abs=6e-9)
    np.testing.assert_allclose(log_slopes(gradient), [0.14836830, -0.09716309, -0.10290838], **EIGHT)


def test_binary_latent_predictions() -> None:
    """W&B, appendix A: mean k*ᵀ(t − π), variance k** − k*ᵀ(K + W⁻¹)⁻¹k*; the plug-in probability is σ of the mean."""
    f = condition(BINARY, DATA2, inference=Laplace()).predict(NEW).f
    np.testing.assert_allclose(f.mean, [1.02611851, 0.15499668, 0.16911850], **EIGHT)
    np.testing.assert_allclose(f.variance, [1.29546195, 1.23495028, 2.35436920], **EIGHT)
    np.testing.assert_allclose(special.expit(f.mean), [0.73616270, 0.53867178, 0.54217914], **EIGHT)


def test_binary_averaged_probabilities() -> None:
    """R&W, eq. 3.25: the mean of σ(f*), as an integral in one dimension."""
    y = condition(BINARY, DATA2, inference=Laplace()).predict(NEW).y
    np.testing.assert_allclose(y.mean, [0.69393499, 0.53091909, 0.52953677], rtol=0.0, atol=1e-6)


@cache
def exact_binary() -> tuple[float, np.ndarray]:
    """Evidence and predictions on five rows with no approximation but 14⁵ Gauss–Hermite points."""
    z, w = np.polynomial.hermite_e.hermegauss(14)
    w = w / w.sum()
    L = np.linalg.cholesky(BINARY.kernel.gram(X2))
    grid = np.stack(np.meshgrid(*[z] * 5, indexing="ij"), axis=-1).reshape(-1, 5)
    weight = np.prod(np.stack(np.meshgrid(*[w] * 5, indexing="ij"), axis=-1).reshape(-1, 5), axis=1)
    f = grid @ L.T
    weight = weight * np.prod(special.expit(np.where(DATA2.y > 0, f, -f)), axis=1)
    V = linalg.solve_triangular(L, BINARY.kernel.cross(X2, NEW), lower=True)
    spread = np.sqrt(2.5 - (V**2).sum(0))
    nodes = list(zip(z, w, strict=True))
    ours = [weight @ sum(b * special.expit(grid @ V[:, j] + a * spread[j]) for a, b in nodes) for j in range(3)]
    return float(np.log(weight.sum())), np.array(ours) / weight.sum()


def test_binary_laplace_underestimates_evidence_and_confidence() -> None:
    """The exact values by Gauss–Hermite quadrature (24⁵ points beforehand, fewer here)."""
    evidence, probability = exact_binary()
    assert evidence == pytest.approx(-3.29415071, abs=1e-5)
    np.testing.assert_allclose(probability, [0.70819322, 0.53469672, 0.53332219], atol=1e-5)
    post = condition(BINARY, DATA2, inference=Laplace())
    assert post.log_evidence - evidence == pytest.approx(-0.07054804, abs=1e-5)
    assert np.all(post.predict(NEW).y.mean > 0.5)
    assert np.all(post.predict(NEW).y.mean < probability)


# the averaged logistic function ----------------------------------------------------------------------------------


@cache
def five_errors() -> tuple[np.ndarray, np.ndarray]:
    """W&B's σ(x) ≈ ½ + ½ Σ c erf(λx), interpolating at 0, 0.6, 2, 3.5, 4.5 and ∞."""
    scales = np.array([0.41, 0.4, 0.37, 0.44, 0.39])
    at = np.array([0.6, 2.0, 3.5, 4.5])
    system = np.vstack([special.erf(np.outer(at, scales)), np.ones(5)])
    return scales, np.linalg.solve(system, np.append(2 * special.expit(at) - 1, 1.0))


def averaged_by_five_errors(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    scales, weights = five_errors()
    inner = special.erf(np.multiply.outer(mean, scales) / np.sqrt(1 + 2 * np.multiply.outer(variance, scales**2)))
    return 0.5 + 0.5 * inner @ weights


GAUSSIANS = [  # mean, variance, five error functions, exact, MacKay
    (0.5, 1.0, 0.602051582, 0.602027133, 0.604364298),
    (1.0, 4.0, 0.647712981, 0.647726439, 0.651056462),
    (2.0, 10.0, 0.709671327, 0.709713173, 0.711161066),
    (-3.0, 2.0, 0.091420098, 0.091358990, 0.095764899),
]


def test_averaged_logistic_function() -> None:
    """R&W, eq. 3.25: E σ(f) for f Gaussian, against adaptive quadrature."""
    mean, variance, _, exact, _ = np.array(GAUSSIANS).T
    np.testing.assert_allclose(Bernoulli("logit").predictive(mean, variance).mean, exact, rtol=0.0, atol=1e-6)


def test_published_approximations_of_the_averaged_logistic_function() -> None:
    """W&B's five error functions and MacKay's formula (R&W, section 3.4.2) leave the errors they are known to leave."""
    mean, variance, five, exact, mackay = np.array(GAUSSIANS).T
    np.testing.assert_allclose(averaged_by_five_errors(mean, variance), five, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(average_logistic(mean, variance, "erf5"), five, rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(average_logistic(mean, variance, "mackay"), mackay, rtol=0.0, atol=1e-9)
    got = Bernoulli("logit").predictive(mean, variance).mean
    assert np.abs(got - five).max() < 5e-3
    assert np.abs(got - mackay).max() < 5e-3
    assert np.abs(exact - five).max() < 1e-4 < np.abs(exact - mackay).max()


def test_five_error_functions() -> None:
    """W&B, footnote 6: coefficients, interpolation, symmetry, largest error (4.3e-4, not 1e-4), and the five-row example."""
    scales, weights = averages.five_errors()
    np.testing.assert_array_equal(scales, five_errors()[0])
    np.testing.assert_allclose(weights, five_errors()[1], rtol=1e-9)
    np.testing.assert_allclose(weights, [-1854.82141526, 3516.89893678, 221.29346714, 128.12323806, -2010.49422673], rtol=1e-7)
    at = np.array([0.0, 0.6, 2.0, 3.5, 4.5, 1e9])
    np.testing.assert_allclose(average_logistic(at, np.zeros(6), "erf5"), special.expit(at), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(average_logistic(-at, at**2, "erf5"), 1 - average_logistic(at, at**2, "erf5"), atol=1e-12)
    x = np.linspace(-12, 12, 4801)
    error = average_logistic(x, np.zeros_like(x), "erf5") - special.expit(x)
    assert np.abs(error).max() == pytest.approx(4.3e-4, abs=0.1e-4)
    assert abs(x[np.abs(error).argmax()]) == pytest.approx(5.7, abs=0.1)
    f = condition(BINARY, DATA2, inference=Laplace()).predict(NEW).f
    np.testing.assert_allclose(average_logistic(f.mean, f.variance, "erf5"), [0.69395524, 0.53092518, 0.52953734], atol=2e-8)


# three classes: six rows -----------------------------------------------------------------------------------------


def test_three_classes_mode_and_evidence() -> None:
    """W&B, appendix C; R&W, eqs. 3.35 to 3.44, with one kernel for the three classes."""
    post = condition(MANY, DATA3, inference=Laplace())
    outer = np.array([1.01190592, 0.80828139, -0.13976301, -0.66693347, -0.68338315, -0.50885061])
    middle = np.array([-0.50305531, -0.12489825, 0.80669648, 0.80669648, -0.12489825, -0.50305531])
    mode = np.stack([outer, middle, outer[::-1]], axis=1)
    np.testing.assert_allclose(post.predict(X3).f.mean, mode, **EIGHT)
    assert post.log_evidence == pytest.approx(-6.51697304, abs=6e-9)


def test_three_classes_gradient() -> None:
    """W&B, appendix C: over the first class's own kernel; with one kernel for all, the sum over the classes."""
    slopes = np.array([0.14831527, -0.08644280, -0.11854903])
    apart = Model(GP((PRIOR.kernel,) * 3), likelihood=Softmax(3))
    _, gradient = log_evidence_and_grad(apart, DATA3, inference=Laplace())
    each = np.array([log_slopes(gradient, f"kernel.{c}") for c in range(3)])
    np.testing.assert_allclose(each[0], slopes, **EIGHT)
    np.testing.assert_allclose(each[2], slopes, **EIGHT)  # the rows are their own mirror image
    _, shared = log_evidence_and_grad(MANY, DATA3, inference=Laplace())
    np.testing.assert_allclose(log_slopes(shared), each.sum(0), atol=1e-10)


def test_three_classes_predictions() -> None:
    """R&W, eqs. 3.41 and 3.43; the probabilities by 60³ Gauss–Hermite points."""
    prediction = condition(MANY, DATA3, inference=Laplace()).predict([[0.5]])
    np.testing.assert_allclose(prediction.f.mean, [[-0.49527200, 0.99054399, -0.49527200]], **EIGHT)
    a, b, c, d = 1.66759865, 1.50277715, 0.49861143, 0.33378993
    np.testing.assert_allclose(prediction.f.variance, [[[a, c, d], [c, b, c], [d, c, a]]], **EIGHT)
    np.testing.assert_allclose(prediction.y.mean, [[0.20045858, 0.59908284, 0.20045858]], rtol=0.0, atol=1e-6)


# one row, two rows, repeated rows --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variance", "value", "mode"), [(0.5, -0.695789, 0.222323), (2.0, -0.710249, 0.674832), (10.0, -0.742510, 1.633506)]
)
def test_one_row(variance: float, value: float, mode: float) -> None:
    """One label: log ½ by symmetry (R&W, eq. 3.82 at zero), EP has it, Laplace with the logistic function does not."""
    prior, data = GP(variance * SquaredExponential()), Data([[0.3]], [1])
    post = condition(Model(prior, likelihood=Bernoulli("logit")), data, inference=Laplace())
    assert post.log_evidence == pytest.approx(value, abs=6e-7)
    assert post.predict([[0.3]]).f.mean[0] == pytest.approx(mode, abs=6e-7)
    probit = Model(prior, likelihood=Bernoulli("probit"))
    assert log_evidence(probit, data, inference=EP()) == pytest.approx(-0.6931471806, abs=1e-10)


@pytest.mark.parametrize(
    ("labels", "exact", "ep", "laplace"),
    [([1, 1], -1.0429419, -1.0466949, -1.1109710), ([1, -1], -1.9133604, -1.9122371, -1.9560394)],
)
def test_two_rows(labels: list[int], exact: float, ep: float, laplace: float) -> None:
    """K = [[4, 3], [3, 4]], probit: ¼ + arcsin(y₁y₂K₁₂/√((1 + K₁₁)(1 + K₂₂)))/2π, and what EP and Laplace make of it."""
    model = Model(GP(4.0 * SquaredExponential()), likelihood=Bernoulli("probit"))
    data = Data([[0.0], [np.sqrt(-2 * np.log(0.75))]], labels)
    assert np.log(0.25 + np.arcsin(labels[0] * labels[1] * 3 / 5) / (2 * np.pi)) == pytest.approx(exact, abs=6e-8)
    assert log_evidence(model, data, inference=EP()) == pytest.approx(ep, abs=6e-8)
    assert log_evidence(model, data, inference=Laplace()) == pytest.approx(laplace, abs=6e-8)


REPEATS = {  # rows: exact log evidence, Laplace minus exact
    1: (-0.69314718, -0.0304),
    4: (-3.06426795, -0.0373),
    16: (-10.42058850, -0.0172),
    64: (-38.08331929, -0.00526),
    256: (-146.73925488, -0.00139),
    1024: (-579.30441136, -0.000351),
}


def test_repeated_rows_make_the_posterior_gaussian() -> None:
    """W&B, section 3 (infill): one latent value of variance 4 seen N times, three in four a one; the error falls like 1/N."""
    model = Model(GP("4.0 * Constant()"), likelihood=Bernoulli("logit"))
    error = {}
    for n, (exact, short) in REPEATS.items():
        ones = max(1, 3 * n // 4)

        def density(f: float, ones: int = ones, n: int = n) -> float:
            log = ones * special.log_expit(f) + (n - ones) * special.log_expit(-f) + stats.norm.logpdf(f, 0.0, 2.0)
            return float(np.exp(log - REPEATS[n][0]))

        total = integrate.quad(density, -12, 12, points=[0.0, 1.0, 1.2], epsabs=1e-12, limit=200)[0]
        assert np.log(total) == pytest.approx(0.0, abs=1e-8)
        labels = np.where(np.arange(n) < ones, 1, -1)
        error[n] = log_evidence(model, Data(np.zeros((n, 1)), labels), inference=Laplace()) - exact
        assert error[n] == pytest.approx(short, rel=0.005)
    for n, m in pairwise([64, 256, 1024]):
        assert error[n] / error[m] == pytest.approx(4.0, rel=0.1)


# expectation propagation -----------------------------------------------------------------------------------------


def test_one_site() -> None:
    """R&W, figure 3.4: cavity N(1, 9), label +1, probit; eqs. 3.58 and 3.59."""
    z, mean, variance = (float(np.ravel(v)[0]) for v in Bernoulli("probit").tilted(*np.array([[1.0], [1.0], [9.0]])))
    assert np.exp(z) == pytest.approx(0.6240851830, abs=1e-10)
    assert mean == pytest.approx(2.7305891616, abs=1e-10)
    assert variance == pytest.approx(4.4475309082, abs=1e-10)
    moments = [integrate.quad(lambda f, k=k: f**k * special.ndtr(f) * stats.norm(1, 3).pdf(f), -40, 40)[0] for k in range(3)]
    assert np.exp(z) == pytest.approx(moments[0], abs=1e-8)
    assert mean == pytest.approx(moments[1] / moments[0], abs=1e-7)
    assert variance == pytest.approx(moments[2] / moments[0] - mean**2, abs=1e-6)
    width = 1 / (1 / variance - 1 / 9)
    centre = width * (mean / variance - 1 / 9)
    scale = np.exp(z) * np.sqrt(2 * np.pi * (9 + width)) * np.exp(0.5 * (1 - centre) ** 2 / (9 + width))
    assert [width, centre, scale] == pytest.approx([8.7925425450, 4.4212868096, 9.1686998173], abs=2e-9)


def test_fifteen_rows_have_the_orthant_probability() -> None:
    """R&W, section 3.7.3 in small: p(y) = P(u ≤ 0), u ~ N(0, YKY + I); EP is close to it, Laplace further and below.

    A worked example: fifteen rows in two dimensions, a squared exponential of length 0.8 and standard deviation 2.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(size=(15, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=15) > 0, 1.0, -1.0)
    model, data = Model(GP("4.0 * SquaredExponential(lengthscale=0.8)"), likelihood=Bernoulli("probit")), Data(X, y)
    orthant = stats.multivariate_normal(
        np.zeros(15), y[:, None] * model.kernel.gram(X) * y + np.eye(15), maxpts=400_000, abseps=1e-10, releps=1e-5, seed=0
    )
    assert orthant.logcdf(np.zeros(15)) == pytest.approx(-9.012, abs=6e-4)
    assert log_evidence(model, data, inference=EP()) == pytest.approx(-9.029, abs=6e-4)
    assert log_evidence(model, data, inference=Laplace()) == pytest.approx(-9.216, abs=6e-4)


def three_heaps(seed: int) -> Data:
    """The sixty rows of R&W, figure 3.6, drawn anew."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(m, 0.8, n) for m, n in ((-6, 20), (0, 30), (2, 10))])
    return Data(x[:, None], np.repeat([1.0, -1.0, 1.0], [20, 30, 10]))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_learning_by_laplace_finds_the_published_scales(seed: int) -> None:
    """R&W, figure 3.6: ℓ = 2.6 and σ_f = 7.0 maximise Laplace's evidence; redraws with the logistic function end close by."""
    model = Model(GP("20.0 * SquaredExponential(lengthscale=1.5)"), likelihood=Bernoulli("logit"))
    data, published = three_heaps(seed), Model(GP("49.0 * SquaredExponential(lengthscale=2.6)"), likelihood=Bernoulli("logit"))
    best = learn(model, data, inference=Laplace()).model
    value, gradient = log_evidence_and_grad(best, data, inference=Laplace())
    assert value >= log_evidence(published, data, inference=Laplace())
    assert 2.2 < best.kernel.kernel.lengthscale < 3.1
    assert 6.6 < np.sqrt(best.kernel.variance) < 8.2
    assert abs(best.kernel.variance * gradient.kernel.variance) < 0.02
    assert abs(best.kernel.kernel.lengthscale * gradient.kernel.kernel.lengthscale) < 0.05


def test_laplace_is_too_cautious_where_the_posterior_is_skew() -> None:
    """R&W, figure 3.6: sixty rows in three heaps, ℓ = 2.6 and σ_f = 7 for both methods."""
    model, data = Model(GP("49.0 * SquaredExponential(lengthscale=2.6)"), likelihood=Bernoulli("probit")), three_heaps(0)
    laplace, ep = (condition(model, data, inference=how) for how in (Laplace(), EP()))
    heap = np.linspace(-7, -5, 9)[:, None]
    one, two = laplace.predict(heap), ep.predict(heap)
    assert np.all(one.f.interval(0.95)[0] < 0)  # the latent band of Laplace reaches over zero
    assert np.all(one.y.mean < 0.95)
    assert np.all(two.y.mean > one.y.mean + 0.03)
    assert ep.predict([[-6.0]]).y.mean[0] > 0.99
    for post in (laplace, ep):
        right = post.predict([[2.0], [2.6], [3.2]])
        beyond = post.predict([[3.2], [4.0]])
        assert np.all(np.diff(right.f.mean) > 0)
        assert beyond.y.mean[1] < beyond.y.mean[0]
        between = post.predict([[-3.0], [1.0], [4.0]]).f.std
        assert between[1] < 0.5 * min(between[0], between[2])  # well known where both classes meet
