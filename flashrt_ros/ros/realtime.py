"""What Linux and Python offer a thread that must not be late: SCHED_FIFO, and no search for garbage among old objects.

Not done, because it brought nothing measurable here: mlockall, larger allocator thresholds, switching the collector off.
"""

from __future__ import annotations

import gc
import os
import resource


def begin(priority: int) -> str:
    """For the calling thread. priority: of SCHED_FIFO, 1 to 99; 0: stay as it is. Returns why it was refused, or empty."""
    # A full collection takes tens of milliseconds over what rclpy and numpy have loaded, and finds nothing there.
    gc.collect()
    gc.freeze()
    if not priority:
        return ""
    try:
        # Reset on fork: threads that the middleware starts later stay at their priority.
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except OSError as error:
        allowed = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
        return (f"realtime_priority {priority} was refused ({error.strerror}), so the control loop runs at normal priority; this "
                f"process is allowed up to {allowed}. Raise rtprio for this user in /etc/security/limits.conf and log in again; "
                f"in a container run with --cap-add SYS_NICE or --ulimit rtprio=99; with systemd set LimitRTPRIO=; or set "
                f"realtime_priority to 0")
    return ""


def end() -> None:
    """Back to normal, for the thread that called begin."""
    gc.unfreeze()
    if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO:
        # To clear the flag again is a privilege.
        os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
