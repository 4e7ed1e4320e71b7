#!/usr/bin/env python3
"""left_as_found.py PID COMMAND…: what a process is made of before the command and after it: mappings, the bytes of all its
code (the vDSO's too), file descriptors, signal handlers and masks. Prints what differs, or that nothing does."""
import os
import subprocess
import sys

HANDLED = ("SigBlk", "SigIgn", "SigCgt", "TracerPid", "Seccomp")


def look_at(pid):
    seen = {}
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            place, rights, *rest = line.split()
            # The heap and the stack grow by themselves.
            if rest[-1] not in ("[heap]", "[stack]"):
                seen[f"mapping {place}"] = line
            if "x" in rights and rest[-1] != "[vsyscall]":
                begin, end = (int(each, 16) for each in place.split("-"))
                memory.seek(begin)
                seen[f"code at {place} {rest[-1]}"] = memory.read(end - begin)
    for fd in os.listdir(f"/proc/{pid}/fd"):
        seen[f"fd {fd}"] = os.readlink(f"/proc/{pid}/fd/{fd}")
    with open(f"/proc/{pid}/status") as status:
        seen |= {line.split(":")[0]: line for line in status if line.startswith(HANDLED)}
    return seen


pid, command = sys.argv[1], sys.argv[2:]
before = look_at(pid)
done = subprocess.run(command)
after = look_at(pid)
differing = [each for each in sorted(before.keys() | after.keys()) if before.get(each) != after.get(each)]
for each in differing:
    print("DIFFERS:", each)
kinds = {kind: sum(each.startswith(kind) for each in before) for kind in ("mapping", "code", "fd")}
print(f"{kinds['mapping']} mappings, {kinds['code']} of code, {kinds['fd']} fds: {len(differing)} differ")
sys.exit(done.returncode or bool(differing))
