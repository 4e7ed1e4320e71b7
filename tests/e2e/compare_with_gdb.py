"""Compares `uscope types --json` with gdb's `ptype/o` for every struct and class of a program: sizes, and the offset and
size of each member that both name. Prints the differences and fails, or says how many types were alike.

usage: compare_with_gdb.py USCOPE FILE"""
import json
import re
import subprocess
import sys

MEMBER = re.compile(r"^/\*\s+(\d+)(?::\s*(\d+))?\s*\|\s+(\d+) \*/    (?! )(.*?)\*?\b([A-Za-z_]\w*)(?:\[[^\]]*\])*(?: : (\d+))?;$")
TOTAL = re.compile(r"/\* total size(?: \(bytes\))?:\s+(\d+)")
MOST = 200


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def by_uscope(uscope, file):
    names = [t["name"] for t in json.loads(output(uscope, "types", "--json", file)) if t["kind"] in ("struct", "class")]
    found = {}
    for name in sorted(set(n for n in names if re.fullmatch(r"[\w:]+", n)))[:MOST]:
        layouts = json.loads(output(uscope, "types", "--json", file, name) or "[]")
        layouts = [t for t in layouts if t["name"] == name and "alias_of" not in t and not t.get("incomplete")]
        if len(layouts) == 1:  # gdb shows one of several
            found[name] = layouts[0]
    return found


def by_gdb(file, names):
    """-> {name: (size, {member: (offset, bit or None, size or bits)})}"""
    script = []
    for name in names:
        script += ["-ex", f"echo @@{name}\\n", "-ex", f"ptype/o struct {name}"]
    found = {}
    for part in output("gdb", "-nx", "-batch", *script, file).split("@@")[1:]:
        name, _, text = part.partition("\n")
        totals = TOTAL.findall(text)
        if not totals:
            continue
        members = {}
        for line in text.split("\n"):
            if match := MEMBER.match(line):
                offset, bit, size, _, member, bits = match.groups()
                members[member] = (int(offset), int(bit) if bit else None, int(bits) if bits else int(size))
        found[name.strip()] = (int(totals[-1]), members)
    return found


def main():
    uscope, file = sys.argv[1:]
    ours = by_uscope(uscope, file)
    theirs = by_gdb(file, ours)
    different = []
    for name, (size, members) in theirs.items():
        layout = ours[name]
        if layout["size"] != size:
            different.append(f"{name}: size {layout['size']}, gdb says {size}")
        mine = {m.get("name"): m for m in layout["members"] if m["kind"] in ("member", "bitfield")}
        for member, (offset, bit, width) in members.items():
            if member not in mine:
                continue
            m = mine[member]
            seen = (m["offset"], m.get("bit"), m.get("bits", m.get("size")))
            if seen != (offset, bit, width):
                different.append(f"{name}.{member}: {seen}, gdb says {(offset, bit, width)}")
    print("\n".join(different) if different else f"{len(theirs)} types alike")
    return 1 if different else 0


sys.exit(main())
