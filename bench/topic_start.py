"""Starting: what every command pays."""
import os

MAX_SECONDS, MAX_BYTES = 0.005, 12 << 20


def measure(bench):
    table = bench.table("Starting: --version")
    table.add(bench.time("uscope", [bench.uscope, "--version"], runs=100, pin=True))
    for tool in ("perf", "bpftrace", "gdb"):
        table.add(bench.time(tool, bench.peer(tool, "--version"), runs=10, pin=True))
    size = os.path.getsize(bench.uscope)
    if table.row("uscope"):
        best = table.row("uscope").median
        table.target(f"--version in under 5 ms: {best * 1000:.1f} ms", best < MAX_SECONDS)
    table.target(f"at most 12 MB stripped: {size / 1e6:.1f} MB", size <= MAX_BYTES)
    bench.show(table)
