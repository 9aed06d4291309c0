"""A program in its own mount namespace: the power fails while eight threads write.

A power cut is an image of the disk at one moment: the writer is stopped, the image behind the loop device is copied
without writes to it, and the copy is mounted. It lacks the contents of the page cache. With ``unflushed`` the writer's
flushes do nothing; if that loses nothing, this program proves nothing.

Prints one JSON object: how many cuts, how many of them lost something, the counts of the audits.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path

from kgd.git.layout import locate
from tests.builders import new_layout
from tests.faults.audit import Findings, audit
from tests.faults.nursery import Child
from tests.faults.scribes import scribble

SIZE = 48 << 20
MOUNTS = ("loop", "loop,commit=1,noauto_da_alloc")


def main() -> None:
    place, kind, first, cuts = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    ram = place / "ram"
    ram.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", str(ram)], check=True)
    try:
        template = made_template(ram)
        total, failed = Findings(), 0
        for seed in range(first, first + cuts):
            found = cut_power(ram, template, seed, flushed=kind == "flushed")
            found.complaints = [f"seed {seed}: {complaint}" for complaint in found.complaints]
            failed += bool(found.complaints)
            total.add(found)
        total.complaints = total.complaints[:8]
        print(json.dumps({"cuts": cuts, "failed": failed, "found": asdict(total)}))
    finally:
        subprocess.run(["umount", "-l", str(ram)], check=True)


def made_template(ram: Path) -> Path:
    """An image with a new workspace on it, all of it flushed."""
    image, disk = ram / "template.img", ram / "disk"
    disk.mkdir()
    with open(image, "wb") as file:
        file.truncate(SIZE)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True, stdout=subprocess.DEVNULL)
    mounted(image, disk, MOUNTS[0])
    with Child(made, str(disk / "knowledge")) as maker:  # a separate process, so that nothing stays open
        maker.hear()
    unmounted(disk)
    return image


def cut_power(ram: Path, template: Path, seed: int, *, flushed: bool) -> Findings:
    dice = random.Random(seed)
    running, copied, disk, diary = ram / "running.img", ram / "cut.img", ram / "disk", ram / "diary"
    copy(template, running)
    diary.unlink(missing_ok=True)
    device = mounted(running, disk, MOUNTS[seed % 2])
    with Child(scribble if flushed else scribble_unflushed, str(disk / "knowledge"), str(diary), seed, False) as child:
        child.hear()
        time.sleep(dice.uniform(0.1, 1.2))
        child.signal(signal.SIGSTOP)
        still_copy(running, copied, device)
        child.kill_all()  # its children would write to the copy, which is mounted at the same place
    unmounted(disk)
    mounted(copied, disk, MOUNTS[0])
    try:
        with Child(audited, str(disk / "knowledge"), str(diary)) as auditor:
            found: Findings = auditor.hear(60)
            return found
    except (AssertionError, EOFError) as error:  # a hang or a crash is a failure like any other
        return Findings(complaints=[f"the audit ended: {error!r}"])
    finally:
        unmounted(disk)


def made(line: Connection, place: str) -> None:
    new_layout(Path(place))
    line.send("made")


def scribble_unflushed(line: Connection, place: str, diary: str, seed: int, publish: bool) -> None:
    os.fsync = lambda fd: None
    scribble(line, place, diary, seed, publish)


def audited(line: Connection, place: str, diary: str) -> None:
    try:
        layout = locate(Path(place))
        assert layout is not None
        line.send(audit(layout, Path(diary)))
    except Exception as error:  # noqa: BLE001  any error breaks the promise about the disk
        line.send(Findings(complaints=[repr(error)]))


def still_copy(source: Path, copied: Path, device: str) -> None:
    """Copy while the device has no pending requests: its writes reach the image at once."""
    for _ in range(200):
        before = written(device)
        copy(source, copied)
        if before[1] == 0 and written(device) == before:
            return
    raise AssertionError("the disk is never still")


def written(device: str) -> tuple[int, int]:
    """Sectors written so far, and pending requests."""
    fields = Path(f"/sys/block/{device}/stat").read_text().split()
    return int(fields[6]), int(fields[8])


def mounted(image: Path, disk: Path, options: str) -> str:
    """Mount the image and return the name of the loop device."""
    subprocess.run(["mount", "-o", options, str(image), str(disk)], check=True)
    said = subprocess.run(["findmnt", "-no", "SOURCE", str(disk)], capture_output=True, text=True, check=True).stdout
    return said.strip().removeprefix("/dev/")


def unmounted(disk: Path) -> None:
    for _ in range(100):
        if subprocess.run(["umount", str(disk)], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.05)
    subprocess.run(["umount", "-l", str(disk)], check=True)


def copy(source: Path, goal: Path) -> None:
    goal.unlink(missing_ok=True)
    subprocess.run(["cp", "--sparse=always", str(source), str(goal)], check=True)


if __name__ == "__main__":
    main()
    shutil.rmtree(Path(sys.argv[1]) / "ram", ignore_errors=True)
