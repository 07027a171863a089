"""The robot's own description bounds the contract: whichever is tighter counts, and a description may say anything."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from player_scenes import LIMITS, NAMES

from flashrt_ros.player.limits import FAR, Limits
from flashrt_ros.player.urdf import JointRange, UrdfError, joint_ranges, tighten

URDF = """<?xml version="1.0"?>
<robot name="arm">
  <link name="base"/>
  <joint name="pan" type="revolute"><limit lower="-1.5" upper="2.5" velocity="3" effort="1e9"/></joint>
  <joint name="lift" type="continuous"><limit velocity="0.5" effort="1"/></joint>
  <joint name="grip" type="prismatic"><limit upper="0.03" velocity="0.2" effort="1"/></joint>
  <joint name="finger" type="prismatic"><mimic joint="grip"/><limit upper="0.03" velocity="0.2" effort="1"/></joint>
  <joint name="flange" type="fixed"/>
  <transmission name="t"><joint name="pan"><hardwareInterface/></joint></transmission>
  <ros2_control name="c" type="system"><joint name="grip"/></ros2_control>
</robot>"""


def test_the_tighter_limit_counts_joint_by_joint():
    """Each side knows something: the contract the table in front of the arm, the URDF the motors."""
    limits, warnings = tighten(LIMITS, joint_ranges(URDF, NAMES))
    np.testing.assert_array_equal(limits.lower, [-1.5, -1.0, 0.0])
    np.testing.assert_array_equal(limits.upper, [2.0, 1.0, 0.03])
    np.testing.assert_array_equal(limits.velocity, [2.0, 0.5, 0.1])
    np.testing.assert_array_equal(limits.acceleration, LIMITS.acceleration)
    assert len(warnings) == 3


def test_a_contract_that_allows_more_is_a_warning_with_joint_and_both_values():
    """Somebody took a figure from the wrong data sheet; that the URDF saves him must not hide it."""
    warnings = tighten(LIMITS, joint_ranges(URDF, NAMES))[1]
    assert warnings[0] == "joint 'pan': position [-2, 2] of the contract is wider than [-1.5, 2.5] of the URDF, which counts"
    assert "'lift': velocity 1.5" in warnings[1] and "0.5 of the URDF" in warnings[1]
    assert "'grip'" in warnings[2] and "[0, 0.04]" in warnings[2] and "[0, 0.03]" in warnings[2]


def test_a_limit_that_the_contract_does_not_give_is_not_wider():
    """Without a position limit the joint turns for ever, as far as the contract knows: the URDF just adds to it."""
    endless = Limits(("pan",), np.array([-FAR]), np.array([FAR]), np.array([1.0]), np.array([1.0]))
    limits, warnings = tighten(endless, joint_ranges(URDF, ("pan",)))
    assert (limits.lower[0], limits.upper[0]) == (-1.5, 2.5) and warnings == ()


def test_a_continuous_joint_has_no_position_limit():
    """Whatever its <limit> says of bounds: there they mean nothing."""
    text = URDF.replace('<limit velocity="0.5"', '<limit lower="0" upper="0" velocity="0.5"')
    assert joint_ranges(text, ("lift",))["lift"] == JointRange(-np.inf, np.inf, 0.5)
    assert joint_ranges('<robot><joint name="a" type="continuous"/></robot>', ("a",))["a"].velocity == np.inf


def change(old, new):
    assert old in URDF
    return URDF.replace(old, new)


@pytest.mark.parametrize("text, joint, said", [
    (URDF, "wrist", "joint 'wrist': the URDF has 0 of that name; it must have one. It can move pan, lift, grip"),
    (URDF, "finger", "joint 'finger': in the URDF it mimics 'grip'"),
    (URDF, "flange", "joint 'flange': its type in the URDF is 'fixed'"),
    (change('"lift" type', '"pan" type'), "pan", "joint 'pan': the URDF has 2 of that name"),
    (change('lower="-1.5" ', 'lower="2.5" '), "pan", "position limits [2.5, 2.5]"),
    (change('lower="-1.5" ', 'lower="${-pi/2}" '), "pan", "lower limit '${-pi/2}'"),
    (change('lower="-1.5" ', 'lower="nan" '), "pan", "lower limit 'nan'"),
    (change('upper="2.5" ', 'upper="1e999" '), "pan", "upper limit '1e999'"),
    (change('velocity="3"', 'velocity="0"'), "pan", "velocity limit 0"),
    (change('<limit lower="-1.5" upper="2.5" velocity="3" effort="1e9"/>', ""), "pan", "<limit> is missing"),
    ("<sdf/>", "pan", "its root is <sdf>"),
    ("", "pan", "not XML"),
    (URDF[:-20], "pan", "not XML"),
])
def test_what_cannot_be_used_is_refused_by_name(text, joint, said):
    """A joint of which the URDF says nothing usable must not be driven as if it had no limits."""
    with pytest.raises(UrdfError) as caught:
        joint_ranges(text, (joint,))
    assert said in str(caught.value)


LAUGHS = '<!DOCTYPE robot [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {longer} "{10 * f"&{name};"}">' for name, longer in zip("abcdefgh", "bcdefghi")) + "]>"


@pytest.mark.parametrize("doctype", [
    LAUGHS, '<!DOCTYPE robot SYSTEM "http://localhost:1/x.dtd">', '<!DOCTYPE robot [<!ENTITY x SYSTEM "file:///etc/passwd">]>'])
def test_entities_are_refused_before_they_are_read(doctype):
    """A description comes over the network: it must neither eat the memory nor read a file nor call anybody."""
    text = URDF.replace('<?xml version="1.0"?>', doctype)
    with pytest.raises(UrdfError, match="document type"):
        joint_ranges(text.replace('name="arm"', 'name="&i;"'), NAMES)


def test_ranges_that_do_not_meet_are_refused():
    """The joint could go nowhere; which of the two is wrong only a person can say."""
    with pytest.raises(UrdfError, match="'pan'.*leave no range"):
        tighten(LIMITS, joint_ranges(URDF, NAMES) | {"pan": JointRange(-9.0, -2.5, 1.0)})


@given(st.text() | st.text(alphabet="<>/=\"'&;![]robotjnlmiu \n").map(lambda s: f"<robot>{s}</robot>"))
def test_no_text_does_more_than_be_refused(text):
    """Whatever stands on the topic, the node has one kind of error to show."""
    with pytest.raises(UrdfError):
        joint_ranges(text, ("pan",))
