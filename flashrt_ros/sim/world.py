"""The built-in world: MuJoCo physics and cameras around the tabletop arm. Imports no torch and no ROS.

Same seed, same machine: bit-identical scenes, trajectories and images. Rendering never disturbs the physics.
Set MUJOCO_GL=egl where there is no display.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2

import mujoco
import numpy as np

from flashrt_ros.errors import FlashRTError
from flashrt_ros.policies.instruction import KINDS, Instruction, parse
from flashrt_ros.policies.tabletop_arm import ARM, CAMERAS, HOME, LOWER, MAX_VELOCITY, UPPER
from flashrt_ros.policies.tabletop_cell import COLOURS, TABLE_Z
from flashrt_ros.sim import mjcf
from flashrt_ros.sim.layout import Layout, draw_instruction, draw_layout
from flashrt_ros.sim.score import Score, Scorer

CONTROL_NS = 4_000_000  # one control update: 250 Hz
CONTROL_S = CONTROL_NS * 1e-9
MAX_SIZE = 2048
RAIL_LIT, RAIL_DARK = 1.0, 0.3  # grey levels of the belt's rails: running, standing
_SUBSTEPS = round(CONTROL_S / mjcf.TIMESTEP_S)


class WorldError(FlashRTError):
    """The world was asked for something that it does not have or cannot take."""


@dataclass(frozen=True)
class Body:
    """position [3] (m) of a body's centre (a bin's: of its foot), yaw (rad), velocity [3] (m/s)."""

    position: np.ndarray
    yaw: float
    velocity: np.ndarray


@dataclass(frozen=True)
class Objects:
    """Privileged poses, for the expert and for scoring only. belt_velocity: m/s along y, now."""

    cubes: dict[str, Body]
    bins: dict[str, Body]
    belt_velocity: float


class World:
    """size: (width, height) of rendered images. The world is laid out for seed 0 until the first reset."""

    def __init__(self, size: tuple[int, int] = (96, 96)):
        self._model = mujoco.MjModel.from_xml_string(mjcf.build())
        self._data = mujoco.MjData(self._model)
        if not all(1 <= n <= MAX_SIZE for n in size):
            raise WorldError(f"image size {size} (width, height) must lie between 1x1 and {MAX_SIZE}x{MAX_SIZE}")
        self.size = size
        # Each render clears the whole off-screen buffer, so one larger than the image costs time.
        self._model.vis.global_.offwidth, self._model.vis.global_.offheight = size
        self._renderer: mujoco.Renderer | None = None
        self._ticks = 0
        self._lamp_diffuse = self._model.light_diffuse.copy()
        self._ambient = np.array(self._model.vis.headlight.ambient)
        cameras = {name: self._model.cam(name) for name in CAMERAS}
        self._camera_mounts = {name: (camera.pos.copy(), camera.quat.copy()) for name, camera in cameras.items()}
        joint = self._model.joint
        self._arm_qpos = np.array([joint(j.name).qposadr[0] for j in ARM])
        self._arm_dof = np.array([joint(j.name).dofadr[0] for j in ARM])
        self._finger_qpos = np.array([joint(n).qposadr[0] for n in ("finger_left", "finger_right")])
        self._finger_dof = np.array([joint(n).dofadr[0] for n in ("finger_left", "finger_right")])
        self._cube_qpos = {c: int(joint(f"{c}_cube").qposadr[0]) for c in COLOURS}
        self._cube_dof = {c: int(joint(f"{c}_cube").dofadr[0]) for c in COLOURS}
        self._belt_qpos, self._belt_dof = int(joint("belt").qposadr[0]), int(joint("belt").dofadr[0])
        self._rail = self._model.material("rail").id
        self._finger_bodies = {self._model.body(n).id for n in ("finger_left", "finger_right")}
        self.reset("pick", 0)

    @property
    def time_ns(self) -> int:
        """Simulated time since construction. It never goes back, not at a reset either."""
        return self._ticks * CONTROL_NS

    @property
    def instruction(self) -> Instruction:
        return self._instruction

    @property
    def layout(self) -> Layout:
        """What the present seed drew."""
        return self._layout

    def reset(self, task: Instruction | str, seed: int) -> Instruction:
        """Lay out the scene of `seed` for a task and put the arm at HOME, at rest.

        task: an Instruction, its text, or a kind alone (then the seed draws the colours). Returns the instruction.
        Raises InstructionError for a text that is none.
        """
        if isinstance(task, str):
            task = draw_instruction(task, seed) if task in KINDS else parse(task)
        self._instruction, self._layout = task, draw_layout(task, seed)
        mujoco.mj_resetData(self._model, self._data)
        self._place_bodies()
        self._dress_scene()
        self._command = HOME.copy()
        self._belt_travel, self._start_ticks = 0.0, self._ticks
        self._run_belt()
        mujoco.mj_forward(self._model, self._data)
        bins = {c: body.position for c, body in self.objects().bins.items()}
        self._scorer = Scorer(task, self._cube_positions(), self._layout.on_belt, bins)
        return task

    def step(self, command: np.ndarray) -> None:
        """Advance one control update (CONTROL_NS) under joint targets, float64 [7] in the order of JOINTS.

        They are clipped to the position limits. Raises WorldError for a wrong shape or a non-finite value.
        """
        command = np.asarray(command, dtype=np.float64)
        if command.shape != (len(LOWER),) or not np.isfinite(command).all():
            raise WorldError(f"command {command} must be {len(LOWER)} finite joint targets")
        command = np.clip(command, LOWER, UPPER)
        data = self._data
        data.ctrl[: len(LOWER)] = command
        data.ctrl[len(LOWER) :] = np.clip((command - self._command) / CONTROL_S, -MAX_VELOCITY, MAX_VELOCITY)
        self._command = command
        for _ in range(_SUBSTEPS):
            data.qvel[self._belt_dof] = self._belt_velocity
            mujoco.mj_step(self._model, data)
            data.qpos[self._belt_qpos] %= mjcf.BELT_PITCH
        self._ticks += 1
        self._belt_travel += self._belt_velocity * CONTROL_S
        self._run_belt()
        self._scorer.update(CONTROL_S, self._cube_positions(), self._belt_travel, self._named_cube_touched())

    def joints(self) -> tuple[np.ndarray, np.ndarray]:
        """(position [7], velocity [7]) in the order of JOINTS; the gripper's is the whole opening."""
        q, v = self._data.qpos, self._data.qvel
        return (np.append(q[self._arm_qpos], q[self._finger_qpos].sum()),
                np.append(v[self._arm_dof], v[self._finger_dof].sum()))

    def render(self, camera: str) -> np.ndarray:
        """The camera's image now, uint8 [H, W, 3], RGB. The first call opens a graphics context: stay in its thread.

        Raises WorldError for an unknown camera, or where the machine cannot render.
        """
        if camera not in CAMERAS:
            raise WorldError(f"camera {camera!r} is not one of {', '.join(CAMERAS)}")
        if self._renderer is None:
            self._renderer = self._open_renderer()
        # After mj_step the body poses lag the joints by one step. These two functions bring them up to date and write
        # nothing that the next step starts from: a rendered and an unrendered run stay the same run.
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        self._renderer.update_scene(self._data, camera)
        return self._renderer.render()

    def objects(self) -> Objects:
        """Where everything really is."""
        cubes = {}
        for colour in COLOURS:
            q, v = self._cube_qpos[colour], self._cube_dof[colour]
            w, x, y, z = self._data.qpos[q + 3 : q + 7]
            yaw = atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
            cubes[colour] = Body(self._data.qpos[q : q + 3].copy(), yaw, self._data.qvel[v : v + 3].copy())
        bins = {c: Body(np.array([x, y, TABLE_Z]), 0.0, np.zeros(3)) for c, (x, y) in self._layout.bins.items()}
        return Objects(cubes, bins, self._belt_velocity)

    def score(self) -> Score:
        """How the task stands."""
        return self._scorer.score()

    def close(self) -> None:
        """Free the renderer's graphics context."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _open_renderer(self) -> mujoco.Renderer:
        try:
            renderer = mujoco.Renderer(self._model, self.size[1], self.size[0])
        except mujoco.FatalError as error:
            raise WorldError(
                f"no image can be rendered here: {error}. Without a display set MUJOCO_GL=egl before mujoco is first "
                "imported, and have libegl1 and libgl1-mesa-dri installed"
            ) from error
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            renderer.scene.flags[flag] = False
        return renderer

    def _place_bodies(self) -> None:
        data, layout = self._data, self._layout
        data.qpos[self._arm_qpos] = HOME[:-1]
        data.qpos[self._finger_qpos] = HOME[-1] / 2
        for colour, (x, y, z, yaw) in layout.cubes.items():
            at = self._cube_qpos[colour]
            data.qpos[at : at + 7] = (x, y, z, np.cos(yaw / 2), 0, 0, np.sin(yaw / 2))
            if colour in layout.on_belt:
                data.qvel[self._cube_dof[colour] + 1] = layout.belt.velocity(0.0)
        for colour, (x, y) in layout.bins.items():
            data.mocap_pos[self._model.body(f"{colour}_bin").mocapid[0]] = (x, y, TABLE_Z)

    def _run_belt(self) -> None:
        """Set the belt's speed for the next control update, and light its rails while it runs."""
        self._belt_velocity = self._layout.belt.velocity((self._ticks - self._start_ticks) * CONTROL_S)
        self._model.mat_rgba[self._rail, :3] = RAIL_LIT if self._belt_velocity else RAIL_DARK

    def _dress_scene(self) -> None:
        model, layout = self._model, self._layout
        model.light_dir[0] = layout.lamp / np.linalg.norm(layout.lamp)
        model.light_diffuse[:] = self._lamp_diffuse * layout.lamp_level
        model.vis.headlight.ambient[:] = self._ambient * layout.ambient_level
        for name, (position, quaternion) in self._camera_mounts.items():
            shift, turned = np.empty(3), quaternion.copy()
            mujoco.mju_rotVecQuat(shift, layout.shift[name], quaternion)
            mujoco.mju_quatIntegrate(turned, layout.turn[name], 1.0)  # a rotation vector in the camera's own frame
            model.cam(name).pos[:], model.cam(name).quat[:] = position + shift, turned

    def _cube_positions(self) -> dict[str, np.ndarray]:
        return {c: self._data.qpos[at : at + 3].copy() for c, at in self._cube_qpos.items()}

    def _named_cube_touched(self) -> bool:
        cube = self._model.body(f"{self._instruction.colour}_cube").id
        pairs = self._model.geom_bodyid[self._data.contact.geom]
        return any(cube in pair and self._finger_bodies & set(pair) for pair in pairs.tolist())
