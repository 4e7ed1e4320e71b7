"""Checks of the repository itself: include rules, formatting, the executable's promises, the runner's own tests."""
import importlib.util
import os
import shutil
import subprocess
import time
from pathlib import Path

from . import capabilities, processes
from .results import FAILED, PASSED, SKIPPED, Job, Result

ROOT = capabilities.ROOT
MAX_STRIPPED = 12 << 20
MAX_VERSION_SECONDS = 0.005


def architecture():
    spec = importlib.util.spec_from_file_location("check_architecture", ROOT / "tests/architecture/check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [Result(f"architecture/{rule}", FAILED if problems else PASSED, "\n".join(problems))
            for rule, problems in module.check_all(ROOT).items()]


def sources(*patterns):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, capture_output=True, text=True)
    return [f for f in out.stdout.split() if (ROOT / f).exists()]


def formatting():
    if reason := capabilities.lacking("clang_format"):
        return [Result("style/clang-format", SKIPPED, reason)]
    files = sources("src/*.cpp", "src/*.h", "tests/unit/*.cpp", "tests/unit/*.h", "tests/fuzz/*.cpp")
    run = processes.run(["clang-format-14", "--dry-run", "--Werror", "--ferror-limit=1", *files], ROOT, 60,
                        out=_scratch("format.out"), err=_scratch("format.err"))
    return [Result("style/clang-format", PASSED if run.status == 0 else FAILED, run.stderr[-4000:] + "\nrun: make format")]


def scripts():
    """Every script parses; none of it names a place that exists on one machine only."""
    results = []
    for name in sources("tools/*", "tests/run", "bench/*", ".ci/run"):
        path = ROOT / name
        first = path.open(errors="replace").readline()
        if "bash" in first:
            run = subprocess.run(["bash", "-n", path], capture_output=True, text=True)
            problem = run.stderr if run.returncode else ""
        elif "python" in first or name.endswith(".py"):
            try:
                compile(path.read_text(), name, "exec")
                problem = ""
            except SyntaxError as error:
                problem = str(error)
        else:
            continue
        if first.startswith("#!") and not os.access(path, os.X_OK):
            problem += "has a #! line but is not executable"
        results.append(Result(f"style/{name}", FAILED if problem else PASSED, problem))
    return results


def executable():
    """One static file, small, quick to start, at home in an empty root."""
    uscope, results = ROOT / "build" / "uscope", []

    def result(name, problem):
        results.append(Result(f"executable/{name}", FAILED if problem else PASSED, problem))

    size = uscope.stat().st_size
    result("size", "" if size <= MAX_STRIPPED else f"{size} bytes, more than {MAX_STRIPPED}")
    headers = subprocess.run(["readelf", "-lW", uscope], capture_output=True, text=True).stdout
    result("static", "it asks for an interpreter" if "INTERP" in headers else "")
    best = min(_time([uscope, "--version"]) for _ in range(20))
    result("start", "" if best < MAX_VERSION_SECONDS else f"--version takes {best * 1000:.1f} ms")
    if reason := capabilities.lacking("chroot"):
        results.append(Result("executable/empty root", SKIPPED, reason))
    else:
        root = ROOT / "build" / "test" / "empty-root"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        # A link, not a copy: a copy may still be open in a child that another thread is just forking.
        os.link(uscope, root / "uscope")
        run = subprocess.run(["chroot", root, "/uscope", "--version"], capture_output=True, text=True)
        result("empty root", "" if run.returncode == 0 and run.stdout.startswith("uscope v") else run.stdout + run.stderr)
    return results


def target_programs():
    """Variants of one program must do the same thing, or comparing what tracers say of them means nothing."""
    results, said = [], {}
    for path in sorted(capabilities.TARGETS.iterdir()) if capabilities.TARGETS.is_dir() else []:
        if not path.is_file() or not os.access(path, os.X_OK) or path.suffix in (".so", ".debug", ".dwp"):
            continue
        run = processes.run([str(path), "calls", "2"], ROOT / "build" / "test" / "targets", 20)
        program = path.name.split("-")[0]
        problem = ""
        if run.status != 0 or "CALL " not in run.stdout:
            problem = f"{processes.describe_status(run.status)}\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
        elif said.setdefault(program, run.stdout) != run.stdout:
            problem = f"does not do what {program} does"
        results.append(Result(f"targets/{path.name}", FAILED if problem else PASSED, problem, run.seconds))
    return results or [Result("targets", FAILED, "build/targets is empty")]


def _time(command):
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def _scratch(name):
    directory = ROOT / "build" / "test"
    directory.mkdir(parents=True, exist_ok=True)
    return directory / name


def self_tests():
    run = processes.run(["python3", "-m", "unittest", "-v", "tests.harness.self_test"], ROOT, 120,
                        out=_scratch("self.out"), err=_scratch("self.err"))
    results = []
    for line in run.stderr.splitlines():
        name, dots, status = line.partition(" ... ")
        if dots:
            results.append(Result("runner/" + name.split()[0].removeprefix("test_").replace("_", " "),
                                  PASSED if status == "ok" else FAILED, "" if status == "ok" else run.stderr))
    if run.status != 0 and all(r.status == PASSED for r in results):
        results.append(Result("runner", FAILED, run.stderr))
    return results


def jobs(preset):
    found = [Job("architecture", "architecture", architecture), Job("style", "style", formatting),
             Job("style", "style/scripts", scripts), Job("runner", "runner", self_tests),
             Job("targets", "targets", target_programs)]
    if preset == "release":
        found.append(Job("executable", "executable", executable))
    return found
