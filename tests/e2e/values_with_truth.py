#!/usr/bin/env python3
"""Compares every value that uscope shows of a program's arguments and results with what the program says they are: lines
"TRUTH function expression value" of `PROGRAM calls 1`. What uscope refuses to show is fine; what it shows must be true. Prints the differences
and fails, or says how many were alike and how many were refused (with -v: which, and why).

usage: values_with_truth.py [-v] USCOPE ENGINE PROGRAM [PREFIX]
PREFIX goes before the functions' names in probes, for languages with longer ones."""
import re
import struct
import subprocess
import sys


def truths(program):
    """-> {(function, expression): value}, in order"""
    out = subprocess.run([program, "calls", "1"], capture_output=True, text=True, check=True).stdout
    lines = (line.split(" ", 3) for line in out.splitlines() if line.startswith("TRUTH "))
    return {(function, expression): value for _, function, expression, value in lines}


def symbols_of(program):
    """-> {function: its symbol}: gcc names the copies of which it has changed the signature work.isra.0"""
    lines = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.split(" ", 2)[2] for line in lines if line.split(" ")[-2] in "tT"]
    copies = {name.split(".")[0]: name for name in names if re.search(r"\.(isra|constprop|part)\.", name)}
    return {**copies, **{name: name for name in names}}


def script_of(program, prefix, wanted):
    """One probe for each function and side; -> text, and whose expression lies where in it"""
    text, spans, symbols = "", [], symbols_of(program)
    for function, side in sorted({(f, "retval" in e) for f, e in wanted}):
        text += "%s:%s:%s%s { " % ("uretprobe" if side else "uprobe", program, prefix, symbols.get(function, function))
        for f, expression in wanted:
            if f != function or ("retval" in expression) != side:
                continue
            text += 'print(("SEEN", "%s", "%s", ' % (f, expression)
            spans.append((len(text) + 1, len(text) + len(expression), (f, expression)))
            text += expression + ")); "
        text += "} "
    return text, spans


def refused_at(stderr, spans):
    """-> [(key, why)]"""
    found = []
    for begin, end, why in re.findall(r"^stdin:1:(\d+)-(\d+): ERROR: (.*)$", stderr, re.M):
        hit = {root(key) for b, e, key in spans if b <= int(end) and int(begin) <= e}
        found += [(key, why) for _, _, key in spans if root(key) in hit]
    return found


def root(key):
    """The variable that an expression begins with: its fields are where it is."""
    return key[0], re.match(r"(str\(|\(\w+\))?(retval|args\.\w+)", key[1]).group(2)


def same(seen, true):
    seen = {"true": "1", "false": "0"}.get(seen, seen)
    try:
        as_float = struct.unpack("f", struct.pack("f", float(seen)))[0]  # what prints as 0.1 may be a float
        return float(true) in (float(seen), as_float)
    except ValueError:
        return seen == true


def watch(uscope, engine, program, prefix):
    """-> what was seen, and what was refused"""
    wanted = list(truths(program))
    refused = {}
    while True:
        text, spans = script_of(program, prefix, wanted)
        run = subprocess.run([uscope, "--engine", engine, "-q", "-e", text, "-c", program + " calls 1"], capture_output=True, text=True, check=False)
        if run.returncode == 0:
            break
        problems = refused_at(run.stderr, spans)
        missing = re.findall(r"^HINT: no function `%s(\w+)`" % re.escape(prefix), run.stderr, re.M)
        problems += [(key, "no such function") for key in wanted if key[0] in missing]
        if not problems:
            sys.exit("uscope failed: " + run.stderr[-2000:])
        refused.update(problems)
        wanted = [key for key in wanted if key not in refused]
    seen = {}
    for function, expression, value in re.findall(r"^\(SEEN, (.*?), (.*?), (.*)\)$", run.stdout, re.M):
        seen.setdefault((function, expression), []).append(value)
    return wanted, seen, refused


def main():
    arguments = sys.argv[1:]
    verbose = arguments[0] == "-v"
    uscope, engine, program, *prefix = arguments[verbose:]
    true = truths(program)
    wanted, seen, refused = watch(uscope, engine, program, (prefix or [""])[0])
    wrong = ["%s %s: %s, but it is %s" % (*key, value, true[key]) for key in wanted for value in seen.get(key, []) if not same(value, true[key])]
    # A call that the compiler has done away with is not seen at all.
    called = {function for function, _ in seen}
    wrong += ["%s %s: not seen" % key for key in wanted if key not in seen and key[0] in called]
    if verbose:
        print("\n".join("refused: %s %s: %s" % (*key, why) for key, why in refused.items()))
    print("\n".join(wrong))
    print("%d alike, %d refused" % (len(seen) - len(wrong), len(refused)))
    return 1 if wrong else 0


sys.exit(main())
