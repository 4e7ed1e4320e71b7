"""The runner's own tests: a checker that cannot find fault is worse than none."""
import tempfile
import unittest
from pathlib import Path

from tests.architecture import check
from tests.harness import case_file, docs, match, processes, unit


SCRATCH = tempfile.TemporaryDirectory()
unittest.addModuleCleanup(SCRATCH.cleanup)


def scratch():
    return Path(tempfile.mkdtemp(dir=SCRATCH.name))


def written(text, name="x.case"):
    path = scratch() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


class Matching(unittest.TestCase):
    def test_literal_lines_must_be_all_there(self):
        self.assertTrue(match.block_matches(["a", "b"], ["a", "b"]))
        self.assertFalse(match.block_matches(["a"], ["a", "b"]))
        self.assertFalse(match.block_matches(["a", "b"], ["a"]))
        self.assertFalse(match.block_matches([], ["a"]))

    def test_dots_alone_stand_for_any_lines(self):
        self.assertTrue(match.block_matches(["a", "...", "z"], ["a", "b", "c", "z"]))
        self.assertTrue(match.block_matches(["a", "...", "z"], ["a", "z"]))
        self.assertFalse(match.block_matches(["a", "...", "z"], ["a", "b"]))
        self.assertTrue(match.block_matches(["...", "b", "...", "b"], ["b", "x", "b", "b"]))
        self.assertFalse(match.block_matches(["b", "..."], []))

    def test_an_ellipsis_stands_for_any_text_in_a_line(self):
        self.assertTrue(match.block_matches(["at 0x… main"], ["at 0x12ab main"]))
        self.assertFalse(match.block_matches(["at 0x… main"], ["at 12ab main"]))
        self.assertFalse(match.block_matches(["a.c"], ["abc"]))

    def test_order_matters(self):
        import re
        wanted = [("b", re.compile("^b$")), ("a", re.compile("^a$"))]
        self.assertEqual(match.find_in_order(wanted, ["a", "b"]), "a")
        self.assertIsNone(match.find_in_order(wanted, ["a", "b", "a"]))


class CaseFiles(unittest.TestCase):
    def refused(self, text, why):
        with self.assertRaisesRegex(case_file.CaseError, why):
            case_file.read(written(text))

    def test_mistakes_are_refused(self):
        self.refused("NAME a\nRUN true\n", "expects nothing")
        self.refused("NAME a\nEXPECT x\n", "no RUN")
        self.refused("NAME a\nRUN true\nEXPCET x\nEXIT 0\n", "unknown key EXPCET")
        self.refused("NAME a\nRUN true\nRUN false\nEXIT 0\n", "twice")
        self.refused("NAME a\nREQUIRES moon\nRUN true\nEXIT 0\n", "unknown capability moon")
        self.refused("NAME a\nRUN true\nEXPECT_REGEX (\n", "not a regular expression")
        self.refused("NAME a\nRUN true\nEXIT 0\nNAME a\nRUN true\nEXIT 0\n", "two cases")
        self.refused("NAME a\nRUN true\nEXIT 0\nMUST_FAIL x\n", "MUST_FAIL")
        self.refused("RUN true\nNAME a\nEXIT 0\n", "before the first NAME")
        self.refused("NAME a\nRUN true\nENGINES warp\nEXIT 0\n", "unknown engine")
        self.refused("NAME a\nRUN true\nwhatever\nEXIT 0\n", "neither")

    def test_engines_and_each_multiply(self):
        cases = case_file.read(written("NAME a\nENGINES kernel inproc\nEACH n 1 2 3\nRUN true {n}\nEXIT 0\n"))
        self.assertEqual(len(cases), 6)
        self.assertEqual(cases[0].values, {"engine": "kernel", "n": "1"})

    def test_blocks_keep_their_inner_indentation_and_blank_lines(self):
        case = case_file.read(written("NAME a\nRUN true\nOUTPUT\n  one\n    two\n\n  three\n\nEXIT 0\n"))[0]
        self.assertEqual(case.one("OUTPUT"), "one\n  two\n\nthree")


class Pages(unittest.TestCase):
    def test_commands_continuations_and_output(self):
        page = written("text\n```console\n$ echo a \\\n> b\na b\n$ true\n```\n```console fails\n$ false\n```\n", "p.md")
        commands, _ = docs.commands_of(page)
        self.assertEqual([(c.text, c.shown, c.must_fail) for c in commands],
                         [("echo a \\\nb", ["a b"], False), ("true", [], False), ("false", [], True)])

    def test_norun_wants_a_reason(self):
        with self.assertRaisesRegex(docs.PageError, "wants a reason"):
            docs.commands_of(written("```console norun\n$ x\n```\n", "p.md"))
        self.assertEqual(docs.commands_of(written("```console norun: no moon\n$ x\n```\n", "p.md"))[0], [])

    def test_a_block_without_a_command_is_refused(self):
        with self.assertRaisesRegex(docs.PageError, "without"):
            docs.commands_of(written("```console\n```\n", "p.md"))

    def test_output_and_status_are_compared(self):
        shell = docs.Shell(scratch(), Path("/bin/true"))
        try:
            self.assertIsNone(docs.check_command(shell, docs.Command(1, "x=5; echo one; echo two >&2", ["one", "two"])))
            self.assertIsNone(docs.check_command(shell, docs.Command(1, "echo $x", ["5"])))
            self.assertIn("+7", docs.check_command(shell, docs.Command(1, "echo 7", ["8"])))
            self.assertIn("success expected", docs.check_command(shell, docs.Command(1, "false", [])))
            self.assertIn("failure expected", docs.check_command(shell, docs.Command(1, "true", [], True)))
        finally:
            shell.close()


class GoogleTestOutput(unittest.TestCase):
    def test_a_crash_names_the_running_test(self):
        finished, running, _ = unit.parse("[ RUN      ] A.x\n[       OK ] A.x (5 ms)\n[ RUN      ] A.y\nboom\n")
        self.assertEqual((finished["A.x"][0], running), ("passed", "A.y"))

    def test_skips_give_their_reason(self):
        finished, _, _ = unit.parse("[ RUN      ] A.x\na.cpp:3: Skipped\nno Go here\n\n[  SKIPPED ] A.x (0 ms)\n")
        self.assertEqual(unit.skip_reason(finished["A.x"][1]), "no Go here")

    def test_failures_with_parameters_are_seen(self):
        finished, running, _ = unit.parse("[ RUN      ] P/A.x/0\nbad\n[  FAILED  ] P/A.x/0, where GetParam() = 3 (1 ms)\n")
        self.assertEqual((finished["P/A.x/0"][0], running), ("failed", None))

    def test_long_filters_are_turned_around(self):
        every = [f"A.t{i}" for i in range(10)]
        self.assertEqual(unit.filter_for(every, every), "*")
        self.assertEqual(unit.filter_for(every[:9], every), "*-A.t9")
        self.assertEqual(unit.filter_for(every[:1], every), "A.t0")


class Processes(unittest.TestCase):
    def test_what_hangs_is_ended_with_its_children(self):
        directory = scratch()
        run = processes.run("setsid sleep 77 & echo $!; sleep 78", directory, 1)
        self.assertTrue(run.timed_out)
        self.assertFalse(processes.alive(int(run.stdout)))

    def test_silence_is_what_counts_for_talking_programs(self):
        talking = processes.run("for i in 1 2 3 4 5; do echo $i; sleep 0.5; done", scratch(), 1.5, silence=True)
        silent = processes.run("echo 1; sleep 60", scratch(), 1.5, silence=True)
        self.assertEqual((talking.timed_out, silent.timed_out), (False, True))


class Architecture(unittest.TestCase):
    def setUp(self):
        self.root = scratch()
        for folder in ("src/base", "src/image", "src/view", "tests/architecture"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "tests/architecture/allowed_includes.txt").write_text(
            "base:\nimage: base\nview: base image/types.h\nnever image/a image/b\nmain.cpp: view\n")
        (self.root / "src/CMakeLists.txt").write_text(
            "uscope_folder(base)\nuscope_folder(image USES base LIBS x)\nuscope_folder(view USES base image)\n")
        (self.root / "src/main.cpp").write_text("")
        self.write("base/fd.h", "")
        self.write("image/types.h", "")
        self.write("image/elf.h", "")

    def write(self, name, body, first="// What it is.\n#pragma once\n"):
        path = self.root / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(first + body)

    def problems(self, rule):
        return check.CHECKS[rule](self.root)

    def test_a_clean_tree_is_clean(self):
        self.write("view/text.cpp", '#include "image/types.h"\n#include "base/fd.h"\n')
        self.assertEqual({r: p for r, p in check.check_all(self.root).items() if p}, {})

    def test_a_forbidden_edge_is_found(self):
        self.write("base/fd.cpp", '#include "image/elf.h"\n')
        self.write("view/text.cpp", '#include "image/elf.h"\n')
        self.assertEqual(len(self.problems("includes")), 2)

    def test_parts_that_must_not_know_each_other(self):
        self.write("image/a/x.h", '#include "image/b/y.h"\n')
        self.write("image/b/y.h", "")
        self.assertEqual(len(self.problems("includes")), 1)

    def test_cycles_are_found(self):
        self.write("image/one.h", '#include "image/two.h"\n')
        self.write("image/two.h", '#include "image/one.h"\n')
        self.assertEqual(len(self.problems("cycles")), 1)

    def test_cmake_must_agree(self):
        (self.root / "src/CMakeLists.txt").write_text("uscope_folder(base USES image)\nuscope_folder(image USES base)\n")
        found = "\n".join(self.problems("cmake agrees"))
        self.assertIn("base USES image", found)
        self.assertIn("no uscope_folder(view)", found)

    def test_long_files_and_functions_are_found(self):
        self.write("image/long.cpp", "\n" * 801)
        self.write("image/deep.cpp", "int f(int x) {\n" + "  x++;\n" * 101 + "}\nint g() {\n  return 1;\n}\n")
        self.assertEqual(len(self.problems("file length")), 1)
        self.assertEqual(len(self.problems("function length")), 1)

    def test_a_visitor_inside_a_function_counts_by_its_own_functions(self):
        visitor = "  struct Visitor {\n" + "    int operator()(int x) {\n      return x;\n    }\n" * 50 + "  };\n"
        self.write("image/visits.cpp", "int f(int x) {\n" + visitor + "  return x;\n}\n")
        self.assertEqual(self.problems("function length"), [])
        long = "  struct Visitor {\n    int operator()(int x) {\n" + "      x++;\n" * 101 + "    }\n  };\n"
        self.write("image/visits.cpp", "int f(int x) {\n" + long + "  return x;\n}\n")
        self.assertEqual(len(self.problems("function length")), 1)

    def test_names_and_comments(self):
        self.write("image/elf_utils.h", "", first="#pragma once\n")
        self.assertEqual(len(self.problems("names")), 1)
        self.assertEqual(len(self.problems("header comments")), 1)


if __name__ == "__main__":
    unittest.main()
