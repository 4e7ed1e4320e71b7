"""Reads tests/e2e/*.case. The format is described in tests/e2e/README.md; a mistake in a file is an error that names
its line, never a case that silently checks less."""
import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path

from . import capabilities

KEY = re.compile(r"^([A-Z][A-Z_]*)(?:[ ](.*))?$")
# key -> how often it may stand in a case
ONCE = {"NAME", "RUN", "EXIT", "TIMEOUT", "STOP", "WHEN_READY", "INPUT", "OUTPUT", "OUTPUT_STDERR", "TARGET_EXIT",
        "MUST_FAIL", "ENGINES", "FEED"}
MANY = {"REQUIRES", "EACH", "SETUP", "TARGET", "AFTER", "CLEANUP", "CHECK", "EXPECT", "EXPECT_REGEX", "EXPECT_ANYWHERE",
        "EXPECT_NONE", "EXPECT_STDERR", "EXPECT_STDERR_REGEX", "EXPECT_STDERR_NONE", "EXPECT_TARGET", "ENV"}
DEFAULTABLE = {"REQUIRES", "EACH", "ENGINES", "TIMEOUT", "ENV", "SETUP", "TARGET"}
EXPECTATIONS = {"OUTPUT", "OUTPUT_STDERR", "EXIT", "TARGET_EXIT", "CHECK"} | {k for k in MANY if k.startswith("EXPECT")}


class CaseError(Exception):
    pass


@dataclass
class Case:
    file: Path
    line: int
    name: str
    keys: list = field(default_factory=list)  # [(key, value, line)] in order
    values: dict = field(default_factory=dict)  # substitutions: engine, and what EACH names

    def all(self, key):
        return [value for k, value, _ in self.keys if k == key]

    def one(self, key, otherwise=None):
        found = self.all(key)
        return found[-1] if found else otherwise

    @property
    def title(self):
        tags = " ".join(self.values.values())
        return f"e2e/{self.file.stem}/{self.name}" + (f" [{tags}]" if tags else "")


def entries(path):
    """-> [(key, value, line)], blocks joined, comments dropped."""
    found, block_line = [], False
    lines = path.read_text().split("\n")
    for number, line in enumerate(lines, 1):
        if block_line and (line.startswith("  ") or not line.strip()):
            found[-1][1].append(line[2:])
            continue
        block_line = False
        if not line.strip() or line.startswith("#"):
            continue
        match = KEY.match(line.rstrip("\r"))
        if not match:
            raise CaseError(f"{path}:{number}: neither `KEY value`, an indented block line, nor a comment: {line}")
        if match.group(2) is None:
            block_line = True
            found.append([match.group(1), [], number])
        else:
            found.append([match.group(1), [match.group(2)], number])
    return [(key, "\n".join(value).rstrip("\n"), number) for key, value, number in found]


def check(case):
    where = f"{case.file}:{case.line}"
    for key, value, number in case.keys:
        if key not in ONCE | MANY:
            raise CaseError(f"{case.file}:{number}: unknown key {key}")
        if not value and key not in ("OUTPUT", "OUTPUT_STDERR", "EXPECT"):
            raise CaseError(f"{case.file}:{number}: {key} is empty")
        if key in ONCE and len([1 for k, _, n in case.keys if k == key and n >= case.line]) > 1:
            raise CaseError(f"{case.file}:{number}: {key} stands twice in one case")
        if key.endswith("_REGEX") or key.endswith("_NONE") or key in ("MUST_FAIL", "WHEN_READY"):
            for line in value.split("\n"):
                try:
                    re.compile(line)
                except re.error as error:
                    raise CaseError(f"{case.file}:{number}: not a regular expression: {error}") from None
        if key == "REQUIRES":
            for name in value.split():
                if name not in capabilities.CHECKS:
                    raise CaseError(f"{case.file}:{number}: unknown capability {name}")
        if key == "ENGINES" and not set(value.split()) <= set(capabilities.ENGINES):
            raise CaseError(f"{case.file}:{number}: unknown engine in: {value}")
        if key == "MUST_FAIL" and case.file.parent.name != "selftest":
            raise CaseError(f"{case.file}:{number}: MUST_FAIL is for the runner's own tests, in selftest/")
    if not case.all("RUN"):
        raise CaseError(f"{where}: case '{case.name}' has no RUN")
    if not any(key in EXPECTATIONS for key, _, _ in case.keys):
        raise CaseError(f"{where}: case '{case.name}' expects nothing, so it cannot fail")


IN_A_PROCESS = re.compile(r"\{uscope\}.* (-p \{pid|-c )", re.DOTALL)
USER_PROBE = re.compile(r"\b(uprobe|uretprobe|usdt|u|ur|U):")
KERNEL_ONLY = re.compile(r"\b(profile|software|hardware|tracepoint|kprobe|kretprobe|watchpoint|p|s|h|t|k):|--dry-run|--engine")


def engines_of(case):
    """Those that ENGINES names; else both, for a script whose probes can live in the one process that it names."""
    if named := case.one("ENGINES"):
        return named.split()
    run = case.one("RUN")
    both = IN_A_PROCESS.search(run) and USER_PROBE.search(run) and not KERNEL_ONLY.search(run)
    return ["kernel", "inproc"] if both else []


def variants(case):
    """One case for each combination of engine and EACH values."""
    axes = []
    engines = engines_of(case)
    if engines:
        axes.append([("engine", e) for e in engines])
    for each in case.all("EACH"):
        name, *choices = each.split()
        if not choices:
            raise CaseError(f"{case.file}:{case.line}: EACH wants a name and its values: {each}")
        axes.append([(name, c) for c in choices])
    return [Case(case.file, case.line, case.name, case.keys, dict(choice)) for choice in itertools.product(*axes)]


def read(path):
    defaults, cases, current = [], [], None
    for key, value, number in entries(path):
        if key == "NAME":
            current = Case(path, number, value, list(defaults))
            cases.append(current)
        elif current is None:
            if key not in DEFAULTABLE:
                raise CaseError(f"{path}:{number}: {key} before the first NAME (only {' '.join(sorted(DEFAULTABLE))})")
            defaults.append((key, value, number))
        else:
            current.keys.append((key, value, number))
    names = [case.name for case in cases]
    for case in cases:
        if names.count(case.name) > 1:
            raise CaseError(f"{path}:{case.line}: two cases are named '{case.name}'")
        check(case)
    return [variant for case in cases for variant in variants(case)]
