"""The programs that the topics on scripts trace, built below build/bench so that peers see them from their own root."""
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent / "programs"


def hot(bench):
    """Calls tiny functions and says what a call took. Static: the peers' root has another C library."""
    out = bench.build / "hot"
    if not out.exists() or out.stat().st_mtime < (HERE / "hot.c").stat().st_mtime:
        subprocess.run(["gcc", "-O2", "-g", "-static", "-o", out, HERE / "hot.c"], check=True)
    return out


def many(bench, count):
    """So many functions, none of which is called."""
    out = bench.build / f"many-{count}"
    if not out.exists():
        source = bench.build / f"many-{count}.c"
        source.write_text(subprocess.run([sys.executable, HERE / "make_many.py", str(count)], capture_output=True,
                                         text=True, check=True).stdout)
        subprocess.run(["gcc", "-O2", "-static", "-fcf-protection=branch", "-o", out, source], check=True)
    return out


class Result:
    """Where hot says what a call took: a file that both it and the peers see."""

    def __init__(self, bench):
        self.path = bench.build / "hot.result"

    def argument(self, tool):
        return str(self.path) if tool == "uscope" else "/bench/hot.result"

    def take(self):
        text = self.path.read_text() if self.path.exists() else ""
        self.path.unlink(missing_ok=True)
        return float(text) if text else None
