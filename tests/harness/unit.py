"""GoogleTest executables. Results are read from the running output, so a crash or a hang costs only its own test: the
rest of the executable is run again without it. Every test that the executable lists must have reported."""
import re
import shutil
import subprocess
import time
from pathlib import Path

from . import capabilities, processes
from .results import FAILED, PASSED, SKIPPED, Job, Result

RUN = re.compile(r"^\[ RUN      \] (\S+)$")
DONE = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+).*\((\d+) ms\)$")
TEST_SECONDS = 60  # one test may stay silent this long
STATUS = {"OK": PASSED, "FAILED": FAILED, "SKIPPED": SKIPPED}


def list_tests(executable):
    out = subprocess.run([executable, "--gtest_list_tests"], capture_output=True, text=True, timeout=30, check=True)
    tests, suite = [], ""
    for line in out.stdout.splitlines():
        line = line.split("#")[0].rstrip()
        if not line or line.startswith("Running main"):
            continue
        if line.startswith("  "):
            tests.append(suite + line.strip())
        else:
            suite = line
    return [t for t in tests if ".DISABLED_" not in t and not t.startswith("DISABLED_")]


def parse(output):
    """-> {test: (status, text, seconds)} of the finished ones, and the one that was running at the end, if any."""
    finished, current, lines = {}, None, []
    for line in output.splitlines():
        if match := RUN.match(line):
            current, lines = match.group(1), []
        elif (match := DONE.match(line)) and match.group(2) == current:
            finished[current] = (STATUS[match.group(1)], "\n".join(lines), int(match.group(3)) / 1000)
            current = None
        elif current:
            lines.append(line)
    return finished, current, "\n".join(lines)


def skip_reason(text):
    lines = [l for l in text.splitlines() if l.strip() and not re.search(r": Skipped$", l)]
    return " ".join(lines).strip() or "no reason given"


def filter_for(todo, every):
    """A --gtest_filter value, short even where thousands of tests are wanted (one argument is limited to 128 KB)."""
    left_out = [t for t in every if t not in set(todo)]
    if not left_out:
        return "*"
    return ":".join(todo) if len(todo) <= len(left_out) else "*-" + ":".join(left_out)


def run_executable(executable, folder, wanted, every, limit):
    results, todo = [], list(wanted)
    work = capabilities.ROOT / "build" / "test" / "unit" / folder
    shutil.rmtree(work, ignore_errors=True)
    while todo:
        work.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        command = [executable, "--gtest_color=no", "--gtest_filter=" + filter_for(todo, every)]
        run = processes.run(command, work, limit, silence=True)
        finished, running, partial = parse(run.stdout)
        for test, (status, text, seconds) in finished.items():
            detail = skip_reason(text) if status == SKIPPED else text
            results.append(Result(f"unit/{folder}/{test}", status, detail if status != PASSED else "", seconds))
        todo = [t for t in todo if t not in finished]
        if not todo:
            break
        if running in todo:
            how = f"hung (no end within {limit} s)" if run.timed_out else processes.describe_status(run.status)
            results.append(Result(f"unit/{folder}/{running}", FAILED, f"{how}\n{partial}\n{run.stderr[-8000:]}",
                                  time.monotonic() - begin))
            todo.remove(running)
        else:
            results += [Result(f"unit/{folder}/{t}", FAILED, "did not report: " + processes.describe_status(run.status)
                               + "\n" + run.stdout[-2000:] + run.stderr[-4000:]) for t in todo]
            break
    return results


def jobs(preset):
    found = []
    for folder in sorted((capabilities.ROOT / "tests" / "unit").iterdir()):
        if not list(folder.rglob("*_test.cpp")):
            continue
        executable = capabilities.ROOT / "build" / preset / "tests" / f"unit_{folder.name}"
        suite = f"unit/{folder.name}"
        try:
            tests = list_tests(executable)
        except (OSError, subprocess.SubprocessError) as error:
            text = f"cannot list the tests of {executable}: {error}" if executable.exists() else \
                f"{executable} was not built, though {folder} holds tests"
            found.append(Job(suite, suite, lambda problem=Result(suite, FAILED, text): [problem]))
            continue
        limit = TEST_SECONDS * (3 if preset == "asan" else 1)
        job = Job(suite, suite, None, [f"{suite}/{t}" for t in tests])
        job.run = lambda job=job, e=str(executable), f=folder.name, every=tests: run_executable(
            e, f, [n[len(f"unit/{f}/"):] for n in job.names], every, limit)
        found.append(job)
    return found
