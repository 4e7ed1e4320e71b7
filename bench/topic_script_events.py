"""printf of three arguments: how many events a second are shown with none lost, side by side with bpftrace."""
import os
import subprocess

from bench import measure as m
from bench import script_programs

# Calls a second that are tried, from the highest; 0: as fast as the program can.
RATES = [0, 1000000, 800000, 600000, 500000, 400000, 300000, 200000, 100000, 50000, 20000]
SECONDS = 1.5


def shown(bench, tool, function, format_text, rate):
    """-> (calls a second that were made, whether every one was shown)."""
    hot, result = script_programs.hot(bench), script_programs.Result(bench)
    kind = "args" if function == "three" else "endbr_args"
    calls = int((rate or (1200000 if function == "three" else 400000)) * SECONDS)
    run = f"{hot} {kind} {calls} {rate} {result.argument(tool)}"
    script = f"uprobe:{hot}:{function} {{ printf({format_text}); }}"
    out = bench.build / "events.out"
    if tool == "uscope":
        command = [bench.uscope, "-q", "-o", str(out), "-c", run, "-e", script]
    else:
        command = bench.peer("bpftrace", "-q", "-o", str(out), "-c", run.replace(str(bench.build), "/bench"), "-e", script)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = result.take()
    lines = sum(1 for line in open(out, "rb") if line.strip()) if out.exists() else 0
    out.unlink(missing_ok=True)
    return (1e9 / took if took else 0), lines == calls


def best_rate(bench, tool, function, format_text):
    for rate in RATES:
        made, complete = shown(bench, tool, function, format_text, rate)
        print(f"    {tool}: {made:,.0f} a second: {'all shown' if complete else 'some lost'}", flush=True)
        if complete and made and shown(bench, tool, function, format_text, rate)[1]:
            return made, rate == 0
    return None, False


def compare(bench, title, function, format_text):
    table = bench.table(f"{title}, time of an event at the highest rate with none lost")
    for tool in ("uscope", "bpftrace"):
        if tool == "bpftrace" and bench.peer("bpftrace") is None:
            continue
        rate, keeps_up = best_rate(bench, tool, function, format_text)
        note = ", as many as the program makes" if keeps_up else ""
        if rate:
            table.add(m.Row(tool, format_text, [1 / rate], note=f"{rate:,.0f} events a second{note}"))
    if table.row("uscope") and table.row("bpftrace"):
        table.target_ratio("bpftrace", 3)
    bench.show(table)


def measure(bench):
    if os.geteuid() != 0:
        return
    numbers, text = '"%d %d %d\\n", arg0, arg1, arg2', '"%d %d %s\\n", arg0, arg1, str(arg2)'
    compare(bench, "printf of two numbers and a string, function with endbr64", "three_endbr", text)
    compare(bench, "printf of two numbers and a string, function without", "three", text)
    compare(bench, "printf of three numbers, function with endbr64", "three_endbr", numbers)
    compare(bench, "printf of three numbers, function without", "three", numbers)
