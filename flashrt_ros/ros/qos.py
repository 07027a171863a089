"""Quality of service by the names that contracts use."""

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data

RELIABLE = QoSProfile(depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE,
                      durability=DurabilityPolicy.VOLATILE)
# For who must hear every speaker: with depth 1 the chunks of a second policy overwrite the first one's unread, which then
# passes for silent.
ALL_CHUNKS = QoSProfile(depth=16, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE,
                        durability=DurabilityPolicy.VOLATILE)
LATCHED = QoSProfile(depth=1, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE,
                     durability=DurabilityPolicy.TRANSIENT_LOCAL)
# What happened lately, for who comes later.
EVENTS = QoSProfile(depth=64, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE,
                    durability=DurabilityPolicy.TRANSIENT_LOCAL)

# A best-effort subscription matches either reliability of the publisher (REP-2003).
BY_NAME = {"sensor_data": qos_profile_sensor_data, "reliable": RELIABLE, "latched": LATCHED}
