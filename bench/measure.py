"""Timing commands side by side, and the tables that come of it."""
import os
import platform
import re
import shutil
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Row:
    tool: str
    command: str
    seconds: list
    cpu: float = 0.0  # user and system seconds of one run: what a busy machine does not change much
    peak_kb: int = 0
    note: str = ""

    @property
    def best(self):
        return min(self.seconds)

    @property
    def median(self):
        return statistics.median(self.seconds)


@dataclass
class Table:
    title: str
    rows: list = field(default_factory=list)
    targets: list = field(default_factory=list)  # [(text, met or None where it could not be measured)]

    def add(self, row):
        if row:
            self.rows.append(row)

    def row(self, tool):
        return next((r for r in self.rows if r.tool == tool), None)

    def target_ratio(self, tool, times):
        """uscope (the first row) must be at least `times` faster than the tool."""
        other = self.row(tool)
        if other is None:
            self.targets.append((f"at least {times:g} times as fast as {tool}: not measured", None))
            return
        ratio = other.median / self.rows[0].median
        self.targets.append((f"at least {times:g} times as fast as {tool}: {ratio:.1f} times", ratio >= times))

    def target(self, text, met):
        self.targets.append((text, met))

    def lines(self):
        base = self.rows[0].median
        cells = [["tool", "min", "median", "runs", "cpu", "peak memory", "ratio", "note"]]
        for row in self.rows:
            peak = f"{row.peak_kb / 1024:.0f} MB" if row.peak_kb else ""
            cells.append([row.tool, duration(row.best), duration(row.median), str(len(row.seconds)), duration(row.cpu) if row.cpu else "", peak,
                          f"{row.median / base:.1f}x", row.note])
        widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
        return cells, widths


def duration(seconds):
    if 0 < seconds < 1e-5:
        return f"{seconds * 1e9:.0f} ns"
    if 0 < seconds < 1e-4:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


class Bench:
    """Owns the list of tables. Commands run with standard output thrown away, after one run that warms the page cache."""

    def __init__(self, root, runs):
        self.root, self.runs, self.tables = Path(root), runs, []
        self.build = self.root / "build" / "bench"
        self.build.mkdir(parents=True, exist_ok=True)
        self.uscope = os.environ.get("USCOPE_BINARY", str(self.root / "build" / "uscope"))
        self.sid = self.root / "build" / "peers" / "sid"
        self.has_sid = os.geteuid() == 0 and (self.sid / ".complete").exists()
        if self.has_sid:
            self._mount()

    def _mount(self):
        for what in ("proc", "sys", "dev"):
            subprocess.run(["mount", "--rbind", f"/{what}", self.sid / what], check=True)
        inside = self.sid / "bench"
        inside.mkdir(exist_ok=True)
        subprocess.run(["mount", "--bind", self.build, inside], check=True)

    def peer(self, tool, *arguments):
        """-> (argument list, "tool version") for the newest there is, or None. A path below build/bench is translated."""
        if self.has_sid and (self.sid / "usr/bin" / tool).exists():
            inside = [str(a).replace(str(self.build), "/bench").replace(str(self.sid), "") for a in arguments]
            return ["chroot", str(self.sid), tool, *inside]
        found = shutil.which(tool)
        return [found, *map(str, arguments)] if found else None

    def version(self, tool):
        command = self.peer(tool, "--version")
        if not command:
            return "none"
        out = subprocess.run(command, capture_output=True, text=True)
        found = re.search(r"\d+\.\d+[\w.]*", (out.stdout + out.stderr).split("\n")[0].split("(")[-1].split(")")[-1]
                          or out.stdout)
        return found.group(0) if found else "?"

    def time(self, tool, command, runs=None, pin=False, note="", count=None):
        """Runs the command; -> a Row, or None when there is no such tool. count: a word for its lines of output."""
        if not command:
            print(f"  {tool}: not on this machine")
            return None
        print(f"  {tool}: {' '.join(command)}", flush=True)
        first = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        if first.returncode != 0:
            print(f"  {tool}: failed with status {first.returncode}: {(first.stderr or first.stdout)[-500:]}")
            return None
        if count:
            note = f"{len(first.stdout.splitlines())} {count}" + (f", {note}" if note else "")
        cores = os.sched_getaffinity(0)
        if pin:
            os.sched_setaffinity(0, {max(cores)})
        seconds, before = [], os.times()
        try:
            for _ in range(runs or self.runs):
                begin = time.perf_counter()
                subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
                seconds.append(time.perf_counter() - begin)
        finally:
            os.sched_setaffinity(0, cores)
        after = os.times()
        cpu = after.children_user - before.children_user + after.children_system - before.children_system
        return Row(tool, " ".join(command), seconds, cpu / len(seconds), self.peak_memory(command), note)

    def peak_memory(self, command):
        if not shutil.which("time", path="/usr/bin"):
            return 0
        out = subprocess.run(["/usr/bin/time", "-f", "PEAK %M", *command], capture_output=True, text=True, errors="replace",
                             stdin=subprocess.DEVNULL)
        found = re.findall(r"^PEAK (\d+)$", out.stderr, re.M)
        return int(found[-1]) if found else 0

    def print_machine(self):
        cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
        uscope = subprocess.run([self.uscope, "--version"], capture_output=True, text=True).stdout.strip()
        self.machine = [f"machine: {os.cpu_count()} x {cpu}", f"kernel: Linux {platform.release()}",
                        f"uscope: {uscope}, {os.path.getsize(self.uscope) / 1e6:.1f} MB",
                        "peers: " + ", ".join(f"{t} {self.version(t)}" for t in ("bpftrace", "perf", "gdb", "nm", "uftrace"))
                        + (" (Debian sid)" if self.has_sid else " (this machine's own)")]
        print("\n".join(self.machine), flush=True)

    def table(self, title):
        print(f"\n{title}", flush=True)
        self.tables.append(Table(title))
        return self.tables[-1]

    def show(self, table):
        if not table.rows:
            print("  nothing could be measured")
            table.target("measured", None)
            return
        cells, widths = table.lines()
        for line in cells:
            print("  " + "  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip())
        for text, met in table.targets:
            print(f"  target {'met' if met else 'NOT MEASURED' if met is None else 'NOT MET'}: {text}")

    def summary(self):
        every = [met for table in self.tables for _, met in table.targets]
        return (f"targets: {sum(m is True for m in every)} met, {sum(m is False for m in every)} not met, "
                f"{sum(m is None for m in every)} not measured")

    def all_met(self):
        return all(met for table in self.tables for _, met in table.targets)

    def markdown(self):
        out = ["# Benchmarks", "", "What `make bench` printed last; run it to get your own figures.", ""]
        out += [f"- {line}" for line in self.machine]
        for table in self.tables:
            out += ["", f"## {table.title}", ""]
            if table.rows:
                cells, _ = table.lines()
                out += ["| " + " | ".join(cells[0]) + " |", "|" + "---|" * len(cells[0])]
                out += ["| " + " | ".join(line) + " |" for line in cells[1:]]
                out.append("")
            out += [f"- target {'met' if met else 'not measured' if met is None else 'not met'}: {text}"
                    for text, met in table.targets]
        return "\n".join(out) + "\n"
