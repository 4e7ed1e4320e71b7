"""Makes a program with more than 100 MB of .debug_info, in about a minute: a few template-heavy units are compiled once,
and their object files are copied many times with another name in place of unit0000 (of the same length, so that the
files stay valid): what links is a program of many units, each with types and functions of its own."""
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

WANTED_BYTES = 105 << 20


def debug_info_size(path):
    out = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True).stdout
    found = re.search(r"\s\.debug_info\s+\S+\s+\S+\s+\S+\s+([0-9a-f]+)", out)
    return int(found.group(1), 16) if found else 0


def make(root, build):
    """-> (path, bytes of .debug_info). Made once, and again when the sources change."""
    sources = sorted((root / "bench" / "big_unit").glob("*.cpp"))
    binary = build / "big"
    key = hashlib.sha256(b"".join(p.read_bytes() for p in [*sources, Path(__file__)])).hexdigest()
    made_from = build / "big.key"
    if binary.exists() and made_from.exists() and made_from.read_text() == key:
        return binary, debug_info_size(binary)
    print("making a program with 100 MB of debug info (once)", flush=True)
    work = build / "big-objects"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    flags = ["g++", "-std=c++20", "-O1", "-g", "-gdwarf-5", "-c"]
    running = [subprocess.Popen([*flags, "-o", work / f"{s.stem}.o", s]) for s in sources if s.stem != "main"]
    if any(p.wait() for p in running):
        raise SystemExit("bench: could not compile the big program's units")
    templates = {s.stem: (work / f"{s.stem}.o").read_bytes() for s in sources if s.stem != "main"}
    per_round = sum(debug_info_size(work / f"{name}.o") for name in templates)
    objects, number = [], 0
    while number // len(templates) * per_round < WANTED_BYTES:
        for name, data in templates.items():
            path = work / f"{name}{number:04}.o"
            path.write_bytes(data.replace(b"unit0000", b"unit%04d" % number))
            objects.append(path)
            number += 1
    main = work / "main.cpp"
    main.write_text("".join(f'extern "C" int work_unit{i:04}(int, const char*, double);\n' for i in range(number))
                    + "int main(int argc, char** argv) {\n  int sum = 0;\n"
                    + "".join(f"  sum += work_unit{i:04}(argc, argv[0], 0.5);\n" for i in range(number))
                    + "  return sum == 1;\n}\n")
    subprocess.run(["g++", "-O0", "-o", build / "big.new", main, *objects], check=True)
    (build / "big.new").rename(binary)
    made_from.write_text(key)
    shutil.rmtree(work)
    return binary, debug_info_size(binary)
