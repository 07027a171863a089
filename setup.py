"""Only what pyproject.toml can't say: the files that lie beside the code. They go where colcon would put them too."""

from glob import glob

from setuptools import setup

setup(data_files=[
    ("share/flashrt_ros", ["CMakeLists.txt", "package.xml"]),
    ("share/flashrt_ros/config", glob("config/*.*")),
    ("share/flashrt_ros/msg", glob("msg/*.msg")),
    ("share/flashrt_ros/srv", glob("srv/*.srv")),
])
