"""The tabletop cell: what stands around the arm, and where. The one description that the physics world, the servo and
the camera-based policy share. Pure Python; imports nothing. World frame and units as in tabletop_arm.py.

Seen from the arm: cubes lie in the near zone, the belt runs across behind them, and behind the belt the bins stand in
a row.
"""

from __future__ import annotations

COLOURS = ("red", "green", "blue", "yellow")

TABLE_Z = 0.0
CUBE = 0.04  # edge
CUBE_X = (0.215, 0.335)  # where the centres of cubes on the table lie
CUBE_Y = (-0.23, 0.23)

BELT_X = 0.43  # centre line; the belt runs along y, past both edges of the table
BELT_WIDTH = 0.10
BELT_Z = 0.010  # its top
BELT_SPEED = (0.08, 0.12)  # m/s along y while it runs; it stops and goes
BELT_RUNS, BELT_RESTS = (0.5, 1.1), (0.4, 0.9)  # s at a time; its rails are lit while it runs, so one image tells

BIN_X = 0.57  # centre of the row
BIN_Y = (-0.195, -0.065, 0.065, 0.195)  # centres of its four places, each jittered by up to BIN_JITTER in x and y
BIN_JITTER = 0.012
BIN_INNER = 0.084  # edge of the square floor
BIN_WALL = 0.004  # thickness of walls and floor
BIN_HEIGHT = 0.032  # top of the walls
