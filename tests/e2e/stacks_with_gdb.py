#!/usr/bin/env python3
"""Compares whole stacks at functions with gdb's: stacks_with_gdb.py USCOPE ENGINE PROGRAM FUNCTION…

Both see the same addresses (no randomisation). gdb's frames that are no frames of the machine, inlined calls and
tail calls it has inferred, are left out. Prints "same: N stacks", or what differs.
"""
import re
import subprocess
import sys

WALK = """python
import gdb
frame, addresses = gdb.newest_frame(), []
while frame is not None:
    if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
        addresses.append("%x" % frame.pc())
    frame = frame.older()
print("STACK", gdb.newest_frame().name(), " ".join(addresses))
end"""


def stacks_of_uscope(uscope, engine, program, functions):
    script = "config = { show_debug_info = 0 } "
    script += " ".join('uprobe:%s:%s { printf("#%s%%s", ustack(raw, 100)); }' % (program, f, f) for f in functions)
    out = subprocess.run(["setarch", "-R", uscope, "--engine", engine, "-q", "-e", script, "-c", "%s calls 1" % program],
                         capture_output=True, text=True, timeout=60, check=True).stdout
    stacks = {}
    for block in re.split(r"^#", out, flags=re.M)[1:]:
        name, _, rest = block.partition("\n")
        stacks.setdefault(name.strip(), [line for line in rest.split("\n") if re.fullmatch("[0-9a-f]+", line)])
    return stacks


def stacks_of_gdb(program, functions):
    commands = ["set backtrace past-main on", "set debuginfod enabled off", "handle SIGUSR1 nostop noprint pass"]
    commands += ["tbreak *%s" % f for f in functions]
    commands += ["run calls 1 >/dev/null"]
    commands += [WALK, "continue"] * len(functions)
    arguments = [word for command in commands for word in ("-ex", command)]
    out = subprocess.run(["gdb", "-nx", "-q", "-batch", *arguments, program], capture_output=True, text=True,
                         timeout=120).stdout
    found = (line.split() for line in out.split("\n") if line.startswith("STACK "))
    return {words[1]: words[2:] for words in found}


def main():
    uscope, engine, program, *functions = sys.argv[1:]
    ours, theirs = stacks_of_uscope(uscope, engine, program, functions), stacks_of_gdb(program, functions)
    wrong = [f for f in functions if not theirs.get(f) or ours.get(f) != theirs[f]]
    for function in wrong:
        print(function, "\n  gdb:   ", theirs.get(function), "\n  uscope:", ours.get(function))
    if not wrong:
        print("same: %d stacks" % len(functions))
    return 1 if wrong else 0


sys.exit(main())
