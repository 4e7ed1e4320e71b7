"""Traces a program in-process while kernel uprobes on the entries of the same functions come and go: by
uprobe_events, as other tools set them, and by a second uscope. The program checks its own results all the time.

usage: beside_uprobes.py USCOPE PROGRAM SCRIPT (of the trace in-process: FILE for the program, counts of the calls with 7
by function in @)"""
import os
import re
import subprocess
import sys
import time

uscope, program, script = sys.argv[1:]
functions = ["push", "push_r12", "sub", "test", "endbr64", "nop", "move"]
tracefs = next(t for t in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing") if os.path.exists(t + "/uprobe_events"))
group = "beside_%d" % os.getpid()


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")


def find_offsets():
    addresses = {s.split()[2]: int(s.split()[0], 16) for s in run("nm", program) if len(s.split()) == 3}
    loads = [[int(word, 16) for word in line.split()[1:5]] for line in run("readelf", "-lW", program)
             if line.split()[:1] == ["LOAD"]]
    return {f: next(addresses["begins_" + f] - start + offset for offset, start, _, size in loads
                    if start <= addresses["begins_" + f] < start + size) for f in functions}


offsets = find_offsets()


def write(file, text, append=False):
    out = os.open(os.path.join(tracefs, file), os.O_WRONLY | (os.O_APPEND if append else os.O_TRUNC))
    try:
        os.write(out, text.encode() + b"\n")
    finally:
        os.close(out)


def set_uprobes():
    for f in functions:
        write("uprobe_events", "p:%s/%s %s:0x%x %%di:u64" % (group, f, program, offsets[f]), append=True)
        # Only the calls that are counted.
        write("events/%s/%s/filter" % (group, f), "arg1 == 7")
        write("events/%s/%s/enable" % (group, f), "1")


def take_uprobes():
    write("events/%s/enable" % group, "0")
    for f in functions:
        write("uprobe_events", "-:%s/%s" % (group, f), append=True)


def start(*options):
    """A uscope, once it has printed that it is tracing, and what it printed before."""
    process = subprocess.Popen([uscope, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = ""
    for line in process.stdout:
        if line.startswith("Attached"):
            return process, said
        said += line
    sys.exit("%s: ended before it was attached: %s" % (" ".join(options), said))


def counts(process):
    process.send_signal(2)
    out = process.communicate()[0]
    return {name: int(count) for name, count in re.findall(r"^@\[begins_(\w+)\]: (\d+)$", out, re.M)}


def check(what, found, expected, these=functions):
    for f in these:
        if found.get(f) != expected:
            sys.exit("%s: %s was seen %s times, not %d: %s" % (what, f, found.get(f), expected, found))
    print("%s: %s" % (what, "every call" if these is functions else "every call but of `test`"))


target = subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
target.stdout.readline()
rounds = 0


def call():
    global rounds
    target.stdin.write("\n")
    target.stdin.flush()
    if not target.stdout.readline().startswith("CALL"):
        sys.exit("the program has died: %s" % target.wait())
    rounds += 1


def trace_in_process():
    return start("--engine", "inproc", "-p", str(target.pid), "-e", script.replace("FILE", program))[0]


# Its kernel probe would be cheapest on the second instruction, where the jump is.
others = [f for f in functions if f != "test"]
left_out = "1 of 7 functions are left out: process %d is traced by the in-process engine" % target.pid

try:
    first = trace_in_process()
    call()
    for _ in range(5):
        set_uprobes()
        call()
        take_uprobes()
        call()
    for scope in (["-p", str(target.pid)], []):
        second, said = start("--engine", "kernel", *scope, "-e",
                             "uprobe:%s:begins_* /arg0 == 7/ { @[func] = count(); }" % program)
        if left_out not in said:
            sys.exit("nothing is said of what is left out: " + said)
        call()
        check("the kernel's" + (" of one process" if scope else ""), counts(second), 300, others)
        call()
    # And the other way round: the breakpoints were there first, and outlive the jumps.
    set_uprobes()
    call()
    check("in-process", counts(first), 300 * rounds)
    call()
    before = rounds
    first = trace_in_process()
    call()
    take_uprobes()
    call()
    check("beside uprobes that were first", counts(first), 300 * (rounds - before))
    call()
    target.stdin.close()
    print(target.stdout.read().strip())
    print("status", target.wait())
finally:
    target.kill()
    for event in subprocess.run("grep -o '%s/.*' %s/uprobe_events" % (group, tracefs), shell=True, capture_output=True,
                                text=True).stdout.split("\n"):
        if event:
            name = event.split()[0]
            try:
                write("events/%s/enable" % name, "0")
                write("uprobe_events", "-:" + name, append=True)
            except OSError as error:
                print("%s: %s" % (name, error))
