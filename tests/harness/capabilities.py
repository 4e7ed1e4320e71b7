"""What this machine can do. A test names what it needs; lacking() gives the reason it must be skipped, or None."""
import functools
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ROOT / "build" / "targets"


def executable(preset):
    """The uscope under test; USCOPE_BINARY names another one."""
    if "USCOPE_BINARY" in os.environ:
        return Path(os.environ["USCOPE_BINARY"]).resolve()
    return ROOT / "build" / "uscope" if preset == "release" else ROOT / "build" / preset / "src" / "uscope"


def _command(*names):
    for name in names:
        if shutil.which(name):
            return None
    return f"no {names[0]} on this machine"


def _root():
    return None if os.geteuid() == 0 else "not root"


def _tracefs():
    for base in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing"):
        if os.access(f"{base}/uprobe_events", os.R_OK | os.W_OK):
            return None
    # Not mounted is not the same as not there: uscope mounts or names it, so the tests may as well.
    if _root() is None and "tracefs" in Path("/proc/filesystems").read_text():
        done = subprocess.run(["mount", "-t", "tracefs", "nodev", "/sys/kernel/tracing"], capture_output=True)
        if done.returncode == 0 and os.path.exists("/sys/kernel/tracing/uprobe_events"):
            return None
    return "no tracefs with uprobe_events"


def _kernel_uprobes():
    if _root():
        return "kernel uprobes need root"
    return None if os.path.exists("/sys/bus/event_source/devices/uprobe/type") else "this kernel has no uprobes"


def _bpf():
    if _root():
        return "loading BPF programs needs root"
    # bpf(BPF_MAP_CREATE) with a null attribute: EFAULT or EINVAL where the call exists, ENOSYS where it does not.
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(321, 0, None, 0) < 0 and ctypes.get_errno() in (38, 1):
        return "this kernel has no bpf system call, or forbids it"
    return None


def _uprobe_multi():
    reason = _kernel_uprobes() or _bpf()
    if reason:
        return reason
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return None if release >= (6, 6) else "uprobe_multi needs Linux 6.6"


def _ptrace():
    try:
        scope = Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip()
    except OSError:
        return None
    return None if os.geteuid() == 0 and scope != "3" or scope == "0" else f"ptrace_scope is {scope}"


def _go_new():
    return None if (ROOT / "build/peers/go-new/bin/go").exists() else "newest Go not fetched (tools/fetch-go)"


def _chroot():
    return _root()


CHECKS = {
    "root": _root,
    "chroot": _chroot,
    "tracefs": _tracefs,
    "kernel_uprobes": _kernel_uprobes,
    "bpf": _bpf,
    "uprobe_multi": _uprobe_multi,
    "ptrace": _ptrace,
    "go": lambda: _command("go"),
    "go_new": _go_new,
    "rust": lambda: _command("rustc"),
    "clang": lambda: _command("clang-14", "clang"),
    "clang16": lambda: _command("clang++-16"),
    "clang_format": lambda: _command("clang-format-14"),
    "dotnet": lambda: _command("dotnet"),
    "node": lambda: _command("node"),
    "java": lambda: _command("java"),
    "gdb": lambda: _command("gdb"),
    "perf": lambda: _command("perf"),
    "nm": lambda: _command("nm"),
    "bpftrace": lambda: _command("bpftrace"),
    "readelf": lambda: _command("readelf"),
    "openssl": lambda: _command("openssl"),
    "script": lambda: _command("script"),
    "musl": lambda: _command("musl-gcc"),
    "docker": lambda: _command("docker"),
}

# What each engine needs; a case that runs once per engine is skipped where its engine cannot work.
ENGINES = {"kernel": ["kernel_uprobes", "bpf"], "inproc": ["ptrace"]}


@functools.lru_cache(maxsize=None)
def lacking(name):
    if name not in CHECKS:
        raise KeyError(f"unknown capability '{name}' (known: {' '.join(sorted(CHECKS))})")
    return CHECKS[name]()


def target_needs(target):
    """The capabilities without which tests/targets does not build the program."""
    language, variant = target.split("_")[0], target.split("-")[1:]
    needs = []
    if language == "go":
        needs.append("go_new" if "new" in variant else "go")
    if language == "rust":
        needs.append("rust")
    if language == "dotnet":
        needs.append("dotnet")
    if "clang" in variant:
        needs.append("clang")
    if "musl" in variant:
        needs.append("musl")
    return needs
