"""Running commands so that nothing outlives its test: each gets a session of its own, a time limit, output in files
(never a full pipe), and a mark in its environment by which even children that left the session are found and ended."""
import os
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

MARK = "USCOPE_TEST_MARK"
MAX_OUTPUT = 4 << 20  # bytes kept of each stream


@dataclass
class Outcome:
    status: int  # exit status; -N when ended by signal N
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False


def read_output(path):
    data = b""
    if Path(path).exists():
        with open(path, "rb") as f:
            data = f.read(MAX_OUTPUT + 1)
    text = data[:MAX_OUTPUT].decode("utf-8", "replace")
    return text + "\n[output cut here by the test runner]\n" if len(data) > MAX_OUTPUT else text


RUN_MARK = uuid.uuid4().hex  # begins the mark of everything that this run of the tests starts


def new_mark():
    return RUN_MARK + uuid.uuid4().hex


def end_everything():
    end(marked(RUN_MARK))


def marked(mark):
    """Pids of the live processes whose environment carries the mark."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as f:
                if wanted in f.read():
                    found.append(int(entry))
        except OSError:
            pass  # gone, or not ours to read
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def end(pids):
    """Kills, and waits until they are gone."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    limit = time.monotonic() + 2
    while any(alive(pid) for pid in pids) and time.monotonic() < limit:
        time.sleep(0.005)


def end_group(process):
    """Ends a process started here with everything still in its session's group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        pass


def start(command, directory, out, err, env=None, stdin=subprocess.DEVNULL, mark=None):
    """command: an argument list, or a string for bash. out and err: paths."""
    argv = ["bash", "-c", command] if isinstance(command, str) else command
    full = dict(os.environ, **(env or {}))
    full["LC_ALL"] = "C.UTF-8"
    if mark:
        full[MARK] = mark
    with open(out, "wb") as o, open(err, "wb") as e:
        return subprocess.Popen(argv, cwd=directory, stdin=stdin, stdout=o, stderr=e, env=full, start_new_session=True)


def wait_while_talking(process, silence, *paths):
    """Waits as long as some output grows at least once in `silence` seconds. False: it fell silent."""
    last, size = time.monotonic(), -1
    while True:
        try:
            process.wait(timeout=0.25)
            return True
        except subprocess.TimeoutExpired:
            now = sum(os.path.getsize(p) for p in paths)
        if now != size:
            last, size = time.monotonic(), now
        elif time.monotonic() - last > silence:
            return False


def run(command, directory, timeout, env=None, out=None, err=None, silence=False):
    """Starts, waits, ends what hangs or was left behind. silence: the limit is on time without output."""
    mark = new_mark()
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    out, err = out or directory / f".out-{mark}", err or directory / f".err-{mark}"
    begin = time.monotonic()
    process = start(command, directory, out, err, env, mark=mark)
    if silence:
        timed_out = not wait_while_talking(process, timeout, out, err)
    else:
        timed_out = False
        try:
            process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
    end_group(process)
    end(marked(mark))
    return Outcome(process.returncode if process.returncode is not None else -9, read_output(out), read_output(err),
                   time.monotonic() - begin, timed_out)


def describe_status(status):
    if status is None:
        return "still running"
    if status < 0 or status > 128:
        number = -status if status < 0 else status - 128
        try:
            return f"killed by {signal.Signals(number).name}"
        except ValueError:
            pass
    return f"exit status {status}"
