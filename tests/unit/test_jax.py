"""The log evidence as a JAX function: grad, jit and vmap compared with the host, and errors for unsupported cases."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from covary import GP, Data, Model, condition, log_evidence, log_evidence_and_grad
from covary import kernels as k
from covary._checks import CovaryError
from covary.distributions import Gamma, HalfCauchy, InverseGamma, LogNormal, Normal, Uniform
from covary.gram import Dense, LowRank
from covary.inference import EP
from covary.likelihoods import BasisNoise, Bernoulli, Gaussian
from covary.means import Basis, Constant, Function, Linear, LinearBasis, PolynomialBasis
from covary.means.basis import BasisMean
from covary.parameters import UNIT, Packing, fixed, parameters, positive

RNG = np.random.default_rng(7)
X = RNG.normal(size=(30, 2))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=30)
DATA = Data(X, Y)
NOISE = np.linspace(0.01, 0.1, 30)
WEIGHT = np.linspace(1.0, 4.0, 30)
PLAIN = GP(2.0 * k.Matern52(lengthscale=[1.0, 2.0]))


def model(prior: GP | k.AbstractKernel = PLAIN, noise: Any = 0.1) -> Model:
    return Model(prior if isinstance(prior, GP) else GP(prior), likelihood=Gaussian(noise))


def flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree_util.tree_leaves(tree)])


MODELS = {
    "ARD": (model(), DATA),
    "sum": (model(0.5 * k.SquaredExponential() + k.Linear() * k.Periodic(period=fixed(1.5))), DATA),
    "columns": (model(k.Matern32().on(0) + 0.3 * k.RationalQuadratic().on(1)), DATA),
    "network": (model(k.NeuralNetwork()), DATA),
    "constant mean": (model(GP(k.Matern52(), mean=Constant(0.3))), DATA),
    "linear mean": (model(GP(k.Matern52(), mean=Linear([0.3, -0.1], value=1.0))), DATA),
    "basis mean": (model(GP(k.Matern52(), mean=BasisMean(lambda x: x**2, weights=[0.2, 0.1]))), DATA),
    "own mean": (model(GP(k.Matern52(), mean=Function(lambda x, a: a * jnp.sin(x[0]), parameters={"a": 0.5}))), DATA),
    "vague basis": (model(GP(k.Matern52(), basis=LinearBasis())), DATA),
    "known noise": (model(), Data(X, Y, noise_variance=NOISE)),
    "known noise alone": (model(noise=fixed(0.0)), Data(X, Y, noise_variance=NOISE)),
    "weights": (model(), Data(X, Y, weight=WEIGHT, scatter=NOISE)),
    "two outputs": (model(), Data(X, np.stack([Y, Y**2], 1), noise_variance=NOISE, weight=WEIGHT)),
    "two outputs, basis": (model(GP(k.Matern52(), basis=LinearBasis())), Data(X, np.stack([Y, Y**2], 1))),
    "noise that varies": (
        Model(PLAIN, likelihood=BasisNoise(0.3, function=lambda x: np.sin(x), weights=[0.5, -0.2])),
        Data(X, np.stack([Y, Y**2], 1), noise_variance=NOISE, weight=WEIGHT),
    ),
}


@pytest.mark.parametrize("case", MODELS)
def test_value_and_gradient_are_those_of_the_host(case: str) -> None:
    m, data = MODELS[case]
    value, gradient = log_evidence_and_grad(m, data)
    with jax.enable_x64(True):
        got, its = jax.jit(jax.value_and_grad(lambda m: log_evidence(m, data)))(m)
        assert isinstance(got, jax.Array)
        assert float(got) == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(flat(its), flat(gradient), rtol=1e-8, atol=1e-10 * np.abs(flat(gradient)).max())
        assert [p.path for p in parameters(its).values()] == [p.path for p in parameters(m).values()]


def test_a_basis_with_gaussian_weights_that_are_held() -> None:
    def at(ell: Any) -> Any:
        basis = Basis(lambda x: x, covariance=np.array([[2.0, 0.5], [0.5, 1.0]]))
        return log_evidence(model(GP(k.Matern52(ell), basis=basis)), DATA)

    with jax.enable_x64(True):
        value, slope = jax.jit(jax.value_and_grad(at))(1.3)
    assert float(value) == pytest.approx(at(1.3), rel=1e-11)
    assert float(slope) == pytest.approx((at(1.3 + 1e-5) - at(1.3 - 1e-5)) / 2e-5, rel=1e-6)


BASES = {  # two outputs at one of them, to save time
    "vague": (LinearBasis(), Y),
    "polynomial": (PolynomialBasis(3), Y),
    "vague and Gaussian": (LinearBasis(covariance=[2.0, np.inf, 0.5]), np.stack([Y, Y**2], 1)),
    "correlated": (Basis(lambda x: jnp.sin(x), covariance=[[2.0, 0.5], [0.5, 1.0]]), Y),
}


@pytest.mark.parametrize("case", BASES)
def test_basis_functions_of_traced_inputs(case: str) -> None:
    basis, y = BASES[case]

    def at(x: Any, covariance: Any = basis.covariance) -> Any:
        return log_evidence(model(GP(k.Matern52(), basis=basis.replace(covariance=covariance))), Data(x, y))

    covariance = None if basis.covariance is None else np.asarray(basis.covariance)
    with jax.enable_x64(True):
        both = jax.jit(jax.vmap(jax.value_and_grad(at, argnums=(0, 1)), in_axes=(0, None)))
        values, (slopes, own) = both(np.stack([X, X + 2000.0]), covariance)
    np.testing.assert_allclose(values[0], at(X), rtol=1e-10)
    np.testing.assert_allclose(values[1], at(X + 2000.0), rtol=1e-6 if case == "polynomial" else 1e-10)  # powers cancel
    step = np.zeros_like(X)
    step[3, 1] = 1e-5
    assert float(slopes[0, 3, 1]) == pytest.approx((at(X + step) - at(X - step)) / 2e-5, rel=1e-6, abs=1e-8)
    if covariance is not None:
        step = np.zeros_like(covariance)
        step.flat[-1] = 1e-5
        slope = (at(X, covariance + step) - at(X, covariance - step)) / 2e-5
        assert float(np.ravel(own[0])[-1]) == pytest.approx(slope, rel=1e-6)


def test_functions_that_need_numpy_are_called_back() -> None:
    def h(x: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(x)), np.sin(np.asarray(x))])

    prior = GP(k.Matern52(), mean=BasisMean(h, weights=[0.2, 0.1, 0.3]), basis=Basis(h, covariance=[1.0, 2.0, 3.0]))
    m = Model(prior, likelihood=BasisNoise(0.3, function=h, weights=[0.0, 0.5, -0.2]))
    with jax.enable_x64(True):
        values = jax.jit(jax.vmap(lambda x: log_evidence(m, Data(x, Y))))(np.stack([X, X + 1]))
        for part in (model(GP(k.Matern52(), mean=prior.mean)), model(GP(k.Matern52(), basis=prior.basis)), m):
            with pytest.raises(CovaryError, match=r"the function uses NumPy, which JAX cannot diff.*write it with jax.numpy"):
                jax.eval_shape(jax.grad(lambda x, part=part: log_evidence(part, Data(x, Y))), X)
    np.testing.assert_allclose(values, [log_evidence(m, Data(x, Y)) for x in (X, X + 1)], rtol=1e-10)


def test_jitter_given_to_the_gram_is_added() -> None:
    m, data = model(noise=fixed(0.0)), Data(np.concatenate([X, X]), np.concatenate([Y, Y]))
    gram = Dense(1e-6)
    with jax.enable_x64(True):
        got, slope = jax.jit(jax.value_and_grad(lambda m: log_evidence(m, data, gram=gram)))(m)
    value, gradient = log_evidence_and_grad(m, data, gram=gram)
    assert float(got) == pytest.approx(value, rel=1e-6)
    assert float(slope.kernel.variance) == pytest.approx(float(gradient.kernel.variance), rel=1e-3)


def test_compiled_once_for_several_values() -> None:
    traces = []

    def counted(m: Model, data: Data) -> Any:
        traces.append(1)
        return log_evidence(m, data)

    compiled = jax.jit(jax.value_and_grad(counted))
    with jax.enable_x64(True):
        for scale in (0.5, 1.0, 2.0):
            other = model(scale * k.Matern52(lengthscale=[scale, 1.0]), 0.1 * scale)
            data = Data(X * scale, Y)
            value, gradient = compiled(other, data)
            expected, slopes = log_evidence_and_grad(other, data)
            assert float(value) == pytest.approx(expected, rel=1e-10)
            np.testing.assert_allclose(flat(gradient), flat(slopes), rtol=1e-8)
    assert len(traces) == 1


def test_a_batch_of_models_is_a_loop_over_them() -> None:
    models = [model(a * k.Matern52(lengthscale=[a, 2.0]), 0.05 * a) for a in (0.5, 1.0, 3.0)]
    with jax.enable_x64(True):
        batch = jax.tree_util.tree_map(lambda *leaves: jnp.stack(leaves), *models)
        values, slopes = jax.jit(jax.vmap(jax.value_and_grad(log_evidence), in_axes=(0, None)))(batch, DATA)
    np.testing.assert_allclose(values, [log_evidence(m, DATA) for m in models], rtol=1e-11)
    for i, m in enumerate(models):
        mine = flat(jax.tree_util.tree_map(lambda v, i=i: v[i], slopes))
        np.testing.assert_allclose(mine, flat(log_evidence_and_grad(m, DATA)[1]), rtol=1e-8)


def test_a_batch_of_data_is_a_loop_over_it() -> None:
    sets = [Data(X + i, Y * (1 + i), noise_variance=NOISE) for i in range(3)]
    with jax.enable_x64(True):
        batch = jax.tree_util.tree_map(lambda *leaves: jnp.stack(leaves), *sets)
        values = jax.jit(jax.vmap(log_evidence, in_axes=(None, 0)))(model(), batch)
        made = jax.jit(jax.vmap(lambda x, y: log_evidence(model(), Data(x, y))))(
            np.stack([d.X.x for d in sets]), np.stack([Y, Y, Y])
        )
    np.testing.assert_allclose(values, [log_evidence(model(), d) for d in sets], rtol=1e-11)
    np.testing.assert_allclose(made, [log_evidence(model(), Data(d.X, Y)) for d in sets], rtol=1e-11)


def test_slopes_over_inputs_and_second_slopes() -> None:
    def at(theta: Any) -> Any:
        return log_evidence(model(theta[0] * k.SquaredExponential(theta[1]), theta[2]), DATA)

    def gradient(theta: np.ndarray) -> np.ndarray:
        return flat(log_evidence_and_grad(model(theta[0] * k.SquaredExponential(theta[1]), theta[2]), DATA)[1])[[1, 0, 2]]

    here, step = np.array([1.0, 1.5, 0.2]), 1e-5 * np.eye(3)
    with jax.enable_x64(True):
        second = np.asarray(jax.jit(jax.hessian(at))(here))
        inputs = np.asarray(jax.jit(jax.grad(lambda x: log_evidence(model(), Data(x, Y))))(X))
    numeric = np.stack([(gradient(here + h) - gradient(here - h)) / 2e-5 for h in step])
    np.testing.assert_allclose(second, numeric, rtol=1e-5, atol=1e-5)
    up, down = X.copy(), X.copy()
    up[3, 1] += 1e-6
    down[3, 1] -= 1e-6
    slope = (log_evidence(model(), Data(up, Y)) - log_evidence(model(), Data(down, Y))) / 2e-6
    assert inputs[3, 1] == pytest.approx(slope, rel=1e-5)


def test_a_batch_in_which_one_matrix_has_no_factor() -> None:
    """So that a step there is rejected and the others are not affected."""
    data = Data(np.zeros((3, 1)), [0.0, 1.0, 2.0])
    with jax.enable_x64(True):
        both = jax.jit(jax.vmap(lambda v: log_evidence(model(k.Matern52(), v), data)))(jnp.array([0.0, 1.0]))
    assert float(both[0]) == -np.inf
    assert float(both[1]) == pytest.approx(log_evidence(model(k.Matern52(), 1.0), data))


TWICE = np.repeat(X[:, :1], 2, axis=1)
ENDLESS = {  # models and data whose log evidence is −∞, and free coordinates to add
    "no factor": (model(k.Matern52(), fixed(0.0)), Data(TWICE[[0, 0, 0]], Y[:3]), 0.0),
    "contradiction": (model(k.Matern52(), fixed(0.0)), Data(X[:2], Y[:2], weight=[2.0, 1.0], scatter=[0.5, 0.0]), 0.0),
    "short lengthscales": (model(), DATA, [0.0, -360.0, -400.0, 0.0]),
    "large variance": (model(), DATA, [800.0, 0.0, 0.0, 0.0]),
    "large mean": (model(GP(k.Matern52(), mean=Constant(1e200))), DATA, 0.0),
    "dependent basis": (model(GP(k.Matern52(), basis=LinearBasis())), Data(TWICE, Y), 0.0),
    "no covariance": (model(GP(k.Matern52(), basis=LinearBasis(covariance=-np.eye(3)))), DATA, 0.0),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_all_derivatives_are_zero_where_the_value_is_minus_infinity(case: str) -> None:
    """Also if the numbers overflow, so that the derivative of an intermediate result is infinite or NaN."""
    m, data, added = ENDLESS[case]
    packing = Packing(m)

    def at(theta: Any, data: Data, covariance: Any) -> Any:
        there, basis = packing.unpack(theta), m.prior.basis
        if basis is not None:
            there = there.replace(prior=there.prior.replace(basis=basis.replace(covariance=covariance)))
        return log_evidence(there, data)

    covariance = None if m.prior.basis is None else m.prior.basis.covariance
    there = packing.pack(m) + added, data, covariance
    with jax.enable_x64(True):
        value, slopes = jax.jit(jax.value_and_grad(at, argnums=(0, 1, 2)))(*there)
        if case == "short lengthscales":
            forward = jax.jit(jax.jacfwd(lambda theta: at(theta, data, covariance)))(there[0])
            assert (np.asarray(forward) == 0).all()
    assert float(value) == -np.inf
    assert (flat(slopes) == 0).all()


def test_64_bit_must_be_on_unless_the_data_are_float32() -> None:
    with pytest.raises(CovaryError, match=r"jax.enable_x64\(True\)"):
        jax.grad(log_evidence)(model(), DATA)
    with pytest.raises(CovaryError, match=r"jax.enable_x64\(True\)"):
        jax.jit(log_evidence)(model(), DATA)
    small = Data(X.astype(np.float32), Y)
    value, gradient = log_evidence_and_grad(model(), small)
    for on in (False, True):
        with jax.enable_x64(on):
            got, its = jax.jit(jax.value_and_grad(lambda m: log_evidence(m, small)))(model())
            assert got.dtype == np.float32
            assert float(got) == pytest.approx(value, rel=1e-4)
            np.testing.assert_allclose(flat(its), flat(gradient), rtol=1e-2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, d: log_evidence(m, d, gram="exact"), r"gram is 'exact'; give an object such as gram=Dense\(\)"),
        (lambda m, d: log_evidence(m, d, gram=Dense), r"gram is the class Dense; write Dense\(\)"),
        (lambda m, d: log_evidence(model(), d, gram=Dense(m.likelihood.variance)), "gram has a traced number; give a plain"),
        (lambda m, d: condition(model(), d).predict(m.likelihood.variance * X).f.mean[0], "predict: X is traced by JAX; pred"),
        (lambda m, d: log_evidence(Packing(m).unpack(m.kernel.kernel.lengthscale), d), r"theta has shape \(2,\) but the m.* 4"),
        (lambda m, d: log_evidence(m, d, gram=LowRank(5)), r"gram=LowRank.*use gram=Dense\(\), or use log_evidence_and_grad"),
        (lambda m, d: log_evidence(m, d, inference=EP()), r"inference=EP.*use inference=Exact\(\), or use log_evidence_and"),
        (lambda m, d: log_evidence(m.replace(likelihood=Bernoulli()), d), r"likelihood=Bernoulli.*log_evidence_and_grad"),
        (  # not to use exact inference, which cannot be done
            lambda m, d: log_evidence(m.replace(likelihood=Bernoulli()), d, inference=EP()),
            r"likelihood=Bernoulli\(...\); trace a model with Gaussian noise, or use log_evidence_and_grad",
        ),
        (lambda m, d: log_evidence_and_grad(m, d)[0], r"cannot be traced by JAX; use jax.value_and_grad\(log_evidence\)"),
        (lambda m, d: condition(m, d).log_evidence, r"cannot be traced by JAX"),
        (
            lambda m, d: log_evidence(m.replace(prior=GP(k.Matern52([1.0, 1.0, 1.0]))), d),
            "lengthscale has 3 entries but X has 2",
        ),
        (
            lambda m, d: log_evidence(m.replace(prior=GP(k.Matern52(m.likelihood.variance * jnp.ones(3)))), d),
            "lengthscale has 3 entries but X has 2",
        ),
        (lambda m, d: log_evidence(m, Data(m.likelihood.variance * X[:, 0], Y)), "X has one dimension"),
        (lambda m, d: log_evidence(m, Data(m.likelihood.variance * X[:5], Y)), "y has shape"),
    ],
)
def test_what_cannot_be_traced_says_what_to_use(call: Any, words: str) -> None:
    with jax.enable_x64(True), pytest.raises(CovaryError, match=words):
        jax.grad(call)(model(), DATA)


def test_packing_and_priors_make_a_log_posterior() -> None:
    m = model(GP(2.0 * k.Matern52(lengthscale=fixed(1.0)), mean=Constant(0.2)))
    packing = Packing(m)
    theta = packing.pack(m)

    def log_posterior(u: Any) -> Any:
        there = packing.unpack(u)
        return log_evidence(there, DATA) + LogNormal(0.0, scale=1.0).log_prob(there.likelihood.variance) + u[0]

    with jax.enable_x64(True):
        value, slope = jax.jit(jax.value_and_grad(log_posterior))(theta)
    assert packing.size == 3  # the length-scale is held
    assert float(value) == pytest.approx(log_posterior(theta), rel=1e-11)
    evidence = packing.pull(m, log_evidence_and_grad(m, DATA)[1])
    evidence[packing.names().index("likelihood.variance")] += LogNormal(0.0, scale=1.0).slope(0.1) * 0.1
    evidence[0] += 1
    np.testing.assert_allclose(slope, evidence, rtol=1e-8)


@pytest.mark.parametrize(
    "density", [Normal(0.5, std=2.0), LogNormal(), Gamma(2.0, shape=3.0), InverseGamma(), HalfCauchy(), Uniform(0.0, upper=3.0)]
)
def test_densities_under_tracing(density: Any) -> None:
    with jax.enable_x64(True):
        value, slope = jax.value_and_grad(density.log_prob)(1.3)
    assert float(value) == pytest.approx(float(density.log_prob(1.3)), rel=1e-14)
    assert float(slope) == pytest.approx(float(density.slope(1.3)), rel=1e-12)


def test_sets_under_tracing() -> None:
    with jax.enable_x64(True):
        there = jax.jit(UNIT.constrain)(0.3)
        assert float(there) == pytest.approx(float(UNIT.constrain(np.array(0.3))), rel=1e-15)
        assert float(jax.jit(UNIT.unconstrain)(there)) == pytest.approx(0.3, rel=1e-14)


def test_a_model_of_jax_arrays_is_a_model() -> None:
    with jax.enable_x64(True):
        trained = jax.tree_util.tree_map(jnp.asarray, model())
        value = log_evidence(trained, DATA)
        mean = condition(trained, DATA).predict(X[:3]).f.mean
    assert value == pytest.approx(log_evidence(model(), DATA), rel=1e-12)
    np.testing.assert_allclose(mean, condition(model(), DATA).predict(X[:3]).f.mean, rtol=1e-10)


class Laplacian(k.AbstractKernel):
    lengthscale: Any = positive(1.0)

    def block(self, X: Any, Z: Any) -> Any:
        return jnp.exp(-jnp.abs(X.x[:, None, :] - Z.x[None, :, :]).sum(-1) / self.lengthscale)


LINE = np.linspace(0.05, 0.95, 12)[:, None]
CODES = np.arange(12.0)[:, None] % 3
SPHERE = np.column_stack([np.linspace(-80, 80, 12), np.linspace(-170, 170, 12)])
UNUSUAL = {  # kernels with checks of values, fields, maps or functions of the user
    "user's": (Laplacian(2.0), LINE),
    "bridge": (k.BrownianBridge(), LINE),
    "Wiener": (k.Wiener(), LINE),
    "codes": (k.Categories(3, rank=2), CODES),
    "sphere": (k.OnSphere(k.Matern52()), SPHERE),
    "great circle": (k.GreatCircle(), SPHERE),
    "field": (k.PaciorekSchervish(k.Matern32(), k.GaussianField([0.0, 1.0], beta=[0.5, -0.5])), LINE),
    "function field": (
        k.VaryingAmplitude(k.Matern52(), k.FunctionField(lambda x, a: a * x[:, 0] + 1, parameters={"a": 2.0})),
        LINE,
    ),
    "map": (k.Mapped(k.SquaredExponential(), lambda x: jnp.concatenate([jnp.cos(x), jnp.sin(x)], axis=1)), LINE),
    "warped": (k.Warped(k.SquaredExponential(), centres=[0.0, 1.0], width=1.0, beta=[-1.0, 0.0]), LINE),
    "smoothness": (k.Matern(nu=1.2), LINE),
    "function": (k.Function(lambda x, z, a: a * jnp.exp(-((x - z) ** 2).sum()), parameters={"a": 1.0}), LINE),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_kernels_with_model_and_data_traced(case: str) -> None:
    kernel, x = UNUSUAL[case]
    data = Data(x, np.sin(3 * LINE[:, 0]))
    value, gradient = log_evidence_and_grad(model(kernel), data)
    with jax.enable_x64(True):
        got, its = jax.jit(jax.value_and_grad(log_evidence))(model(kernel), data)
    assert float(got) == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(flat(its), flat(gradient), rtol=1e-6, atol=1e-8)
