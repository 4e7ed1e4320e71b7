"""Runs of the torture driver (tests/torture): random probes on and off in programs that check themselves."""
import os

from . import capabilities, processes
from .results import FAILED, PASSED, SKIPPED, Job, Result


STRIPPED = "-stripped"  # what a Go program is found by without its symbols is something else


def go_program(name):
    """Built here, as CMake knows no Go."""
    source = capabilities.ROOT / "tests" / "torture" / "targets" / "gc.go"
    program = capabilities.ROOT / "build" / "test" / "torture" / f"{name}.program"
    program.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-ldflags=-s -w"] if name.endswith(STRIPPED) else []
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        build = processes.run(["go", "build", *flags, "-o", str(program), str(source)], program.parent, 300)
        if build.status != 0:
            return None, build.stderr
    return program, ""


def run(name, tests, seconds):
    title = f"torture/{name}"
    is_go = name.startswith("gc")
    for need in ["ptrace"] + (["go"] if is_go else []):
        if reason := capabilities.lacking(need):
            return [Result(title, SKIPPED, reason)]
    program, problem = go_program(name) if is_go else (tests / f"torture_{name}", "")
    if program is None:
        return [Result(title, FAILED, problem)]
    command = ["env", "GOGC=1", str(tests / "torture"), "--cycles", "100000", "--seconds", str(seconds),
               "--seed", str(os.getpid()), "-v", "--", str(program)]
    done = processes.run(command, capabilities.ROOT / "build" / "test" / "torture" / name, seconds + 120)
    if done.timed_out or done.status != 0:
        how = "hung" if done.timed_out else processes.describe_status(done.status)
        return [Result(title, FAILED, f"{how}: {' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-2000:]}", done.seconds)]
    return [Result(title, PASSED, "", done.seconds)]


def jobs(preset, seconds):
    tests = capabilities.ROOT / "build" / preset / "tests"
    names = sorted(source.stem for source in (capabilities.ROOT / "tests" / "torture" / "targets").iterdir())
    names.append("gc" + STRIPPED)
    return [Job("torture", f"torture/{name}", lambda name=name: run(name, tests, seconds)) for name in names]
