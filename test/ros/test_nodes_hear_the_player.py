"""What the policy takes for the player's place: a chunk is entered by it, so a wrong one is a wrong motion."""

from flashrt_ros.chunk.chunk import Cursor
from flashrt_ros.msg import ExecutionState
from flashrt_ros.ros.convert import to_time
from flashrt_ros.ros.player_states import KEPT, PlayerStates

MS = 1_000_000
JOINTS = ("elbow", "wrist")


def state(tick, **fields):
    """As of tick * 20 ms; its joints come in another order than the policy's."""
    message = ExecutionState(player=3, tick=tick, session=5, epoch=1, seq=2, step=0.5, **{
        "names": ["wrist", "elbow"], "position": [0.1 * tick, 0.2], "velocity": [1.0, 2.0]} | fields)
    message.header.stamp = to_time(20 * MS * tick)
    return message


def heard(*states):
    player = PlayerStates()
    for message in states:
        player.hear(message)
    return player


def test_the_newest_state_that_is_not_after_the_decision_counts():
    """A decision falls between two ticks; what came since says where the player is now, not where it was."""
    cursor, told = heard(*map(state, range(1, 9))).at(97 * MS, JOINTS)
    assert cursor == Cursor(player=3, tick=4, session=5, epoch=1, seq=2, step=0.5, lag_ns=17 * MS)
    assert told.position.tolist() == [0.2, 0.4] and told.velocity.tolist() == [2.0, 1.0]


def test_without_a_state_of_the_time_nothing_is_said():
    """As when the clock has just jumped back: a later place would be entered as if it had been reached."""
    assert heard().at(0, JOINTS) == heard(state(5)).at(99 * MS, JOINTS) == (Cursor(), None)
    assert heard(*map(state, range(1, KEPT + 5))).at(40 * MS, JOINTS) == (Cursor(), None)


def test_a_player_that_does_not_know_its_arm_has_a_cursor_but_commands_nothing():
    """It publishes before the first joint states come: no decision may fail for it."""
    for fields in ({"position": [], "velocity": []}, {"names": ["wrist", "shoulder"]}):
        cursor, told = heard(state(4, **fields)).at(80 * MS, JOINTS)
        assert cursor.tick == 4 and told is None
