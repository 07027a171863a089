"""Instructions and their text: what is said is what is done."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.errors import FlashRTError
from flashrt_ros.policies.instruction import KINDS, Instruction, InstructionError, parse
from flashrt_ros.policies.tabletop_cell import COLOURS

colours = st.sampled_from(COLOURS)
instructions = st.one_of(
    st.builds(Instruction, st.sampled_from([k for k in KINDS if k != "place"]), colours),
    st.builds(Instruction, st.just("place"), colours, colours),
)


@given(instructions, st.sampled_from([str.lower, str.upper, str.title]), st.text(" \t\n", min_size=1, max_size=3))
def test_text_parses_back_whatever_case_and_spaces(instruction, case, space):
    """The text is the interface to people; capitals and a stray newline must not stop a robot."""
    text = space + case(instruction.text).replace(" ", space) + space
    assert parse(text) == instruction


@pytest.mark.parametrize(
    "text", ["", "pick up the purple cube", "put the red cube in the pink bin", "pick up the red cube now", "dance"]
)
def test_an_unknown_text_is_refused_with_the_way_out(text):
    """The message repeats the text and lists the forms, so that the next try is right."""
    with pytest.raises(InstructionError) as caught:
        parse(text)
    message = str(caught.value)
    assert repr(text) in message and "pick up the {colour} cube" in message and "yellow" in message
    assert isinstance(caught.value, FlashRTError)


@pytest.mark.parametrize(
    "fields, named", [(("fly", "red"), "fly"), (("pick", "pink"), "pink"), (("place", "red"), "None"),
                      (("pick", "red", "blue"), "blue")]
)
def test_an_impossible_instruction_cannot_be_made(fields, named):
    """The value found is in the message."""
    with pytest.raises(InstructionError, match=named):
        Instruction(*fields)
