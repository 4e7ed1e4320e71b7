"""Documentation that is run: every ```console block of README.md and docs/**/*.md.

A line `$ command` is run (lines `> …` continue it), the lines below it are what it must print, both streams together, by
the rules of match.py. All blocks of a page run in one shell, in a directory that holds the programs of tests/targets,
with uscope on the PATH. A command must succeed, except the last one of a block that begins ```console fails. A block
may opt out only with a reason: ```console norun: needs a container."""
import os
import re
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import capabilities, match, processes
from .results import FAILED, PASSED, SKIPPED, Job, Result

FENCE = re.compile(r"^(\s*)```console\b[ ]*(.*)$")
COMMAND_SECONDS = 60


@dataclass
class Command:
    line: int
    text: str
    shown: list = field(default_factory=list)
    must_fail: bool = False


class PageError(Exception):
    pass


def commands_of(path):
    """-> the page's commands in order, and the capabilities that it names in <!-- requires: … --> comments."""
    found, requires, block, indent = [], [], None, ""
    for number, raw in enumerate(path.read_text().split("\n"), 1):
        if block is None:
            if match_ := re.match(r"^<!-- requires: ([a-z_0-9 ]+) -->$", raw):
                requires += match_.group(1).split()
            fence = FENCE.match(raw)
            if not fence:
                continue
            indent, mode = fence.group(1), fence.group(2).strip()
            if mode.startswith("norun"):
                if not re.match(r"norun: \S", mode):
                    raise PageError(f"{path}:{number}: norun wants a reason: ```console norun: why")
                block = "norun"
            elif mode in ("", "fails"):
                block = mode or "run"
            else:
                raise PageError(f"{path}:{number}: unknown word after ```console: {mode}")
            first = len(found)
            continue
        line = raw.removeprefix(indent)
        if line.startswith("```"):
            if block == "fails" and len(found) > first:
                found[-1].must_fail = True
            if block != "norun" and len(found) == first:
                raise PageError(f"{path}:{number}: a console block without a `$ command`")
            block = None
        elif block == "norun":
            continue
        elif line.startswith("$ "):
            found.append(Command(number, line[2:]))
        elif line.startswith("> ") and found and len(found) > first and not found[-1].shown:
            found[-1].text += "\n" + line[2:]
        elif len(found) > first:
            found[-1].shown.append(line)
        elif line.strip():
            raise PageError(f"{path}:{number}: output before the first `$ command`")
    if block is not None:
        raise PageError(f"{path}: a console block is not closed")
    for name in requires:
        if name not in capabilities.CHECKS:
            raise PageError(f"{path}: unknown capability {name}")
    return found, requires


class Shell:
    """One bash for a page. Output of each command comes between marks, so that it can be told apart."""

    def __init__(self, directory, uscope):
        self.mark = processes.new_mark()
        env = dict(os.environ, LC_ALL="C.UTF-8", PATH=f"{uscope.parent}:{os.environ['PATH']}", HOME=str(directory))
        env[processes.MARK] = self.mark
        self.process = subprocess.Popen(["bash", "--noprofile", "--norc"], cwd=directory, env=env, text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        start_new_session=True, errors="replace")

    def run(self, text, seconds):
        """-> (status, output lines), or None when it took too long or the shell went away."""
        end = f"END-{self.mark}"
        if text.rstrip().endswith("&"):
            # A reader types slower than the program starts: until then the process is still a copy of this shell.
            text += "\nfor i in {1..200}; do [ /proc/$!/exe -ef /proc/$$/exe ] || break; sleep 0.01; done"
        # </dev/null: a command must not eat the script that bash itself is reading.
        self.process.stdin.write(f"{{ {text}\n}} </dev/null\nprintf '\\n{end} %d\\n' $?\n")
        self.process.stdin.flush()
        timer = threading.Timer(seconds, lambda: (processes.end(processes.marked(self.mark)), processes.end_group(self.process)))
        timer.start()
        lines = []
        try:
            for line in self.process.stdout:
                if line.startswith(end):
                    return int(line.split()[1]), match.lines_of("".join(lines))
                lines.append(line)
            return None
        finally:
            timer.cancel()

    def close(self):
        processes.end_group(self.process)
        processes.end(processes.marked(self.mark))
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass


def prepare(directory):
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for target in capabilities.TARGETS.iterdir():
        if target.is_file():
            os.link(target, directory / target.name)


def run_page(path, name, uscope):
    begin = time.monotonic()
    try:
        commands, requires = commands_of(path)
    except PageError as error:
        return [Result(name, FAILED, str(error))]
    for capability in requires:
        if reason := capabilities.lacking(capability):
            return [Result(name, SKIPPED, reason)]
    directory = capabilities.ROOT / "build" / "test" / "docs" / name.replace("/", "_")
    prepare(directory)
    shell, problem = Shell(directory, uscope), None
    try:
        for command in commands:
            problem = check_command(shell, command)
            if problem:
                problem = f"{path.relative_to(capabilities.ROOT)}:{command.line}\n$ {command.text}\n{problem}"
                break
    finally:
        shell.close()
    seconds = time.monotonic() - begin
    return [Result(name, FAILED if problem else PASSED, problem or "", seconds)]


def check_command(shell, command):
    got = shell.run(command.text, COMMAND_SECONDS)
    if got is None:
        return f"no end within {COMMAND_SECONDS} s, or the shell ended"
    status, printed = got
    shown = match.lines_of("\n".join(command.shown))
    if command.must_fail != (status != 0) or status >= 128:
        return (f"{'failure' if command.must_fail else 'success'} expected, but: {processes.describe_status(status)}\n"
                + "\n".join(printed[:60]))
    if not match.block_matches(shown, printed):
        return match.diff(shown, printed)
    return None


def jobs(preset):
    root = capabilities.ROOT
    uscope = capabilities.executable(preset)
    pages = [p for p in [root / "README.md"] if p.exists()] + sorted((root / "docs").rglob("*.md"))
    found = []
    for page in pages:
        if not any(FENCE.match(line) for line in page.read_text().split("\n")):
            continue
        name = "docs/" + str(page.relative_to(root)).removeprefix("docs/")
        found.append(Job("docs", name, lambda page=page, name=name: run_page(page, name, uscope)))
    return found
