"""A function's file offset from nm's address and readelf's program headers, in the shape of `uscope offsets`.

usage: offset_by_nm.py FILE FUNCTION"""
import subprocess
import sys

file, function = sys.argv[1:]
symbols = subprocess.run(["nm", file], capture_output=True, text=True, check=True).stdout.split("\n")
address = next(int(s.split()[0], 16) for s in symbols if s.split()[-1:] == [function] and s.split()[1] in "tTwW")
for line in subprocess.run(["readelf", "-lW", file], capture_output=True, text=True, check=True).stdout.split("\n"):
    words = line.split()
    if words[:1] == ["LOAD"]:
        offset, start, _, size = (int(word, 16) for word in words[1:5])
        if start <= address < start + size:
            print(f"offset: {address - start + offset:x} : {function}")
