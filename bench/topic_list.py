"""Listing every function of a large library, as one does before choosing what to trace."""
import glob
import os


def library(bench):
    """The largest libLLVM within reach: that of the peers' root (bpftrace needs it), else the machine's."""
    found = glob.glob(str(bench.sid / "usr/lib/x86_64-linux-gnu/libLLVM*.so*")) if bench.has_sid else []
    found += glob.glob("/usr/lib/x86_64-linux-gnu/libLLVM*.so*")
    files = [f for f in found if os.path.isfile(f) and not os.path.islink(f)]
    if bench.has_sid:  # bpftrace must be able to see it from inside its root
        files = [f for f in files if f.startswith(str(bench.sid))] or files
    return max(files, key=os.path.getsize, default=None)


def measure(bench):
    lib = library(bench)
    table = bench.table(f"Listing every function of {os.path.basename(lib or 'libLLVM')}")
    if lib is None:
        table.target("a libLLVM to list", None)
        return bench.show(table)
    table.title += f" ({os.path.getsize(lib) / 1e6:.0f} MB)"
    table.add(bench.time("uscope", [bench.uscope, "-l", f"uprobe:{lib}:*"], pin=True, count="functions"))
    if not table.rows:
        return bench.show(table)
    table.add(bench.time("nm -D", bench.peer("nm", "-D", lib), pin=True, count="symbols"))
    table.add(bench.time("bpftrace -l", bench.peer("bpftrace", "-l", f"uprobe:{lib}:*"), pin=True, count="functions"))
    table.add(bench.time("perf probe -F", bench.peer("perf", "probe", "-x", lib, "-F"), runs=3, pin=True, count="functions"))
    table.target_ratio("nm -D", 1)
    table.target_ratio("bpftrace -l", 5)
    bench.show(table)
