"""Attaching in-process to programs that run: one probe, thousands, and every function of libLLVM in a compiler at work."""
import filecmp
import os
import re
import shutil
import subprocess
import threading
import time

from bench import measure as m
from bench import script_programs

COUNT = 3000
LEAVE = "interval:ms:1 { exit(); }"


class Running:
    """A program that is running while it is traced."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(0.2)

    def __enter__(self):
        return str(self.process.pid)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def stops(command):
    """How long the process stood still for the command: the longest stop and all together, in ms."""
    out = subprocess.run([*command, "-v"], capture_output=True, text=True)
    found = re.search(r"for ([\d.]+) ms in all, at most ([\d.]+) ms at once", out.stderr + out.stdout)
    return (float(found.group(2)), float(found.group(1))) if found else None


def add_peers(bench, table, script, pid):
    table.add(bench.time("uscope, kernel engine", [bench.uscope, "-q", "--engine", "kernel", "-p", pid, "-e", script], runs=5))
    table.add(bench.time("bpftrace", bench.peer("bpftrace", "-q", "-p", pid, "-e", script), runs=5))


def small(bench, title, program, arguments, probes, limit_ms, stop_limit_ms=None):
    table = bench.table(title)
    script = f"uprobe:{program}:{probes} {{ @ = count(); }} {LEAVE}"
    os.environ["BPFTRACE_MAX_PROBES"] = str(COUNT + 1)
    with Running(program, *arguments) as pid:
        command = [bench.uscope, "-q", "--engine", "inproc", "-p", pid, "-e", script]
        table.add(bench.time("uscope, in-process", command))
        stopped = stops(command)
        if os.geteuid() == 0 and table.rows:
            add_peers(bench, table, script, pid)
    if table.rows:
        median = table.rows[0].median * 1000
        table.target(f"attached and detached in under {limit_ms} ms: {median:.1f} ms", median < limit_ms)
    if stopped and table.rows:
        table.rows[0].note = f"stopped for {stopped[1]:.2f} ms in all, {stopped[0]:.2f} ms at once"
        if stop_limit_ms:
            table.target(f"the program stopped no longer than {stop_limit_ms} ms: {stopped[0]:.2f} ms", stopped[0] <= stop_limit_ms)
    bench.show(table)


def compiler():
    """A clang, and the libLLVM it uses."""
    for name in ("clang-16", "clang-19", "clang-15", "clang"):
        if path := shutil.which(name):
            libraries = subprocess.run(["ldd", os.path.realpath(path)], capture_output=True, text=True).stdout
            if found := re.search(r"libLLVM\S* => (\S+)", libraries):
                return path, os.path.realpath(found.group(1))
    return None, None


def make_source(bench):
    source = bench.build / "compiled.c"
    body = "int s = 0; for (int i = 0; i < a; i++) { s += i * b + %d; if (s > 1000) s -= b; } return s;"
    source.write_text("".join(f"int f{i}(int a, int b) {{ {body % i} }}\n" for i in range(1000)))
    return source


def until_attached(command):
    """Runs the command; -> seconds until it says that it is attached, and with how many probes."""
    begin, seconds, probes = time.perf_counter(), None, 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as tracer:
        for line in tracer.stdout:
            if found := re.match(r"Attached (\d+) probe", line):
                seconds, probes = time.perf_counter() - begin, int(found.group(1))
    return seconds, probes


def whole_library(bench):
    clang, library = compiler()
    table = bench.table(f"Every function of {os.path.basename(library or 'libLLVM')} in a running compiler, live after")
    if clang is None:
        table.target("a clang with a shared libLLVM", None)
        return bench.show(table)
    source, plain, traced = make_source(bench), bench.build / "plain.o", bench.build / "traced.o"
    compile_to = lambda out: [clang, "-fintegrated-cc1", "-O2", "-c", "-o", str(out), str(source)]
    subprocess.run(compile_to(plain), check=True)
    script = f"uprobe:{library}:*,uprobe:{library}:sub_* {{ @ = count(); }}"
    seconds, probes, is_same = [], 0, True
    for _ in range(3):
        with subprocess.Popen(compile_to(traced)) as target:
            # Who has ended is only gone when somebody has asked for its status.
            threading.Thread(target=target.wait, daemon=True).start()
            time.sleep(0.3)
            took, probes = until_attached([bench.uscope, "--engine", "inproc", "-p", str(target.pid), "-e", script])
            target.wait()
        is_same &= target.returncode == 0 and filecmp.cmp(plain, traced, shallow=False)
        if took:
            seconds.append(took)
    if seconds:
        table.add(m.Row("uscope, in-process", "", seconds, note=f"{probes} probes"))
        table.target(f"over 100,000 functions: {probes}", probes > 100000)
        table.target(f"live in under 1.5 s: {table.rows[0].median:.2f} s", table.rows[0].median < 1.5)
        table.target("what was compiled is the same to the byte", is_same)
    bench.show(table)


def measure(bench):
    small(bench, "In-process: one probe in a running program, from Enter to the prompt", script_programs.hot(bench), ["idle"], "tick", 10)
    small(bench, f"In-process: {COUNT} probes in a running program, from Enter to the prompt", script_programs.many(bench, COUNT), [],
          "fn_*", 50, 5)
    whole_library(bench)
