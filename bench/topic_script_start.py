"""From Enter to a live probe, and thousands of probes by a wildcard, side by side with bpftrace."""
import os
import subprocess
import time

from bench import measure as m
from bench import script_programs

COUNT = 3000


def time_to_first_event(bench, tool, command, runs):
    """From starting the tool to the first event it shows of a program that is already running."""
    print(f"  {tool}: {' '.join(command)}", flush=True)
    seconds = []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            for line in process.stdout:
                if line.startswith("live"):
                    seconds.append(time.perf_counter() - begin)
                    break
            process.terminate()
    if len(seconds) < runs:
        print(f"  {tool}: showed no event")
        return None
    return m.Row(tool, " ".join(command), seconds[1:], 0.0, 0)


def first_event(bench):
    table = bench.table("From Enter to a live probe: one probe on a small C program that is running")
    hot = script_programs.hot(bench)
    script = f"uprobe:{hot}:tick {{ printf(\"live\\n\"); exit(); }}"
    with subprocess.Popen([hot, "idle"], stdout=subprocess.PIPE) as target:
        target.stdout.readline()
        try:
            table.add(time_to_first_event(bench, "uscope", [bench.uscope, "-q", "-e", script], bench.runs))
            command = bench.peer("bpftrace", "-q", "-e", script)
            if command and table.rows:
                table.add(time_to_first_event(bench, "bpftrace", command, min(bench.runs, 5)))
        finally:
            target.kill()
    table.target_ratio("bpftrace", 10)
    bench.show(table)


def start_and_end(bench):
    table = bench.table("One probe, from Enter to the prompt")
    hot = script_programs.hot(bench)
    script = f"uprobe:{hot}:leaf {{ @ = count(); }} interval:ms:1 {{ exit(); }}"
    table.add(bench.time("uscope", [bench.uscope, "-q", "-e", script]))
    table.add(bench.time("bpftrace", bench.peer("bpftrace", "-q", "-e", script), runs=5))
    if table.rows:
        peak = table.rows[0].peak_kb / 1024
        table.target(f"under 60 MB of memory: {peak:.0f} MB", peak < 60)
    bench.show(table)


def wildcard(bench):
    table = bench.table(f"{COUNT} probes by a wildcard, attach to detach")
    many = script_programs.many(bench, COUNT)
    script = f"uprobe:{many}:fn_* {{ @[func] = count(); }} interval:ms:1 {{ exit(); }}"
    os.environ["BPFTRACE_MAX_PROBES"] = str(COUNT + 1)
    table.add(bench.time("uscope", [bench.uscope, "-q", "-e", script]))
    table.add(bench.time("bpftrace", bench.peer("bpftrace", "-q", "-e", script), runs=5))
    if table.rows:
        row = table.rows[0]
        table.target(f"under 100 ms in all: {row.median * 1000:.0f} ms", row.median < 0.1)
        table.target(f"under 60 MB of memory: {row.peak_kb / 1024:.0f} MB", row.peak_kb < 60 * 1024)
    bench.show(table)


def measure(bench):
    if os.geteuid() != 0:
        return
    first_event(bench)
    start_and_end(bench)
    wildcard(bench)
