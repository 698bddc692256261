"""Optimisers: quadratics, Rosenbrock's valley, bounds, failed evaluations, time limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from covary.optimise import Result, lbfgs, quasi_newton
from covary.optimise.quasi_newton import positive_part

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


def quadratic(centre: Any, curvature: np.ndarray) -> Function:
    centre = np.asarray(centre, float)

    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        return 0.5 * float((x - centre) @ curvature @ (x - centre)), curvature @ (x - centre)

    return function


def rosenbrock(x: np.ndarray) -> tuple[float, np.ndarray]:
    a, b = x[:-1], x[1:]
    g = np.zeros_like(x)
    g[:-1] += -400 * a * (b - a**2) - 2 * (1 - a)
    g[1:] += 200 * (b - a**2)
    return float((100 * (b - a**2) ** 2 + (1 - a) ** 2).sum()), g


def counted(function: Function) -> tuple[Function, list[np.ndarray]]:
    seen: list[np.ndarray] = []

    def again(x: np.ndarray) -> tuple[float, np.ndarray]:
        seen.append(x.copy())
        return function(x)

    return again, seen


def run(name: str, function: Function, x0: Any, lower: Any = -np.inf, upper: Any = np.inf, **options: Any) -> Result:
    """Either optimiser by name, the second with the identity as its starting Hessian."""
    x0 = np.asarray(x0, float)
    lower, upper = np.broadcast_to(lower, x0.shape).astype(float), np.broadcast_to(upper, x0.shape).astype(float)
    if name == "lbfgs":
        return lbfgs(function, x0, lower=lower, upper=upper, **options)
    hessian = options.pop("hessian", np.eye(len(x0)))
    return quasi_newton(function, x0, hessian, lower=lower, upper=upper, **options)[0]


both = pytest.mark.parametrize("name", ["lbfgs", "quasi_newton"])
CURVED = np.array([[5.0, 1.0, 0.0], [1.0, 2.0, -0.5], [0.0, -0.5, 0.7]])


@both
def test_the_minimum_of_a_quadratic(name: str) -> None:
    got = run(name, quadratic([1.0, -2.0, 0.5], CURVED), [0.0, 0.0, 0.0], tolerance=1e-8)
    assert got.status == "converged"
    assert got.value < 1e-6
    np.testing.assert_allclose(got.x, [1.0, -2.0, 0.5], atol=2e-3)


@both
@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_the_bottom_of_rosenbrocks_valley(name: str, d: int) -> None:
    start = np.tile([-1.2, 1.0], 3)[:d]
    got = run(name, rosenbrock, start, tolerance=1e-8, max_steps=400)
    assert got.status == "converged"
    assert got.value < 1e-5
    np.testing.assert_allclose(got.x, np.ones(d), atol=5e-3)


@both
def test_the_result_describes_its_own_point(name: str) -> None:
    function, seen = counted(rosenbrock)
    got = run(name, function, [-1.2, 1.0], max_steps=15)
    value, gradient = rosenbrock(got.x)
    assert got.value == value
    np.testing.assert_array_equal(got.gradient, gradient)
    assert got.steps == len(seen)
    assert got.value == min(rosenbrock(x)[0] for x in seen)


@both
def test_a_minimum_outside_the_box_ends_on_its_edge(name: str) -> None:
    """Minimised over x₀ ≤ 0.4 and x₂ ≥ 1: the other coordinates move to their best place on that face."""
    centre = np.array([1.0, -2.0, 0.5])
    function, seen = counted(quadratic(centre, CURVED))
    got = run(name, function, [0.0, 0.0, 2.0], [-5, -5, 1.0], [0.4, 5, 5], tolerance=1e-10)
    assert got.status == "converged"
    assert got.x[0] == 0.4
    assert got.x[2] == 1.0
    assert got.x[1] == pytest.approx(-2.0 - (1.0 * (0.4 - 1.0) - 0.5 * (1.0 - 0.5)) / 2.0, abs=1e-3)
    assert all((x >= [-5, -5, 1.0]).all() and (x <= [0.4, 5, 5]).all() for x in seen)


@both
def test_a_start_outside_the_box_is_moved_inside(name: str) -> None:
    function, seen = counted(quadratic([1.0, 1.0], np.eye(2)))
    got = run(name, function, [9.0, -9.0], 0.0, 2.0, tolerance=1e-8)
    np.testing.assert_array_equal(seen[0], [2.0, 0.0])
    np.testing.assert_allclose(got.x, [1.0, 1.0], atol=1e-3)


@both
def test_a_corner_that_is_the_minimum_is_left_alone(name: str) -> None:
    got = run(name, quadratic([-3.0, 4.0], np.eye(2)), [0.0, 1.0], 0.0, 1.0)
    assert got.status == "converged"
    assert got.steps <= 2
    np.testing.assert_array_equal(got.x, [0.0, 1.0])


@both
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_values_that_are_not_finite_are_rejected_steps(name: str, bad: float) -> None:
    """A cliff just behind the minimum: the first step falls over it."""

    def cliff(x: np.ndarray) -> tuple[float, np.ndarray]:
        if x[0] < -0.1:
            failures.append(x)
            return bad, np.zeros_like(x)
        return quadratic([0.0, 0.0], np.diag([1.0, 3.0]))(x)

    failures: list[np.ndarray] = []
    options: dict[str, Any] = {} if name == "lbfgs" else {"hessian": 0.4 * np.eye(2)}
    got = run(name, cliff, [0.5, 0.1], tolerance=1e-6, **options)
    assert failures
    assert got.status == "converged"
    np.testing.assert_allclose(got.x, [0.0, 0.0], atol=5e-3)


@both
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_start_at_infinity_is_reported(name: str, bad: float) -> None:
    got = run(name, lambda x: (bad, np.zeros_like(x)), [0.5, 0.5])
    assert got.status == "failed at the start"
    assert got.value == np.inf
    assert got.steps == 1
    np.testing.assert_array_equal(got.x, [0.5, 0.5])


@both
def test_a_deadline_in_the_past_returns_the_start(name: str) -> None:
    got = run(name, rosenbrock, [-1.2, 1.0], deadline=time.monotonic() - 1.0)
    assert got.status == "out of time"
    assert got.steps == 1
    assert got.value == rosenbrock(np.array([-1.2, 1.0]))[0]
    np.testing.assert_array_equal(got.x, [-1.2, 1.0])


@both
def test_a_deadline_on_the_way_returns_the_best_so_far(name: str) -> None:
    def slow(x: np.ndarray) -> tuple[float, np.ndarray]:
        time.sleep(0.05)
        return rosenbrock(x)

    function, seen = counted(slow)
    got = run(name, function, [-1.2, 1.0], tolerance=1e-10, deadline=time.monotonic() + 0.4)
    assert got.status == "out of time"
    assert 1 < got.steps < 12
    assert got.value == min(rosenbrock(x)[0] for x in seen) < rosenbrock(np.array([-1.2, 1.0]))[0]


@both
def test_a_limit_on_evaluations_is_kept_and_reported(name: str) -> None:
    got = run(name, rosenbrock, [-1.2, 1.0], tolerance=1e-10, max_steps=6)
    assert got.steps <= 12  # the line search that is under way may end
    assert got.status.startswith("stopped after")


@both
def test_every_value_is_noted(name: str) -> None:
    notes: list[float] = []
    function, seen = counted(rosenbrock)
    got = run(name, function, [-1.2, 1.0], max_steps=30, note=notes.append)
    assert notes == [rosenbrock(x)[0] for x in seen]
    assert len(notes) == got.steps


@both
@pytest.mark.parametrize("seed", range(8))
def test_the_result_is_never_worse_than_the_start(name: str, seed: int) -> None:
    """Wavy functions with holes, a hostile gradient, a wrong Hessian."""
    rng = np.random.default_rng(seed)
    centre, waves = rng.normal(size=3), rng.uniform(1.0, 6.0, 3)

    def wavy(x: np.ndarray) -> tuple[float, np.ndarray]:
        if np.sin(7 * x.sum()) > 0.9:
            return np.inf, np.zeros_like(x)
        value = ((x - centre) ** 2).sum() + np.sin(waves * x).sum()
        return float(value), (2 * (x - centre) + waves * np.cos(waves * x)) * (-1 if seed % 4 == 3 else 1)

    start = rng.normal(size=3)
    while not np.isfinite(wavy(start)[0]):
        start = rng.normal(size=3)
    options: dict[str, Any] = {} if name == "lbfgs" else {"hessian": rng.normal(size=(3, 3)) * 10}
    got = run(name, wavy, start, -3.0, 3.0, max_steps=60, **options)
    assert got.value <= wavy(start)[0]
    assert (np.abs(got.x) <= 3.0).all()


# quasi-Newton with a Hessian ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-1, 1.0, 1e6])
def test_with_the_exact_hessian_a_quadratic_takes_three_evaluations(scale: float) -> None:
    H = scale * CURVED
    got = run("quasi_newton", quadratic([1.0, -1.5, 0.5], H), [0.0, 0.0, 0.0], hessian=H, tolerance=1e-6)
    assert got.status == "converged"
    assert got.steps <= 3
    np.testing.assert_allclose(got.x, [1.0, -1.5, 0.5], atol=1e-6)


def test_with_the_exact_hessian_bounds_cost_nothing_more() -> None:
    centre = np.array([1.0, -1.5, 0.5])
    got = run("quasi_newton", quadratic(centre, CURVED), np.zeros(3), -np.inf, [0.4, 5, 5], hessian=CURVED, tolerance=1e-6)
    rest = -np.linalg.solve(CURVED[1:, 1:], CURVED[1:, 0] * (0.4 - 1.0))
    np.testing.assert_allclose(got.x, [0.4, *(centre[1:] + rest)], atol=1e-3)
    assert got.steps <= 5


def test_the_hessian_at_the_end_is_that_of_the_function() -> None:
    got, H = quasi_newton(
        quadratic([1.0, -1.5, 0.5], CURVED),
        np.zeros(3),
        np.eye(3) * 3,
        lower=np.full(3, -np.inf),
        upper=np.full(3, np.inf),
        tolerance=1e-14,
    )
    assert got.value < 1e-12
    np.testing.assert_allclose(H, CURVED, rtol=0.05, atol=0.05)


def test_it_stops_when_a_step_would_gain_less_than_the_tolerance() -> None:
    """½ gᵀH⁻¹g is 0.005 at the start: below 0.01 nothing is done, below 0.001 a step is taken."""
    function = quadratic([0.1, 0.0, 0.0], np.eye(3))
    assert run("quasi_newton", function, np.zeros(3), tolerance=0.01).steps == 1
    assert run("quasi_newton", function, np.zeros(3), tolerance=0.001).steps == 2


def test_no_step_is_longer_than_two_along_a_coordinate() -> None:
    function, seen = counted(quadratic([100.0, -3.0], np.eye(2)))
    run("quasi_newton", function, np.zeros(2), max_steps=3)
    assert np.abs(np.diff(seen, axis=0)).max() == pytest.approx(2.0)


def test_a_hessian_that_is_not_positive_definite_is_made_so() -> None:
    values = np.linalg.eigvalsh(positive_part(np.diag([3.0, -2.0, 0.0])))
    np.testing.assert_allclose(values, [1e-3, 2.0, 3.0])
    got = run("quasi_newton", quadratic([1.0, -1.0], np.eye(2)), np.zeros(2), hessian=np.diag([-1.0, 0.0]), tolerance=1e-6)
    np.testing.assert_allclose(got.x, [1.0, -1.0], atol=1e-2)


def test_the_first_step_of_a_boxed_search_is_a_short_one() -> None:
    """L-BFGS-B goes straight to the walls where every coordinate has two bounds; a search must not begin there."""
    seen: list[np.ndarray] = []

    def steep(x: np.ndarray) -> tuple[float, np.ndarray]:
        seen.append(x.copy())
        return float(50 * ((x - 1) ** 2).sum()), 100 * (x - 1)

    lbfgs(steep, np.zeros(3), lower=np.full(3, -12.0), upper=np.full(3, 12.0))
    moved = [x for x in seen if x.any()]
    assert np.linalg.norm(moved[0]) < 1.5
    assert np.abs(moved).max() < 4.0


def test_a_jump_is_not_called_an_end() -> None:
    """Beyond a jump every point is worse, although the slope leads there; at a bound it is an end."""

    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        return (1e6 if x[0] > 0 else 0.0) - 1e4 * float(x[0]), np.array([-1e4])

    assert run("lbfgs", function, [0.0], tolerance=1e-3).status == "stuck: no step is better, but the slope is 1e+04"
    assert run("lbfgs", function, [0.0], upper=0.0, tolerance=1e-3).status == "converged"
