#!/usr/bin/env python3
"""The rules that keep src/ readable, checked: who may include whom (allowed_includes.txt), no cycles, no overlong files
or functions, a first comment in each header, no names that say nothing. Run alone it prints what it finds."""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 100
EMPTY_NAMES = re.compile(r"(^|_)(utils?|helpers?|managers?|misc|common)(_|\.|$)", re.I)


def read_table(path):
    """-> {folder: [allowed]}, [(from, to)] never"""
    table, never = {}, []
    for line in path.read_text().split("\n"):
        line = line.split("#")[0].strip()
        if line.startswith("never "):
            never.append(tuple(line.split()[1:3]))
        elif line:
            folder, _, allowed = line.partition(":")
            table[folder.strip()] = allowed.split()
    return table, never


def source_files(src):
    return sorted(p for p in src.rglob("*") if p.suffix in (".cpp", ".h", ".c", ".inc") and p.is_file())


def includes_of(path):
    return [(number, m.group(1)) for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1)
            if (m := INCLUDE.match(line))]


def check_edges(root):
    src = root / "src"
    table, never = read_table(root / "tests/architecture/allowed_includes.txt")
    problems = []
    for path in source_files(src):
        own = path.relative_to(src)
        folder = own.parts[0]
        if folder not in table:
            problems.append(f"src/{own}: {folder} is not in allowed_includes.txt")
            continue
        for number, name in includes_of(path):
            if not (src / name).exists():
                if (path.parent / name).exists():
                    problems.append(f"src/{own}:{number}: include \"{name}\" by its path from src/")
                continue  # generated, such as version.h
            other = name.split("/")[0]
            if other != folder and other not in table[folder] and name not in table[folder]:
                problems.append(f"src/{own}:{number}: {folder} may not include {name}")
            for a, b in never:
                if str(own).startswith(a + "/") and name.startswith(b + "/"):
                    problems.append(f"src/{own}:{number}: {a} and {b} must not know each other ({name})")
    return problems


def check_cmake(root):
    """USES in src/CMakeLists.txt: the same folders as the table, except where the table allows single headers only."""
    table, _ = read_table(root / "tests/architecture/allowed_includes.txt")
    problems, seen = [], set()
    for line in (root / "src/CMakeLists.txt").read_text().split("\n"):
        match = re.match(r"\s*uscope_folder\((\w+)(.*)\)", line)
        if not match or match.group(1) == "name":
            continue
        folder, rest = match.group(1), match.group(2)
        seen.add(folder)
        uses = re.search(r"USES ([a-z0-9_ ]+?)(?: LIBS|$)", rest)
        uses = set(uses.group(1).split()) if uses else set()
        if folder not in table:
            problems.append(f"src/CMakeLists.txt: {folder} is not in allowed_includes.txt")
            continue
        allowed = {a.split("/")[0] for a in table[folder]}
        for extra in sorted(uses - allowed):
            problems.append(f"src/CMakeLists.txt: {folder} USES {extra}, which allowed_includes.txt does not allow")
    for folder in table:
        if folder not in seen and not folder.endswith(".cpp"):
            problems.append(f"src/CMakeLists.txt has no uscope_folder({folder})")
    for path in (root / "src").iterdir():
        if path.is_dir() and path.name not in seen and source_files(path):
            problems.append(f"src/{path.name} is not built: no uscope_folder({path.name})")
    return problems


def check_cycles(root):
    src = root / "src"
    graph = {str(p.relative_to(src)): [n for _, n in includes_of(p) if (src / n).exists()] for p in source_files(src)}
    problems, done, stack = [], set(), []

    def visit(name):
        if name in stack:
            problems.append("include cycle: " + " -> ".join(stack[stack.index(name):] + [name]))
            return
        if name in done:
            return
        stack.append(name)
        for other in graph.get(name, []):
            visit(other)
        stack.pop()
        done.add(name)

    for name in graph:
        visit(name)
    return problems


def check_table_is_acyclic(root):
    """Folder edges form no circle either (single-header edges are exempt: that header's folder is the lower one)."""
    table, _ = read_table(root / "tests/architecture/allowed_includes.txt")
    problems = []
    for start in table:
        reached, todo = set(), [a for a in table[start] if "/" not in a]
        while todo:
            at = todo.pop()
            if at not in reached:
                reached.add(at)
                todo += [a for a in table.get(at, []) if "/" not in a]
        if start in reached:
            problems.append(f"allowed_includes.txt: {start} can reach itself")
    return problems


def check_file_length(root):
    return [f"{p.relative_to(root)}: {n} lines, more than {MAX_FILE_LINES}"
            for folder in ("src", "tests/unit", "tests/fuzz") for p in source_files(root / folder)
            if (n := p.read_text(errors="replace").count("\n")) > MAX_FILE_LINES]


def function_lengths(text):
    """(first line, lines) of each function body in clang-formatted text: a body opens with a line that ends in `{` and
    looks like a signature, and closes with a `}` at the same indentation. A struct inside a body (a visitor) is not
    counted as its lines; the functions in it are looked at by themselves."""
    lines = text.split("\n")
    opens = re.compile(r"^(\s*)(?!(?:namespace|class|struct|union|enum|extern|if|for|while|switch|do|else|return|case)\b)\S.*\)"
                       r"[^;=]*\{$")
    local_type = re.compile(r"^(\s+)(?:struct|class) \w+[^;()]*\{$")

    def closing(first, indent):
        return next((j for j in range(first + 1, len(lines)) if re.match(rf"^{indent}\}}(?!\s*else)", lines[j])), None)

    def bodies(begin, end):
        i = begin
        while i < end:
            match = opens.match(lines[i])
            close = closing(i, match.group(1)) if match else None
            if close is None:
                i += 1
                continue
            inner, j = 0, i + 1
            while j < close:
                nested = local_type.match(lines[j])
                over = closing(j, nested.group(1)) if nested else None
                if over is not None:
                    inner += over - j
                    yield from bodies(j + 1, over)
                    j = over
                j += 1
            yield i + 1, close - i - 1 - inner
            i = close + 1

    yield from bodies(0, len(lines))


def check_function_length(root):
    problems = []
    for path in source_files(root / "src"):
        for first, length in function_lengths(path.read_text(errors="replace")):
            if length > MAX_FUNCTION_LINES:
                problems.append(f"{path.relative_to(root)}:{first}: a function of {length} lines, more than {MAX_FUNCTION_LINES}")
    return problems


def check_names(root):
    return [f"{p.relative_to(root)}: a name that says nothing" for p in source_files(root / "src")
            if any(EMPTY_NAMES.search(part) for part in p.relative_to(root / "src").parts)]


def check_headers(root):
    problems = []
    for path in source_files(root / "src"):
        if path.suffix != ".h":
            continue
        text = path.read_text(errors="replace")
        if not text.lstrip().startswith(("//", "/*")):
            problems.append(f"{path.relative_to(root)}: does not begin with a comment that says what it is")
        if "#pragma once" not in text:
            problems.append(f"{path.relative_to(root)}: no #pragma once")
    return problems


def check_main(root):
    lines = (root / "src/main.cpp").read_text().count("\n")
    return [f"src/main.cpp: {lines} lines; it stays under 30"] if lines >= 30 else []


CHECKS = {"includes": check_edges, "cmake agrees": check_cmake, "cycles": check_cycles, "table": check_table_is_acyclic,
          "file length": check_file_length, "function length": check_function_length, "names": check_names,
          "header comments": check_headers, "main is small": check_main}


def check_all(root):
    return {rule: check(root) for rule, check in CHECKS.items()}


if __name__ == "__main__":
    found = [p for problems in check_all(Path(__file__).resolve().parents[2]).values() for p in problems]
    print("\n".join(found) or "in order")
    sys.exit(1 if found else 0)
