"""flashrt_ros: vision-language-action policies in real time on ROS 2.

Importing this package imports neither rclpy nor torch; see docs/architecture.md for who may import whom.
"""

from pkgutil import extend_path

# rosidl installs the compiled messages as a Python package of the same name (`flashrt_ros.msg`, `flashrt_ros.srv`)
# somewhere else on sys.path. Joining the two directories lets a checkout use them without being installed itself.
__path__ = extend_path(__path__, __name__)

__version__ = "0.1.0"
