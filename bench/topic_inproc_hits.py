"""What a hit adds to a tiny function in a tight loop: uscope's two engines beside bpftrace, uftrace and LTTng-UST, by the program's own clock."""
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from bench import measure as m

HERE = Path(__file__).resolve().parent / "programs"
CALLS = {"inproc": 20_000_000, "traps": 60_000, "own": 4_000_000}

# (what it is called, script over {work}, most nanoseconds that it may add, whether the engines in the kernel are tried too)
SCRIPTS = [
    ("count()", "uprobe:{work} {{ @ = count(); }}", 5, True),
    ("hist(arg0)", "uprobe:{work} {{ @ = hist(arg0); }}", 8, True),
    ("@[arg0] = count() over 1,000 keys", "uprobe:{work} {{ @[arg0] = count(); }}", 20, True),
    ("entry-to-exit latency histogram through a map by tid",
     "uprobe:{work} {{ @start[tid] = nsecs; }} uretprobe:{work} {{ @ = hist(nsecs - @start[tid]); }}", 60, False),
    ("entry-to-exit latency histogram by the engine's own pairing", "uretprobe:{work} {{ @ = hist(took); }}", 42, False),
    ("str(arg1) of 16 bytes, a constant of the program, as a map's key", "uprobe:{work} {{ @[str(arg1)] = count(); }}", 60, False),
]
EVENT = 'uprobe:{work} {{ printf("%d %d %d %d\\n", arg0, arg1, arg2, arg0); }}'


class Tight:
    """The program, built as each tool wants it, and what it says a call takes."""

    def __init__(self, bench):
        self.bench, self.result = bench, bench.build / "tight.result"
        self.plain = self._build("tight", [])

    def _build(self, name, flags, libraries=()):
        out = self.bench.build / name
        sources = [HERE / "tight.c", HERE / "tight_lttng.h"]
        if not out.exists() or out.stat().st_mtime < max(s.stat().st_mtime for s in sources):
            done = subprocess.run(["gcc", "-O2", "-g", *flags, "-o", out, HERE / "tight.c", "-lpthread", *libraries], capture_output=True, text=True)
            if done.returncode != 0:
                return None
        return out

    def for_uftrace(self):
        return self._build("tight-pg", ["-pg"])

    def for_lttng(self):
        return self._build("tight-lttng", ["-DLTTNG", f"-I{HERE}"], ["-llttng-ust", "-ldl"])

    def arguments(self, calls, threads=1, inside=False):
        return [str(calls), str(threads), "/bench/tight.result" if inside else str(self.result)]

    def took(self, command, **options):
        """Runs the command; -> [(least, median) a thread] in seconds, or nothing."""
        self.result.unlink(missing_ok=True)
        done = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)
        if not self.result.exists():
            return [], done.stderr.decode(errors="replace")
        lines = [line.split() for line in self.result.read_text().splitlines()]
        return [(float(least) * 1e-9, float(median) * 1e-9) for least, median in lines], done.stderr.decode(errors="replace")


def least_and_medians(tight, runs, command, **options):
    """A command several times: the least of all pieces, and the median of the runs' medians with it, over all threads."""
    took = []
    for _ in range(runs):
        for least, median in tight.took(command, **options)[0]:
            took += [least, median]
    return took


def ours(tight, engine, script, calls, threads=1, output="/dev/null"):
    run = " ".join([str(tight.plain), *tight.arguments(calls, threads)])
    return [tight.bench.uscope, "--engine", engine, "-q", "-o", output, "-c", run, "-e", script.format(work=f"{tight.plain}:work")]


def theirs(tight, script, calls):
    run = " ".join(["/bench/tight", *tight.arguments(calls, inside=tight.bench.has_sid)])
    return tight.bench.peer("bpftrace", "-q", "-c", run, "-e", script.format(work="/bench/tight:work"))


class Added:
    """A table of what a hit adds; the untraced call is taken off every figure."""

    def __init__(self, bench, tight, title):
        self.bench, self.tight, self.table = bench, tight, bench.table(f"In-process: {title}, time added to a call")
        untraced = least_and_medians(tight, bench.runs, [tight.plain, *tight.arguments(CALLS["inproc"])])
        self.untraced = min(untraced)

    def add(self, tool, took, note=""):
        added = [max(each - self.untraced, 1e-10) for each in took]
        if added:
            self.table.add(m.Row(tool, "", added, note=note))
        return min(added) if added else None

    def target(self, most, tool="uscope inproc"):
        row = self.table.row(tool)
        if row is None:
            self.table.target(f"at most {most} ns added: could not be measured", None)
        else:
            self.table.target(f"at most {most} ns added: {row.best * 1e9:.1f} ns", row.best * 1e9 <= most)

    def show(self):
        self.bench.show(self.table)


def scripts(bench, tight):
    for title, script, most, with_kernel in SCRIPTS:
        added = Added(bench, tight, title)
        added.add("uscope inproc", least_and_medians(tight, 3, ours(tight, "inproc", script, CALLS["inproc" if most != 60 else "own"])))
        if with_kernel and os.geteuid() == 0:
            added.add("uscope kernel", least_and_medians(tight, 2, ours(tight, "kernel", script, CALLS["traps"])))
            if bench.peer("bpftrace"):
                added.add("bpftrace", least_and_medians(tight, 2, theirs(tight, script, CALLS["traps"])))
        if "pairing" in title:
            add_uftrace(bench, tight, added)
        added.target(most)
        added.show()


def heap_text(bench, tight):
    """Where the kernel lets a load fail, any memory is read by loads; elsewhere by a system call."""
    script = "uprobe:{work} {{ @[str(arg1)] = count(); }}"
    added = Added(bench, tight, "str(arg1) of 16 bytes on the heap, as a map's key")
    heap = {**os.environ, "TIGHT_HEAP": "1"}
    added.add("uscope inproc", least_and_medians(tight, 3, ours(tight, "inproc", script, CALLS["own"] // 4), env=heap))
    said = subprocess.run([*map(str, ours(tight, "inproc", script, 20)), "-v"], capture_output=True, text=True).stderr
    if "lets fail" in said:
        added.target(60)
    else:
        added.table.target("at most 60 ns added where the kernel lets a load fail (CONFIG_X86_SGX); this one does not", None)
    added.show()


def add_uftrace(bench, tight, added):
    program = tight.for_uftrace()
    if not program or not bench.peer("uftrace"):
        return
    inside = bench.has_sid
    command = bench.peer("uftrace", "record", "--no-libcall", "-F", "work", "-d", bench.build / "uftrace.data", program,
                         *tight.arguments(CALLS["own"], inside=inside))
    added.add("uftrace", least_and_medians(tight, 2, command), note="entry and exit recorded; compiled with -pg")
    shutil.rmtree(bench.build / "uftrace.data", ignore_errors=True)


def events(bench, tight):
    """In bursts, as events come: the reader catches up between them. Then without pause, to see how many a second it takes; there the
    reader shares its core's resources with the program, and the program waits for memory that it touches the first time."""
    added = Added(bench, tight, "event with a 32-byte payload")
    least, said = events_of(tight, 2_000_000, "20")
    for _ in range(4):
        least += events_of(tight, 2_000_000, "20")[0]
    added.add("uscope inproc", least, note=f"in bursts of 100,000, each shown as text{', ' + said if said else ''}")
    whole, lost = [], ""
    for _ in range(bench.runs):
        took, said = events_of(tight, CALLS["own"], "0")
        lost = lost or said
        whole += [] if said else took[1::2]
    if whole:
        added.add("uscope inproc, no pause", whole, note="each shown as text, none lost")
    add_lttng(tight, added)
    added.target(35)
    rate = 1e-6 / min(whole) if whole else 0
    added.table.target(f"at least 20 million events a second from one thread, none lost: {rate:.1f} million, for 4 million events" if whole
                       else f"at least 20 million events a second, none lost: {lost}", rate >= 20)
    added.show()


def events_of(tight, calls, pause):
    """-> ([least, median of the pieces], what was said of losses)."""
    run = " ".join([str(tight.plain), *tight.arguments(calls), pause])
    command = [tight.bench.uscope, "--engine", "inproc", "-q", "-o", "/dev/null", "-c", run, "-e", EVENT.format(work=f"{tight.plain}:work")]
    took, said = tight.took(command)
    return [each for pair in took for each in pair], next((line for line in said.splitlines() if "Lost" in line), "")


def add_lttng(tight, added):
    program = tight.for_lttng()
    if not program or not shutil.which("lttng-sessiond"):
        return
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "LTTNG_HOME": home, "HOME": home, "LTTNG_UST_REGISTER_TIMEOUT": "2000"}
        lttng = lambda *words: subprocess.run(["lttng", "--no-sessiond", *words], env=environment, stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL, check=True, timeout=60)
        daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(2)
            lttng("create", "tight", "--output", f"{home}/trace")
            lttng("enable-channel", "-u", "--subbuf-size=8M", "--num-subbuf=8", "c")
            lttng("enable-event", "-u", "-c", "c", "tight:work")
            lttng("start")
            added.add("LTTng-UST", least_and_medians(tight, 2, [program, *tight.arguments(CALLS["own"])], env=environment), note="compiled in")
            lttng("destroy")
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as problem:
            print(f"  LTTng-UST: {problem}")
        finally:
            daemon.terminate()
            daemon.wait()


def two_threads(bench, tight):
    cores = len(os.sched_getaffinity(0))
    for title, script, _, _ in SCRIPTS[:3]:
        added = Added(bench, tight, f"{title}, one thread and two")
        one = added.add("one thread", least_and_medians(tight, 3, ours(tight, "inproc", script, CALLS["inproc"])))
        two = None
        if cores >= 2:
            two = added.add("two threads", least_and_medians(tight, 3, ours(tight, "inproc", script, CALLS["inproc"], threads=2)))
        if one and two:
            # As what a call takes in all: a nanosecond of noise is a third of what a count adds.
            ratio = (two + added.untraced) / (one + added.untraced)
            added.table.target(f"two threads on two cores at most 1.1 times the cost of one: {ratio:.2f} times", ratio <= 1.1)
        added.show()


def measure(bench):
    tight = Tight(bench)
    if tight.plain is None:
        print("bench/programs/tight.c could not be compiled")
        return
    scripts(bench, tight)
    heap_text(bench, tight)
    events(bench, tight)
    two_threads(bench, tight)
