"""Parameters: paths, patterns, marks, and the unconstrained vector."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest

from covary import GP, Model
from covary._checks import CovaryError
from covary._module import Mark
from covary.kernels import (
    Constant,
    Function,
    Linear,
    Matern12,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    bounded,
    fixed,
)
from covary.parameters import Packing, bound, freeze, matches, parameters, rebuild, select, set_values


def curve(x, z, height, width):
    return height * np.exp(-((x - z) ** 2).sum() / width)


def values(module) -> dict:
    """The values by path, as lists."""
    return {path: p.value.tolist() for path, p in parameters(module).items()}


@pytest.mark.parametrize(
    ("kernel", "paths"),
    [
        (Constant(), []),
        (Matern52(), ["lengthscale"]),
        (RationalQuadratic(), ["lengthscale", "alpha"]),
        (2.0 * Matern52(), ["variance", "lengthscale"]),
        (Matern52() ** 2, ["lengthscale"]),
        (Matern52().on(0), ["lengthscale"]),
        (2.0 * Matern52() + Periodic(), ["0.variance", "0.lengthscale", "1.lengthscale", "1.period"]),
        (2.0 * (Matern52() * Periodic()), ["variance", "0.lengthscale", "1.lengthscale", "1.period"]),
        (Linear() * (Matern52() + 3.0), ["0.lengthscale", "1.0.lengthscale", "1.1.variance"]),
        (2.0 * Function(curve, parameters={"width": 1.0, "height": 2.0}), ["variance", "height", "width"]),
    ],
)
def test_paths_of_kernels(kernel, paths: list[str]):
    found = parameters(kernel)
    assert list(found) == paths
    assert [p.path for p in found.values()] == paths


def test_paths_of_a_model_name_kernel_and_likelihood():
    model = Model(GP(2.0 * Matern52([1.0, 2.0]) + Periodic()))
    assert list(parameters(model)) == [
        "kernel.0.variance",
        "kernel.0.lengthscale",
        "kernel.1.lengthscale",
        "kernel.1.period",
        "likelihood.variance",
    ]
    assert values(model)["kernel.0.lengthscale"] == [1.0, 2.0]


@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * ((3.0 * Matern52(5.0)).on(0)),
        2.0 * ((3.0 * Matern52(5.0)) ** 2),
        fixed(2.0) * (3.0 * Matern52(5.0)),
        2.0 * (7.0 * ((3.0 * Matern52(5.0)).on(0))).on(0),
        2.0 * Function(curve, parameters={"variance": 3.0, "width": 5.0}),
        2.0 * (3.0 * Function(curve, parameters={"variance": 5.0}).on(0)).on(0),
        2.0 * ((3.0 * Matern52(5.0) + 7.0 * Matern12(11.0)).on(0)),
        (2.0 * ((3.0 * Matern52(5.0)).on(0))) * (7.0 * ((11.0 * Matern12(13.0)).on(0))),
    ],
    ids=repr,
)
def test_names_that_would_collide_keep_unique_paths_and_rebuild(kernel):
    found = parameters(kernel)
    numbers = [float(leaf) for leaf in jax.tree_util.tree_leaves(kernel)]
    assert sorted(float(p.value) for p in found.values()) == sorted(numbers)
    assert len(found) == len(numbers)
    for path in found:  # one at a time: each path changes its own number and no other
        changed = set_values(kernel, {path: 99.0})
        assert values(changed) == values(kernel) | {path: 99.0}
        assert sum(float(leaf) == 99.0 for leaf in jax.tree_util.tree_leaves(changed)) == 1
    packing = Packing(kernel)
    assert packing.unpack(packing.pack(kernel)).__class__ is type(kernel)
    np.testing.assert_allclose(list(values(packing.unpack(packing.pack(kernel))).values()), list(values(kernel).values()))


def test_the_colliding_path_names_the_child():
    assert values(2.0 * ((3.0 * Matern52(5.0)).on(0))) == {"variance": 2.0, "kernel.variance": 3.0, "kernel.lengthscale": 5.0}


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("kernel.lengthscale", "kernel.lengthscale", True),
        ("lengthscale", "kernel.lengthscale", False),
        ("kernel", "kernel.lengthscale", False),
        ("*", "lengthscale", True),
        ("*", "kernel.0.lengthscale", True),
        ("kernel.*", "kernel.0.lengthscale", True),
        ("kernel.*", "kernel", False),
        ("kernel.*", "kernels.lengthscale", False),
        ("*.lengthscale", "kernel.0.lengthscale", True),
        ("*.lengthscale", "lengthscale", True),
        ("*.lengthscale", "kernel.lengthscales", False),
        ("*.lengthscale", "kernel.mylengthscale", False),
        ("kernel.*.period", "kernel.period", True),
        ("kernel.*.period", "kernel.0.1.period", True),
        ("kernel.*.period", "kernel.0.period.x", False),
        ("kernel.1*.period", "kernel.12.period", True),
        ("kernel.1*.period", "kernel.2.period", False),
        ("kernel.1*.period", "kernel.1.2.period", False),
        ("kernel.0.l*", "kernel.0.lengthscale", True),
        ("kernel.0.l*", "kernel.0.period", False),
        ("kernel.0.*scale", "kernel.0.lengthscale", True),
        ("k.rnel", "kernel", False),
        ("k.rnel.*", "kernel.lengthscale", False),
        ("*.*.variance", "variance", True),
    ],
)
def test_matches(pattern: str, path: str, fits: bool):
    assert matches(pattern, path) is fits


def test_select_keeps_the_order_of_patterns_and_repeats_nothing():
    paths = ["kernel.0.lengthscale", "kernel.1.lengthscale", "kernel.1.period"]
    assert select("who", ["*.period", "kernel.1.*"], paths) == ["kernel.1.period", "kernel.1.lengthscale"]
    assert select("who", "kernel.*", paths) == paths


def test_freeze_holds_what_fits_and_nothing_else():
    kernel = 2.0 * Matern52() + Periodic(period=bounded(1.0, 0.5, 2.0))
    frozen = freeze(kernel, ["*.period", "0.variance"])
    assert {path: p.mark for path, p in parameters(frozen).items()} == {
        "0.variance": Mark(fixed=True),
        "0.lengthscale": Mark(),
        "1.lengthscale": Mark(),
        "1.period": Mark(fixed=True, bounds=(0.5, 2.0)),
    }
    assert values(frozen) == values(kernel)
    assert not parameters(kernel)["0.variance"].mark.fixed
    assert repr(frozen).startswith("fixed(2.0) * Matern52(lengthscale=1.0) + ")


def test_bound_keeps_values_and_marks_what_fits():
    kernel = Matern52() + Periodic(period=fixed(1.0))
    boxed = bound(kernel, {"*.lengthscale": (0.1, 10), "1.period": (0.5, 2)})
    assert {path: p.mark for path, p in parameters(boxed).items()} == {
        "0.lengthscale": Mark(bounds=(0.1, 10.0)),
        "1.lengthscale": Mark(bounds=(0.1, 10.0)),
        "1.period": Mark(fixed=True, bounds=(0.5, 2.0)),
    }
    assert values(boxed) == values(kernel)
    with pytest.raises(CovaryError, match=re.escape("the bounds of '*.lengthscale' are 2.0 and 2.0; give lower < upper.")):
        bound(kernel, {"*.lengthscale": (2.0, 2.0)})


def test_two_marks_mean_the_same_whoever_set_them():
    made = RationalQuadratic(lengthscale=fixed(1.0), alpha=fixed(2.0))
    assert freeze(RationalQuadratic(lengthscale=1.0, alpha=2.0), "*") == made
    assert rebuild(made, lambda path, value, mark: (value, mark)) == made
    assert made.replace(alpha=2.0) == made


def test_set_values_replaces_by_path_and_understands_marks():
    kernel = 2.0 * Matern52(fixed(1.0)) + Periodic()
    changed = set_values(kernel, {"0.lengthscale": [1.0, 2.0], "0.variance": 5, "1.period": bounded(3.0, 1.0, 4.0)})
    assert values(changed) == {"0.variance": 5.0, "0.lengthscale": [1.0, 2.0], "1.lengthscale": 1.0, "1.period": 3.0}
    found = parameters(changed)
    assert found["0.lengthscale"].mark == Mark(fixed=True)
    assert found["1.period"].mark == Mark(bounds=(1.0, 4.0))
    assert all(p.value.dtype == np.float64 for p in found.values())
    assert values(kernel)["0.variance"] == 2.0
    assert values(set_values(kernel, {"0.lengthscale": fixed(4.0)}))["0.lengthscale"] == 4.0


def test_set_values_never_ignores_a_pattern():
    """It may refuse a pattern or follow it."""
    kernel = Matern52(1.0) + Matern52(2.0)
    try:
        changed = set_values(kernel, {"*.lengthscale": 5.0})
    except CovaryError:
        return
    assert values(changed) == {"0.lengthscale": 5.0, "1.lengthscale": 5.0}


UNKNOWN = "no parameter is called 'kernel.length'; choose from kernel.lengthscale, likelihood.variance."


@pytest.mark.parametrize(
    ("who", "call"),
    [
        ("parameters.freeze", lambda m: freeze(m, "kernel.length")),
        ("parameters.freeze", lambda m: freeze(m, ["kernel.lengthscale", "kernel.length"])),
        ("parameters.bound", lambda m: bound(m, {"kernel.length": (0.1, 1.0)})),
        ("parameters.set_values", lambda m: set_values(m, {"kernel.length": 1.0})),
        ("learn(tie=...)", lambda m: Packing(m, tie=[["kernel.lengthscale", "kernel.length"]])),
    ],
)
def test_an_unknown_path_is_an_error_that_lists_what_there_is(who: str, call):
    with pytest.raises(CovaryError, match=f"^{re.escape(f'{who}: {UNKNOWN}')}$"):
        call(Model(GP(Matern52())))


def test_an_unknown_path_where_there_is_none_says_so():
    with pytest.raises(CovaryError, match=re.escape("choose from none.")):
        freeze(Constant(), "*.lengthscale")


def test_packing_round_trip_leaves_fixed_parameters_out():
    kernel = 2.0 * Matern52([0.5, 3.0]) + Periodic(lengthscale=0.7, period=fixed(1.3))
    packing = Packing(kernel)
    assert packing.names() == ["0.variance", "0.lengthscale[0]", "0.lengthscale[1]", "1.lengthscale"]
    assert packing.size == 4
    theta = packing.pack(kernel)
    np.testing.assert_allclose(theta, np.log([2.0, 0.5, 3.0, 0.7]), rtol=1e-15)
    again = packing.unpack(theta)
    assert parameters(again)["1.period"].mark.fixed
    for path, value in values(kernel).items():
        np.testing.assert_allclose(values(again)[path], value, rtol=1e-15)
    moved = packing.unpack(theta + np.log(2.0))
    np.testing.assert_allclose(moved.terms[0].kernel.lengthscale, [1.0, 6.0], rtol=1e-14)
    assert moved.terms[1].period == 1.3
    np.testing.assert_allclose(packing.pack(moved), theta + np.log(2.0), rtol=1e-14)


def test_a_list_of_one_has_an_index_in_its_name():
    assert Packing(Matern52([1.0]) + Linear()).names() == ["0.lengthscale[0]", "1.lengthscale"]


def test_packing_divides_by_the_natural_scale():
    model = Model(GP(Matern52(2.0)))
    packing = Packing(model, scale={"kernel.lengthscale": 10.0})
    np.testing.assert_allclose(packing.pack(model), [np.log(2.0) / 10.0, 0.0])
    np.testing.assert_allclose(packing.unpack(np.array([0.1, 0.0])).kernel.lengthscale, np.e)
    np.testing.assert_allclose(packing.pull(model, set_values(model, {"kernel.lengthscale": 3.0}))[0], 3.0 * 2.0 * 10.0)


def test_pull_is_the_chain_rule_of_unpack():
    kernel = 2.0 * Matern52([0.5, 3.0]) + Periodic(lengthscale=0.7, period=fixed(1.3))
    packing = Packing(kernel)
    weights = {"0.variance": 1.1, "0.lengthscale": np.array([-0.4, 0.9]), "1.lengthscale": 2.2, "1.period": 7.0}

    def objective(module) -> float:
        return sum(float((weights[path] * p.value**2).sum()) for path, p in parameters(module).items())

    slope = set_values(kernel, {path: 2 * weights[path] * p.value for path, p in parameters(kernel).items()})
    theta, step = packing.pack(kernel), 1e-6
    numeric = [
        (objective(packing.unpack(theta + step * e)) - objective(packing.unpack(theta - step * e))) / (2 * step)
        for e in np.eye(4)
    ]
    np.testing.assert_allclose(packing.pull(kernel, slope), numeric, rtol=1e-7)


def test_a_start_at_zero_is_refused_unless_it_is_held():
    with pytest.raises(CovaryError, match=re.escape("start it above zero, or fix it with fixed(...).")):
        Packing(0.0 * Matern52()).pack(0.0 * Matern52())
    held = fixed(0.0) * Matern52()
    assert Packing(held).pack(held).tolist() == [0.0]


def test_box_is_in_unconstrained_coordinates():
    kernel = bounded(2.0, 0.0, 10.0) * Matern52(bounded([1.0, 2.0], 0.5, np.inf)) + Linear()
    lower, upper = Packing(kernel).box()
    np.testing.assert_allclose(lower, [-np.inf, np.log(0.5), np.log(0.5), -np.inf])
    np.testing.assert_allclose(upper, [np.log(10.0), np.inf, np.inf, np.inf])


def test_tied_parameters_share_one_entry_and_add_their_slopes():
    kernel = 3.0 * Matern52(0.5) + Periodic(0.5) + RationalQuadratic(0.5)
    packing = Packing(kernel, tie=[["*.lengthscale"]])
    assert packing.names() == ["0.variance", "0.lengthscale", "1.period", "2.alpha"]
    moved = packing.unpack(packing.pack(kernel) + np.array([0.0, np.log(4.0), 0.0, 0.0]))
    assert [v for path, v in values(moved).items() if path.endswith("lengthscale")] == pytest.approx([2.0, 2.0, 2.0])
    slope = set_values(kernel, {"0.lengthscale": 1.0, "1.lengthscale": 10.0, "2.lengthscale": 100.0})
    assert packing.pull(kernel, slope)[1] == pytest.approx(111.0 * 0.5)


def test_tied_parameters_start_at_the_first_ones_value():
    kernel = Matern52(2.0) + Matern12(5.0)
    packing = Packing(kernel, tie=[["1.lengthscale", "0.lengthscale"]])
    assert values(packing.unpack(packing.pack(kernel))) == pytest.approx({"0.lengthscale": 5.0, "1.lengthscale": 5.0})


def test_parameters_of_different_shapes_cannot_be_tied():
    with pytest.raises(CovaryError, match=re.escape("0.lengthscale, 1.lengthscale have different shapes")):
        Packing(Matern52([1.0, 2.0]) + Matern12(), tie=[["*.lengthscale"]])


def test_groups_that_overlap_tie_all_their_members():
    """It may refuse the groups or join them, but no member is left behind."""
    kernel = Matern52(2.0) + Matern12(3.0) + SquaredExponential(5.0)
    try:
        packing = Packing(kernel, tie=[["0.lengthscale", "1.lengthscale"], ["1.lengthscale", "2.lengthscale"]])
    except CovaryError:
        return
    moved = values(packing.unpack(packing.pack(kernel) + 1.0))
    assert list(moved.values()) == pytest.approx([2.0 * np.e] * 3)


@pytest.mark.parametrize("held", [0, 1], ids=["first", "second"])
def test_a_held_member_holds_its_group(held: int):
    """It may refuse the group or hold it, but no fixed value moves and no tied value differs."""
    kernel = Matern52(2.0) + Matern12(3.0)
    kernel = freeze(kernel, f"{held}.lengthscale")
    try:
        packing = Packing(kernel, tie=[["*.lengthscale"]])
    except CovaryError:
        return
    moved = values(packing.unpack(packing.pack(kernel) + 1.0))
    assert list(moved.values()) == [[2.0, 3.0][held]] * 2


def test_bounds_of_every_tied_member_are_kept():
    kernel = Matern52(2.0) + Matern12(bounded(2.0, 1.0, 4.0))
    lower, upper = Packing(kernel, tie=[["*.lengthscale"]]).box()
    np.testing.assert_allclose([lower[0], upper[0]], np.log([1.0, 4.0]))


def test_marks_of_function_parameters_are_kept_by_replace():
    kernel = Function(curve, parameters={"height": fixed(2.0), "width": 1.0})
    assert Packing(kernel).names() == ["width"]
    again = kernel.replace(parameters={"height": fixed(3.0), "width": bounded(1.0, 0.5, 2.0)})
    assert {path: p.mark for path, p in parameters(again).items()} == {
        "height": Mark(fixed=True),
        "width": Mark(bounds=(0.5, 2.0)),
    }
