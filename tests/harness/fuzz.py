"""Runs of the libFuzzer harnesses (tests/fuzz, preset fuzz), from their seed corpora. Short runs, as `make test` has them, try the
same inputs every time: whoever changes one thing should not meet another's bug. Long runs (`make fuzz`) go their own ways, and their
new inputs stay in build/fuzz/corpus, so that later ones begin where earlier ones ended. A crash keeps its input in build/fuzz/artifacts
and the report shows it."""
import re
import shutil

from . import capabilities, processes
from .results import FAILED, PASSED, SKIPPED, Job, Result


LONG_SECONDS = 60


def what_went_wrong(log):
    """The sanitizer's or libFuzzer's report with the input that caused it, without the progress lines before it."""
    report = re.search(r"^(?:==\d+==\s*(?:ERROR|\w+Sanitizer)|.*runtime error:|ALARM:)", log, re.MULTILINE)
    return log[report.start():][:6000] if report else log[-3000:]


def run_harness(name, seconds):
    root = capabilities.ROOT
    title = f"fuzz/{name.removeprefix('fuzz_')}"
    if reason := capabilities.lacking("clang16"):
        return [Result(title, SKIPPED, reason)]
    executable = root / "build" / "fuzz" / "fuzz" / name
    if not executable.exists():
        return [Result(title, FAILED, f"{executable} was not built")]
    is_short = seconds < LONG_SECONDS
    corpus = root / "build" / "fuzz" / ("corpus-of-tests" if is_short else "corpus") / name
    artifacts = root / "build" / "fuzz" / "artifacts" / name
    if is_short:
        shutil.rmtree(corpus, ignore_errors=True)
    for directory in (corpus, artifacts):
        directory.mkdir(parents=True, exist_ok=True)
    command = [str(executable), f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1",
               f"-artifact_prefix={artifacts}/", *(["-seed=1"] if is_short else []), str(corpus)]
    seeds = root / "tests" / "fuzz" / "corpus" / name
    if seeds.is_dir():
        command.append(str(seeds))
    # A dictionary is shared by the harnesses of a folder: lang.dict serves every fuzz_lang_….
    dictionary = root / "tests" / "fuzz" / f"{name.split('_')[1]}.dict"
    if dictionary.exists():
        command.append(f"-dict={dictionary}")
    run = processes.run(command, root / "build" / "test" / "fuzz" / name, seconds + 60)
    if run.timed_out or run.status != 0:
        how = "hung" if run.timed_out else processes.describe_status(run.status)
        return [Result(title, FAILED, f"{how}\n{what_went_wrong(run.stderr)}", run.seconds)]
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", run.stderr)
    if not runs or int(runs.group(1)) < 10:
        return [Result(title, FAILED, "hardly any input was tried\n" + run.stderr[-2000:], run.seconds)]
    return [Result(title, PASSED, "", run.seconds)]


def jobs(seconds):
    found = []
    for source in sorted((capabilities.ROOT / "tests" / "fuzz").glob("fuzz_*.cpp")):
        found.append(Job("fuzz", f"fuzz/{source.stem.removeprefix('fuzz_')}",
                         lambda name=source.stem: run_harness(name, seconds)))
    return found
