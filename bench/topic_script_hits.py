"""What a hit costs the traced program on the kernel engine, side by side with bpftrace, by the program's own clock."""
import os
import subprocess

from bench import measure as m
from bench import script_programs

# What the script does at a hit: (its body, what it is called).
BODIES = [("@ = count();", "count()"), ("@[arg0 & 1023] = count();", "count() by 1,024 keys"), ("@ = hist(arg0);", "hist()")]


def nanoseconds(bench, tool, function, kind, body, calls, runs):
    """-> the least and the median time of a call of `function` while it is probed."""
    hot, result = script_programs.hot(bench), script_programs.Result(bench)
    run = f"{hot} {kind} {calls} 0 {result.argument(tool)}"
    script = f"uprobe:{hot}:{function} {{ {body} }}"
    if tool == "uscope":
        command = [bench.uscope, "--engine", "kernel", "-q", "-c", run, "-e", script]
    else:
        command = bench.peer("bpftrace", "-q", "-c", run.replace(str(bench.build), "/bench"), "-e", script)
    took = []
    for _ in range(runs):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if (each := result.take()) is not None:
            took.append(each * 1e-9)
    return took


def site(bench, title, function, kind, calls, times=None):
    for body, name in BODIES[:1] if times else BODIES:
        table = bench.table(f"{title}: {name}, time of a call")
        for tool in ("uscope", "bpftrace"):
            if tool == "bpftrace" and bench.peer("bpftrace") is None:
                continue
            took = nanoseconds(bench, tool, function, kind, body, calls, max(bench.runs // 2, 3))
            if took:
                table.add(m.Row(tool, body, took))
        if table.row("uscope") and table.row("bpftrace"):
            ours, theirs = table.row("uscope").best, table.row("bpftrace").best
            if times:
                table.target(f"at least {times} times cheaper than bpftrace: {theirs / ours:.1f} times", theirs >= times * ours)
            else:
                # A twentieth is what runs differ by.
                table.target(f"no dearer than bpftrace: {ours * 1e9:.0f} ns, it takes {theirs * 1e9:.0f} ns",
                             ours <= theirs * 1.05)
        bench.show(table)


def measure(bench):
    if os.geteuid() != 0:
        return
    site(bench, "A hit on `push` as first instruction", "three", "args", 200000)
    site(bench, "A hit on `lea` as first instruction", "leaf", "lea", 20000)
    site(bench, "A hit on `endbr64; push`, where the second is as good", "behind_endbr", "push", 50000, times=10)
