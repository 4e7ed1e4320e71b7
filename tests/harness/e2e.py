"""Runs one end-to-end case: set-up, target, the command, expectations. Everything happens in a directory of its own, and
whatever the case started is gone afterwards. A target that dies by a signal fails its case, whatever else was expected:
tracing must not hurt."""
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from . import capabilities, case_file, match, processes
from .results import FAILED, PASSED, SKIPPED, Job, Result

DEFAULT_SECONDS = 20
READY_SECONDS = 20
ATTACHED = r"^Attach(ing|ed) "
SANITIZER = re.compile(r"(AddressSanitizer|LeakSanitizer|UndefinedBehaviorSanitizer|\d+:\d+: runtime error: |terminate called)")
TARGET_NAME = re.compile(r"\{targets\}/([A-Za-z0-9_.+-]+)")


class Failure(Exception):
    pass


class Run:
    """One case being run. Owns its directory and processes."""

    def __init__(self, case, uscope, directory):
        self.case, self.uscope, self.directory = case, uscope, Path(directory)
        self.mark = processes.new_mark()
        self.targets = []  # [(Popen, stdout path, stderr path)]
        self.env = {}
        self.command = None
        self.outcome = None

    def expand(self, text, quote=lambda s: s):
        values = {"uscope": str(self.uscope), "uscope_alone": str(self.uscope), "targets": str(capabilities.TARGETS), "tmp": str(self.directory),
                  "root": str(capabilities.ROOT), **self.case.values}
        if "engine" in values and "{engine}" not in self.case.one("RUN"):
            values["uscope"] += f" --engine {values['engine']}"
        for i, (process, _, _) in enumerate(self.targets):
            values["pid" if i == 0 else f"pid{i + 1}"] = str(process.pid)
        return re.sub(r"\{([a-z_]+[0-9]?)\}", lambda m: quote(values[m.group(1)]) if m.group(1) in values else m.group(0), text)

    def start(self, command, name, stdin=subprocess.DEVNULL):
        out, err = self.directory / f".{name}.out", self.directory / f".{name}.err"
        return processes.start(command, self.directory, out, err, self.env, stdin, self.mark), out, err

    def step(self, command, name):
        """A SETUP, AFTER, CHECK or CLEANUP command: must succeed."""
        process, out, err = self.start("set -o pipefail\n" + self.expand(command), name)
        try:
            process.wait(timeout=READY_SECONDS)
        except subprocess.TimeoutExpired:
            processes.end_group(process)
            raise Failure(f"{name}: no end within {READY_SECONDS} s: {command}") from None
        if process.returncode != 0:
            text = processes.read_output(out) + processes.read_output(err)
            raise Failure(f"{name}: {processes.describe_status(process.returncode)}: {command}\n{text}")

    def start_targets(self):
        for i, command in enumerate(self.case.all("TARGET")):
            # exec: {pid} is the program itself, not a shell around it.
            process, out, err = self.start("exec " + self.expand(command), f"target{i + 1}", subprocess.PIPE)
            self.targets.append((process, out, err))
            limit = time.monotonic() + READY_SECONDS
            while not re.search(r"^READY\b", processes.read_output(out), re.M):
                if process.poll() is not None:
                    raise Failure(f"the target ended before it said READY: {processes.describe_status(process.returncode)}\n"
                                  + processes.read_output(out) + processes.read_output(err))
                if time.monotonic() > limit:
                    raise Failure(f"the target did not say READY within {READY_SECONDS} s: {command}")
                time.sleep(0.01)

    def wait_for(self, pattern, paths, limit, what):
        pattern = re.compile(pattern, re.M)
        while not any(pattern.search(processes.read_output(p)) for p in paths):
            if self.command.poll() is not None:
                raise Failure(f"the command ended before {what} ({processes.describe_status(self.command.returncode)})")
            if time.monotonic() > limit:
                raise Failure(f"not seen in time: {what}")
            time.sleep(0.01)

    def stop(self, how, paths, limit):
        """STOP SIGNAL [after SECONDS | when REGEX | when-target-ends]"""
        name, _, rest = how.partition(" ")
        if rest.startswith("when-target-ends"):
            self.targets[0][0].wait(timeout=max(0.1, limit - time.monotonic()))
        elif rest.startswith("when "):
            self.wait_for(self.expand(rest[5:], re.escape), paths, limit, f"output that matches {rest[5:]!r}")
        else:
            time.sleep(float(rest.removeprefix("after ") or 0.5))
        if self.command.poll() is None:
            os.killpg(self.command.pid, signal.Signals["SIG" + name.removeprefix("SIG")])

    def run_command(self):
        case = self.case
        text = self.expand(case.one("RUN"))
        # A single command replaces the shell, so that STOP reaches uscope itself and its status is seen unchanged.
        stdin = subprocess.PIPE if case.one("INPUT") is not None else subprocess.DEVNULL
        begin = time.monotonic()
        limit = begin + float(case.one("TIMEOUT", DEFAULT_SECONDS))
        self.command, out, err = self.start(text, "run", stdin)
        if stdin == subprocess.PIPE:
            try:
                self.command.stdin.write(self.expand(case.one("INPUT")).encode() + b"\n")
                self.command.stdin.close()
            except BrokenPipeError:
                pass
        trouble, timed_out = None, False
        try:
            if case.all("AFTER") or case.one("FEED") or case.one("STOP"):
                self.wait_for(case.one("WHEN_READY", ATTACHED), (out, err), limit, "it was ready")
            for i, command in enumerate(case.all("AFTER")):
                self.step(command, f"after{i + 1}")
            if case.one("FEED"):
                if not self.targets:
                    raise Failure("FEED without TARGET")
                self.targets[0][0].stdin.write(self.expand(case.one("FEED")).encode() + b"\n")
                self.targets[0][0].stdin.flush()
            if case.one("STOP"):
                self.stop(case.one("STOP"), (out, err), limit)
            self.command.wait(timeout=max(0.1, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            timed_out = True
        except (Failure, BrokenPipeError) as failure:
            trouble = str(failure)
        if self.command.poll() is None:
            processes.end_group(self.command)
        self.outcome = processes.Outcome(self.command.returncode, processes.read_output(out), processes.read_output(err),
                                         time.monotonic() - begin, timed_out)
        if trouble:
            raise Failure(trouble)

    def leftovers(self):
        """uscope processes of this case that still live a moment after the command ended."""
        wanted = os.path.realpath(self.uscope)
        for wait in (0, 0.1, 0.3, 0.6):
            time.sleep(wait)
            left = [pid for pid in processes.marked(self.mark) if _exe(pid) == wanted]
            if not left:
                return []
        return left

    def problems(self):
        """Every expectation that was not met, as text."""
        case, run, found = self.case, self.outcome, []
        if run.timed_out:
            found.append(f"no end within {case.one('TIMEOUT', DEFAULT_SECONDS)} s")
        else:
            wanted = case.one("EXIT", "0")
            if not (wanted == "any" and 0 <= run.status < 128) and not (wanted == "nonzero" and 0 < run.status < 126) \
                    and str(run.status) != wanted:
                found.append(f"EXIT {wanted} expected, but: {processes.describe_status(run.status)}")
        if SANITIZER.search(run.stderr):
            found.append("the command's standard error reports a fault of its own")
        found += self.stream_problems("", match.lines_of(run.stdout))
        found += self.stream_problems("_STDERR", match.lines_of(run.stderr))
        found += self.target_problems()
        return found

    def stream_problems(self, suffix, lines):
        found, wanted = [], []
        for key, value, _ in self.case.keys:
            for line in value.split("\n"):
                if key == "EXPECT" + suffix:
                    line = self.expand(line)
                    wanted.append((f"{key} {line}", re.compile("^" + match.line_pattern(line).pattern + "$")))
                elif key == f"EXPECT{suffix}_REGEX":
                    line = self.expand(line, re.escape)
                    wanted.append((f"{key} {line}", re.compile(line)))
                elif key == f"EXPECT{suffix}_NONE":
                    pattern = re.compile(self.expand(line, re.escape))
                    found += [f"{key} {line}\n  but there is: {l}" for l in lines if pattern.search(l)][:3]
                elif key == "EXPECT_ANYWHERE" and not suffix:
                    line = self.expand(line)
                    if not any(match.line_pattern(line).fullmatch(l) for l in lines):
                        found.append(f"not printed: {key} {line}")
        if missing := match.find_in_order(wanted, lines):
            there = any(p.search(l) for w, p in wanted if w == missing for l in lines)
            found.append(f"not printed{' in this order' if there else ''}: {missing}")
        block = self.case.one("OUTPUT" + suffix)
        if block is not None:
            shown = match.lines_of(self.expand(block))
            if not match.block_matches(shown, lines):
                found.append(f"OUTPUT{suffix} differs\n" + match.diff(shown, lines))
        return found

    def target_problems(self):
        found = []
        wanted = self.case.one("TARGET_EXIT")
        for i, (process, out, err) in enumerate(self.targets):
            if wanted is not None and i == 0:
                if process.stdin:
                    process.stdin.close()
                try:
                    process.wait(timeout=READY_SECONDS)
                except subprocess.TimeoutExpired:
                    found.append(f"TARGET_EXIT {wanted} expected, but it still runs")
                else:
                    if str(process.returncode) != wanted:
                        found.append(f"TARGET_EXIT {wanted} expected, but: {processes.describe_status(process.returncode)}")
            elif process.poll() is not None and process.returncode != 0:
                found.append(f"target {i + 1} did not survive: {processes.describe_status(process.returncode)}")
            if i == 0:
                lines = match.lines_of(processes.read_output(out))
                wanted_lines = [(f"EXPECT_TARGET {l}", re.compile("^" + match.line_pattern(self.expand(l)).pattern + "$"))
                                for value in self.case.all("EXPECT_TARGET") for l in value.split("\n")]
                if missing := match.find_in_order(wanted_lines, lines):
                    found.append(f"the target did not print: {missing}")
            if found and processes.read_output(err):
                found.append(f"target {i + 1} wrote to standard error:\n" + processes.read_output(err)[-4000:])
        return found

    def execute(self):
        """-> the text of what went wrong, or None."""
        problems = []
        try:
            for line in self.case.all("ENV"):
                name, _, value = self.expand(line).partition("=")
                self.env[name] = value
            for i, command in enumerate(self.case.all("SETUP")):
                self.step(command, f"setup{i + 1}")
            self.start_targets()
            self.run_command()
            problems = self.problems()
            if left := self.leftovers():
                problems.append(f"uscope left processes behind: {left}")
            for i, command in enumerate(self.case.all("CHECK")):
                self.step(command, f"check{i + 1}")
        except Failure as failure:
            problems.append(str(failure))
        finally:
            try:
                for i, command in enumerate(self.case.all("CLEANUP")):
                    self.step(command, f"cleanup{i + 1}")
            except Failure as failure:
                problems.append(str(failure))
            for process, _, _ in self.targets:
                processes.end_group(process)
            processes.end(processes.marked(self.mark))
        return self.report(problems) if problems else None

    def report(self, problems):
        parts = [f"{self.case.file.relative_to(capabilities.ROOT)}:{self.case.line}"]
        if self.case.one("RUN"):
            parts.append("$ " + self.expand(self.case.one("RUN")))
        parts += problems
        if self.outcome:
            for title, text in (("stdout", self.outcome.stdout), ("stderr", self.outcome.stderr)):
                if text:
                    lines = text.rstrip("\n").split("\n")
                    cut = lines[:60] + ([f"[{len(lines) - 60} more lines]"] if len(lines) > 60 else [])
                    parts.append(f"--- {title} ---\n" + "\n".join(cut))
        return "\n".join(parts)


def _exe(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def skip_reason(case):
    needs = [name for value in case.all("REQUIRES") for name in value.split()]
    needs += capabilities.ENGINES.get(case.values.get("engine", ""), [])
    for name in needs:
        if reason := capabilities.lacking(name):
            return reason
    text = "\n".join(value for _, value, _ in case.keys)
    for name, value in case.values.items():
        text = text.replace("{" + name + "}", value)
    for target in TARGET_NAME.findall(text):
        if not (capabilities.TARGETS / target).exists():
            for name in capabilities.target_needs(target):
                if reason := capabilities.lacking(name):
                    return reason
    return None


def run_case(case, uscope, work):
    begin = time.monotonic()
    if reason := skip_reason(case):
        return [Result(case.title, SKIPPED, reason)]
    directory = work / re.sub(r"[^A-Za-z0-9_.-]+", "_", case.title.removeprefix("e2e/"))
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    problem = Run(case, uscope, directory).execute()
    must_fail = case.one("MUST_FAIL")
    if must_fail is not None:
        if problem is None:
            problem = f"this case must fail with {must_fail!r}, but it passed"
        elif re.search(must_fail, problem):
            problem = None
        else:
            problem = f"this case must fail with {must_fail!r}, but it failed otherwise:\n{problem}"
    if problem is None:
        shutil.rmtree(directory, ignore_errors=True)
        return [Result(case.title, PASSED, "", time.monotonic() - begin)]
    return [Result(case.title, FAILED, problem, time.monotonic() - begin)]


def jobs(preset):
    root = capabilities.ROOT
    uscope = capabilities.executable(preset)
    work = root / "build" / "test" / "e2e"
    found = []
    for path in sorted((root / "tests" / "e2e").rglob("*.case")):
        suite = f"e2e/{path.stem}"
        try:
            cases = case_file.read(path)
        except case_file.CaseError as error:
            found.append(Job(suite, suite, lambda t=str(error), s=suite: [Result(s, FAILED, t)]))
            continue
        for case in cases:
            found.append(Job(suite, case.title, lambda case=case: run_case(case, uscope, work)))
    return found
