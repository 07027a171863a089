"""The disk tier: a capsule as one safetensors file with a JSON header, written so that no half of it can ever be taken for a whole.

The tensors lie under the slab's names, the last chunk under `last_chunk`, evidence under the names of evidence.py; any safetensors reader
shows them. The header's metadata `flashrt_capsule` holds the record, a SHA-256 of each tensor, and one over all of that.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from stat import S_ISREG

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes

from flashrt_ros.capsule.checks import CONTENT, FILE, CapsuleRefused
from flashrt_ros.capsule.evidence import Evidence
from flashrt_ros.capsule.record import Record
from flashrt_ros.capsule.stored import Stored, content_digest, root_of

FORMAT = 1
HEADER = "flashrt_capsule"
LAST_CHUNK = "last_chunk"
SUFFIX = ".capsule.safetensors"
LARGEST = 4 << 30  # bytes


def save(path: Path, stored: Stored, evidence: Evidence | None = None) -> None:
    """Write the file whole or not at all: to a temporary one, flushed to the disk, then renamed. Raises OSError, and CapsuleRefused for a
    capsule whose content has changed since it was sealed."""
    stored.verify()
    tensors = dict(stored.tensors)
    if stored.record.chunk is not None:
        tensors[LAST_CHUNK] = torch.from_numpy(stored.record.chunk.positions.copy())
    if evidence is not None:
        tensors |= evidence.arrays()
    plain = {"format": FORMAT, "record": stored.record.to_json(), "slab": list(stored.tensors),
             "contents": {name: content_digest(tensor) for name, tensor in tensors.items()},
             "evidence": None if evidence is None else evidence.to_json()}
    data = to_bytes({name: tensor.contiguous() for name, tensor in tensors.items()},
                    {HEADER: json.dumps({**plain, "root": root_of(plain)})})
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load(path: Path) -> tuple[Stored, Evidence | None]:
    """Raises CapsuleRefused for a file that is missing, no capsule, cut short, of another version, or damaged anywhere."""
    try:
        status = path.stat()
    except OSError as error:
        raise CapsuleRefused(FILE, f"{path}: {error.strerror}; give the path of a file that ends in {SUFFIX}") from error
    if not S_ISREG(status.st_mode):  # to open a pipe, for one, would wait for a writer
        raise CapsuleRefused(FILE, f"{path}: not a capsule, for it is not a regular file; give the path of a file that ends in {SUFFIX}")
    if status.st_size > LARGEST:
        raise CapsuleRefused(FILE, f"{path}: {status.st_size} bytes; a capsule has at most {LARGEST}")
    try:
        with safe_open(path, framework="pt") as file:
            plain = json.loads((file.metadata() or {})[HEADER])
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        raise CapsuleRefused(FILE, f"{path}: not a capsule, or cut short ({type(error).__name__}: {error})") from error
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        found = plain.get("format") if isinstance(plain, dict) else plain
        raise CapsuleRefused(FILE, f"{path}: format {found!r}; this version reads {FORMAT}")
    _check_digests(path, plain, tensors)
    try:
        stored = Stored(Record.from_json(plain["record"], tensors[LAST_CHUNK].numpy() if LAST_CHUNK in tensors else None),
                        {name: tensors[name] for name in plain["slab"]}, {name: plain["contents"][name] for name in plain["slab"]})
        evidence = None if plain["evidence"] is None else Evidence.from_json(plain["evidence"], tensors)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CapsuleRefused(FILE, f"{path}: its header lacks something ({type(error).__name__}: {error})") from error
    return stored, evidence


def _check_digests(path: Path, plain: dict, tensors: dict[str, torch.Tensor]) -> None:
    try:
        contents, root = dict(plain["contents"]), plain.pop("root")
        same = root == root_of(plain)
    except (KeyError, TypeError, ValueError) as error:
        raise CapsuleRefused(FILE, f"{path}: its header lacks something ({type(error).__name__}: {error})") from error
    if not same:
        raise CapsuleRefused(CONTENT, f"{path}: the header is not what was written: the file is damaged; take another")
    if contents.keys() != tensors.keys():
        names = ", ".join(sorted(contents.keys() ^ tensors.keys()))
        raise CapsuleRefused(CONTENT, f"{path}: header and tensors disagree about {names}: the file is damaged; take another")
    for name, tensor in tensors.items():
        if content_digest(tensor) != contents[name]:
            raise CapsuleRefused(CONTENT, f"{path}: the content of '{name}' is not what was written: the file is damaged; take another")
