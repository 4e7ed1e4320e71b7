"""Comparing what a command printed with what a test or a docs page shows.

In shown text a line that is only `...` stands for any number of lines, also none, and the character `…` inside a line
stands for any text, also none: `offset: 0x… main`. Everything else is literal. Space at the end of a line is ignored."""
import difflib
import re

ANY_LINES = "..."


def line_pattern(line):
    return re.compile("".join(".*" if part == "…" else re.escape(part) for part in re.split("(…)", line.rstrip())))


def lines_of(text):
    return [line.rstrip() for line in text.rstrip("\n").split("\n")] if text.rstrip("\n") else []


def block_matches(shown, printed):
    """Whether the whole output matches the shown lines."""
    # reachable[j]: the shown lines so far can account for the first j printed lines.
    reachable = {0}
    for line in shown:
        if line.strip() == ANY_LINES:
            reachable = set(range(min(reachable), len(printed) + 1)) if reachable else reachable
            continue
        pattern = line_pattern(line)
        reachable = {j + 1 for j in reachable if j < len(printed) and pattern.fullmatch(printed[j])}
        if not reachable:
            return False
    return len(printed) in reachable


def diff(shown, printed, limit=120):
    """What differs, as a unified diff in which shown lines that match are not marked."""
    seen = []
    patterns = [(line, line_pattern(line)) for line in shown]
    for line in printed:  # show a matching wildcard line as itself, so that only real differences stand out
        seen.append(next((s for s, p in patterns if "…" in s and p.fullmatch(line)), line))
    out = list(difflib.unified_diff(shown, seen, "expected", "printed", lineterm="", n=3))
    return "\n".join(out[:limit] + (["[more differences not shown]"] if len(out) > limit else []))


def find_in_order(wanted, printed):
    """wanted: [(label, compiled pattern)]. Each must match some line after the one before it. The first that does not."""
    at = 0
    for label, pattern in wanted:
        while at < len(printed) and not pattern.search(printed[at]):
            at += 1
        if at == len(printed):
            return label
        at += 1
    return None
