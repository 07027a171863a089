"""Pins that joints are found by name: drivers differ in order and extras, and a policy fed in the wrong order throws
the arm across the table."""

from array import array
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.errors import FlashRTError
from flashrt_ros.decode.joints import JointError, JointSelector

FIELDS = ("position", "velocity", "effort")
FINITE = st.floats(-1e6, 1e6)
NAMES = st.text("abc_.", min_size=1, max_size=5)
JOINTS = st.dictionaries(NAMES, st.tuples(FINITE, FINITE, FINITE), min_size=1, max_size=8)


def state(names, position=(), velocity=(), effort=()):
    fields = {"position": position, "velocity": velocity, "effort": effort}
    return SimpleNamespace(name=list(names), **{k: array("d", v) for k, v in fields.items()})


@given(JOINTS, st.data())
def test_values_follow_their_names_whatever_the_order_and_the_extras(joints, data):
    """Any selection over position, velocity and effort, from one selector over messages that are ordered differently
    (so that the cached index map is found out when it goes stale)."""
    entries = [(field, joint) for field in FIELDS for joint in joints]
    chosen = data.draw(st.lists(st.sampled_from(entries), min_size=1, unique=True))
    selector = JointSelector(tuple(f"{field}.{joint}" for field, joint in chosen))
    expected = np.array([joints[joint][FIELDS.index(field)] for field, joint in chosen], np.float32)
    for _ in range(3):
        order = data.draw(st.permutations(list(joints)))
        selected = selector(state(order, *zip(*(joints[j] for j in order))))
        assert selected.dtype == np.float32
        np.testing.assert_array_equal(selected, expected)


def test_bag_messages_with_numpy_fields_are_read_alike():
    message = SimpleNamespace(name=["b", "a"], position=np.array([2.0, 1.0]), velocity=np.zeros(0), effort=np.zeros(0))
    np.testing.assert_array_equal(JointSelector(("position.a", "position.b"))(message), [1, 2])


@pytest.mark.parametrize("apply, expected", [((), [180, -90]), (("deg2rad",), [np.pi, -np.pi / 2])])
def test_degrees_become_radians_at_the_edge(apply, expected):
    selected = JointSelector(("position.a", "velocity.a"), apply)(state("a", [180.0], [-90.0]))
    np.testing.assert_allclose(selected, expected, rtol=1e-6)


def test_radians_become_degrees_for_policies_trained_in_them():
    np.testing.assert_allclose(JointSelector(("position.a",), ("rad2deg",))(state("a", [np.pi])), [180], rtol=1e-6)


@pytest.mark.parametrize("message, words", [
    (state(["elbow", "wrist"], [0, 0]), ["joint shoulder is missing", "elbow, wrist"]),
    (state([]), ["joint shoulder, elbow is missing", "none"]),
    (state(["shoulder", "elbow", "elbow"], [0, 0, 0]), ["joint elbow", "more than once"]),
    (state(["shoulder", "elbow"], [0.0]), ["position has 1 values for 2 names", "shoulder, elbow"]),
    (state(["shoulder", "elbow"], []), ["position has 0 values for 2 names"]),
    (state(["shoulder", "elbow"], [0, 0, 0]), ["position has 3 values for 2 names"]),
    (state(["shoulder", "elbow"], [0, np.nan]), ["position.elbow = nan", "finite"]),
    (state(["shoulder", "elbow"], [-np.inf, 0]), ["position.shoulder = -inf", "finite"]),
    (state(["shoulder", "elbow"], [1e300, 0]), ["position.shoulder = 1e+300", "finite"]),
])
def test_a_message_without_the_joints_is_refused_by_name(message, words):
    with pytest.raises(JointError) as error:
        JointSelector(("position.shoulder", "position.elbow"), name="arm")(message)
    for word in ["input 'arm'", *words]:
        assert word in str(error.value)
    assert isinstance(error.value, FlashRTError)


def test_what_is_not_selected_may_be_missing_or_broken():
    """A gripper without velocity, a doubled joint of another arm or its NaN are no business of this input."""
    message = state(["a", "b", "b"], [1.0, np.nan, 0.0])
    np.testing.assert_array_equal(JointSelector(("position.a",))(message), [1])


def test_a_refused_message_leaves_the_selector_usable():
    """One bad message from a second publisher on the topic must not stop the input."""
    selector = JointSelector(("position.a",))
    good = state("ba", [1.0, 2.0])
    selector(good)
    for bad in (state("b", [1.0]), state("aa", [1.0, 2.0]), state("ba", [])):
        with pytest.raises(JointError):
            selector(bad)
        np.testing.assert_array_equal(selector(good), [2])


@pytest.mark.parametrize("select, apply, word", [
    ((), (), "at least one"),
    (("position.a", "position.a"), (), "none twice"),
    (("torque.a",), (), "'torque.a'"),
    (("position.",), (), "'position.'"),
    (("a",), (), "'a'"),
    (("position.a",), ("deg2grad",), "deg2rad, rad2deg"),
    (("position.a",), ("deg2rad", "rad2deg"), "one of"),
    (("position.a", "effort.a"), ("deg2rad",), "cannot convert effort.a"),
])
def test_a_malformed_selection_is_refused_at_once(select, apply, word):
    """Before any message: configuration errors belong to configuration."""
    with pytest.raises(JointError, match=f"input 'arm'.*{word}"):
        JointSelector(select, apply, name="arm")
