"""Asking for the variables of one function in a binary with more than 100 MB of debug info."""
from bench import big_binary

FUNCTION = "work_unit0042"
MAX_PEAK_KB = 300 * 1024


def measure(bench):
    binary, size = big_binary.make(bench.root, bench.build)
    table = bench.table(f"Variables of one function, {size / 1e6:.0f} MB of .debug_info")
    table.add(bench.time("uscope probe -V", [bench.uscope, "probe", "-x", str(binary), "-V", FUNCTION], count="lines"))
    if not table.rows:
        return bench.show(table)
    table.add(bench.time("perf probe -V", bench.peer("perf", "probe", "-x", binary, "-V", FUNCTION), runs=3, count="lines"))
    table.add(bench.time("gdb info scope", bench.peer("gdb", "-nx", "--batch", "-ex", f"info scope {FUNCTION}", binary), runs=3,
                         count="lines"))
    table.target_ratio("perf probe -V", 5)
    table.target_ratio("gdb info scope", 5)
    peak = table.rows[0].peak_kb
    table.target(f"under 300 MB of memory: {peak / 1024:.0f} MB", peak < MAX_PEAK_KB if peak else None)
    bench.show(table)
