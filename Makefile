# From a machine with Python, a C/C++ compiler and git to a moving arm (`make demo`) and to the tests (`make test`).
# Everything is installed into .venv* and build/ of this checkout.

ROS_DISTRO ?= kilted
PYTHON     ?= $(shell command -v python3.11 || command -v python3.12 || echo python3)
PIP_ARGS   ?=
TESTS      ?= test

VENV := $(if $(filter kilted,$(ROS_DISTRO)),.venv,.venv-$(ROS_DISTRO))
BIN  := $(VENV)/bin
INTERFACES := CMakeLists.txt package.xml $(wildcard msg/*.msg) $(wildcard srv/*.srv)

export MUJOCO_GL ?= egl
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Temporary files stay in the checkout, too.
export TMPDIR := $(CURDIR)/build/tmp
$(shell mkdir -p $(TMPDIR))
# One thread per process: three nodes and a physics world share the cores.
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test nodes-test colcon-test pip-test bars install clean

help:
	@echo "make demo       ten episodes of the built-in robot; ends with a table and pictures in out/demo/"
	@echo "make test       all tests (ROS_DISTRO=kilted, or jazzy); TESTS=path to choose"
	@echo "make bars       the long measurements behind the README's figures (not part of CI)"
	@echo "make install    only make the environment;  make clean removes it"

demo: install
	@$(BIN)/flashrt demo

test: install
	@$(BIN)/python -m pytest $(TESTS)

# Only what talks to ROS: the second distribution in CI.
# Drills and measurements are left to `make test`: they look at the arm, not at the distribution.
nodes-test: install
	@$(BIN)/python -m pytest test/ros --ignore-glob='*drill*' --ignore-glob='*fault_*' --ignore-glob='*loop_bench*'

colcon-test: install
	@scripts/colcon_test.sh $(VENV)

pip-test: install
	@scripts/pip_test.sh $(PYTHON)

bars: install
	@scripts/bars.sh $(VENV)

install: $(VENV)/.messages

$(VENV)/.packages: requirements/base.txt requirements/$(ROS_DISTRO).txt scripts/check_system.sh
	@PYTHON=$(PYTHON) scripts/check_system.sh
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Python packages into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet $(PIP_ARGS) -r requirements/base.txt -r requirements/$(ROS_DISTRO).txt
	@$(BIN)/python scripts/link_checkout.py
	@touch $@

$(VENV)/.messages: $(VENV)/.packages $(INTERFACES)
	@echo "Compiling the package's messages ..."
	@$(BIN)/python -c "from pathlib import Path; from flashrt_ros.ros.build_messages import build_messages; build_messages(Path('build/messages-$(ROS_DISTRO)'))"
	@touch $@

clean:
	rm -rf .venv .venv-jazzy build install log out .pytest_cache .hypothesis
