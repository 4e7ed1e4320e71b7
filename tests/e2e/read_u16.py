#!/usr/bin/env python3
"""read_u16.py PID SYMBOL: the 16-bit number that a position-independent program keeps under that name."""
import os
import subprocess
import sys


def main():
    pid, symbol = sys.argv[1:]
    program = os.path.realpath("/proc/%s/exe" % pid)
    names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    offset = next(int(line.split()[0], 16) for line in names.splitlines() if line.split()[-1] == symbol)
    with open("/proc/%s/maps" % pid) as maps:
        base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(program))
    with open("/proc/%s/mem" % pid, "rb") as memory:
        memory.seek(base + offset)
        print(int.from_bytes(memory.read(2), "little"))


main()
