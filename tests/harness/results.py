"""What a test came to. A Job is the unit of scheduling (one executable, one case); it yields one Result a test."""
from dataclasses import dataclass, field
from typing import Callable

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass
class Result:
    name: str  # suite/test, as --filter and --list see it
    status: str
    detail: str = ""  # a skip's reason; a failure's output
    seconds: float = 0.0


@dataclass
class Job:
    suite: str  # progress is reported once for each suite
    name: str
    run: Callable[[], list]  # -> [Result]
    names: list = field(default_factory=list)  # the tests inside, where they are known before running

    def all_names(self):
        return self.names or [self.name]
