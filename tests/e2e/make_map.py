"""Writes a crossgen map of one line: the method at a file offset of a PE image, under another name.

usage: make_map.py FILE HEX_OFFSET NAME"""
import struct
import sys

file, offset, name = sys.argv[1], int(sys.argv[2], 16), sys.argv[3]
data = open(file, "rb").read()
pe = struct.unpack_from("<I", data, 0x3C)[0]
sections, optional = struct.unpack_from("<H", data, pe + 6)[0], struct.unpack_from("<H", data, pe + 20)[0]
for i in range(sections):
    at = pe + 24 + optional + 40 * i
    _, address, raw_size, raw = struct.unpack_from("<IIII", data, at + 8)
    if raw <= offset < raw + raw_size:
        print(f"{offset - raw + address:016x} 9 {name}")
