// Random scripts that are meant to compile: by grammar and by type, from a seed. For tests of what every
// accepted script must have in common.
#pragma once

#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace uscope::session {

class RandomScript {
 public:
  explicit RandomScript(uint64_t seed) : random_(seed) {}

  std::string text() {
    std::string out =
        "struct Inner { int x; unsigned char bits : 3; unsigned char more : 5; short pair[2]; };\n"
        "struct Outer { int a; long b; char name[16]; struct Inner inner; struct Outer* next; unsigned int "
        "list[4]; "
        "union { int i; float f; } u; };\n";
    // Every map has its type from here.
    out += "END { @i = (int64)0; @m[(int64)1] = (int64)1; @c = count(); }\n";
    int probes = 1 + below(2);
    for (int i = 0; i < probes; ++i) {
      variables_ = 0;
      texts_ = 0;
      loops_ = 0;
      std::string point =
          pick({"uprobe:/bin/true:0x1000", "uprobe:/bin/true:0x2000", "BEGIN", "interval:s:1"});
      is_user_ = point.starts_with("uprobe");
      out += point;
      if (below(4) == 0) out += " / " + integer(2) + " /";
      out += " {\n" + block(2 + below(below(8) == 0 ? 30 : 6), 2 + below(3)) + "}\n";
    }
    return out;
  }

 private:
  int below(int limit) { return int(random_() % uint64_t(limit)); }
  std::string pick(std::initializer_list<const char*> words) {
    return words.begin()[below(int(words.size()))];
  }

  std::string number() {
    switch (below(6)) {
      case 0:
        return pick({"0", "1", "-1", "2", "255", "256", "65535", "2147483647", "-2147483648", "4294967295",
                     "9223372036854775807", "0xffffffffffff", "1000000"});
      case 1:
        return pick({"1ms", "1us", "10s", "0x7f", "1_000", "'a'"}).substr(0, 5);
      default:
        return std::to_string(below(1000));
    }
  }

  std::string pointer() {
    return "((struct Outer*)" + (is_user_ ? pick({"arg0", "arg1", "arg5"}) : std::string("0")) + ")";
  }

  std::string field() {
    return pointer() + pick({"->a", "->b", "->inner.x", "->inner.bits", "->inner.more", "->inner.pair[1]",
                             "->next->a", "->next->next->b", "->list[2]", "->u.i", "->name[3]"});
  }

  std::string builtin() {
    if (is_user_)
      return pick(
          {"pid", "tid", "nsecs", "uid", "gid", "cpu", "rand", "arg0", "arg1", "arg2", "arg3", "elapsed"});
    return pick({"pid", "tid", "nsecs", "uid", "cpu", "rand", "elapsed", "ncpus"});
  }

  std::string integer(int depth) {
    if (depth == 2 && below(10) == 0) depth = 5;
    if (depth <= 0) return leaf_integer();
    auto inner = [&] { return integer(depth - 1); };
    switch (below(13)) {
      case 0:
      case 1:
      case 2:
        return "(" + inner() + " " + pick({"+", "-", "*", "/", "%", "&", "|", "^"}) + " " + inner() + ")";
      case 3:
        return "(" + inner() + " " + pick({"<<", ">>"}) + " " + std::to_string(below(64)) + ")";
      case 4:
        return "(" + inner() + " " + pick({"<", "<=", ">", ">=", "==", "!="}) + " " + inner() + ")";
      case 5:
        return "(" + inner() + " " + pick({"&&", "||"}) + " " + inner() + ")";
      case 6:
        return "(" + pick({"!", "~", "-"}) + inner() + ")";
      case 7:
        return "(" + inner() + " ? (int64)" + inner() + " : (int64)" + inner() + ")";
      case 8:
        return "((" + pick({"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"}) + ")" +
               inner() + ")";
      case 9:
        return "strncmp(" + string(1) + ", " + string(1) + ", " + std::to_string(1 + below(16)) + ")";
      case 10:
        return is_user_ ? field() : inner();
      case 11:
        return is_user_
                   ? "(*(" + pick({"uint8", "int16", "uint32", "int64"}) + "*)" + pick({"arg0", "arg1"}) + ")"
                   : inner();
      default:
        return leaf_integer();
    }
  }

  std::string leaf_integer() {
    switch (below(7)) {
      case 0:
        if (variables_ > 0) return "$i" + std::to_string(below(variables_));
        return number();
      case 1:
        return "@i";
      case 2:
        return "@m[(int64)" + std::to_string(below(4)) + "]";
      case 3:
      case 4:
        return builtin();
      default:
        return number();
    }
  }

  std::string string(int depth) {
    switch (below(depth > 0 ? 6 : 4)) {
      case 0:
        return pick({"\"\"", "\"abc\"", "\"a longer text than most\"", "comm"});
      case 1:
        return is_user_ ? "str(" + pick({"arg0", "arg1", "arg2"}) +
                              (below(2) ? ", " + std::to_string(1 + below(80)) : "") + ")"
                        : "\"text\"";
      case 2:
        if (texts_ > 0) return "$s" + std::to_string(below(texts_));
        return "comm";
      case 3:
        return "comm";
      case 4:
        return "(" + integer(1) + " ? " + string(0) + " : " + string(0) + ")";
      default:
        return is_user_ ? "str(" + pointer() + "->name)" : "\"x\"";
    }
  }

  std::string aggregate() {
    switch (below(9)) {
      case 0:
        return "@c = count();\n";
      case 1:
        return "@sum[(int64)" + integer(1) + "] = sum(" + integer(2) + ");\n";
      case 2:
        return "@avg = avg(" + integer(2) + ");\n";
      case 3:
        return "@min[" + string(1) + "] = min(" + integer(1) + ");\n";
      case 4:
        return "@max = max(" + integer(2) + ");\n";
      case 5:
        return "@stats[(int64)" + integer(1) + ", " + string(1) + "] = stats(" + integer(1) + ");\n";
      case 6:
        return "@hist[(int64)" + integer(1) + "] = hist(" + integer(2) + ");\n";
      case 7:
        return "@lhist = lhist(" + integer(2) + ", 0, 1000, 50);\n";
      default:
        return is_user_ ? "@stack[ustack(" + std::to_string(1 + below(20)) + "), comm] = count();\n"
                        : "@c = count();\n";
    }
  }

  std::string print() {
    switch (below(6)) {
      case 0:
        return "printf(\"%d %s %x\\n\", " + integer(2) + ", " + string(1) + ", " + integer(1) + ");\n";
      case 1:
        return "print((" + integer(1) + ", " + string(1) + ", " + integer(1) + "));\n";
      case 2:
        return "print(" + integer(2) + ");\n";
      case 3:
        return "printf(\"%s\\n\", " + string(1) + ");\n";
      case 4:
        return is_user_ ? "print(*" + pointer() + ");\n" : "print(@i);\n";
      default:
        return is_user_ ? "printf(\"%r\\n\", buf(arg0, " + integer(1) + "));\n" : "time(\"%H\\n\");\n";
    }
  }

  std::string map_work() {
    switch (below(8)) {
      case 0:
        return "@i = (int64)" + integer(2) + ";\n";
      case 1:
        return "@i" + pick({"++", "--", " += 3", " |= 1", " *= 2"}) + ";\n";
      case 2:
        return "@m[(int64)" + integer(1) + "] = (int64)" + integer(2) + ";\n";
      case 3:
        return "@m[(int64)" + integer(1) + "]++;\n";
      case 4:
        return "delete(@m, (int64)" + integer(1) + ");\n";
      case 5:
        return "@t[(int64)" + integer(1) + ", " + string(1) + "] = ((int64)" + integer(1) + ", " + string(0) +
               ");\n";
      case 6:
        return "@text[" + string(1) + "] = " + string(1) + ";\n";
      default:
        if (below(3) == 0)
          return "@rec = (" + string(1) + ", ((int64)" + integer(1) + ", " + string(1) + "), (int8)" +
                 integer(1) + ");\n";
        return pick({"clear(@m);\n", "zero(@m);\n", "print(@m);\n", "print(@c);\n",
                     "if (has_key(@m, (int64)3)) { @c = count(); }\n"});
    }
  }

  std::string loop(int depth) {
    std::string name = "$l" + std::to_string(loops_++);
    std::string limit = std::to_string(1 + below(20));
    switch (below(4)) {
      case 0:
        return name + " = 0;\nwhile (" + name + " < " + limit + ") {\n" + block(1 + below(2), depth - 1) +
               name + "++;\n}\n";
      case 1:
        return "unroll(" + std::to_string(1 + below(4)) + ") {\n" + block(1, depth - 1) + "}\n";
      case 2:
        return "for (" + name + " : 0.." + limit + ") {\n" + block(1 + below(2), depth - 1) + "}\n";
      default: {
        if (in_map_loop_) return map_work();
        in_map_loop_ = true;
        std::string body = block(1 + below(3), 0);
        in_map_loop_ = false;
        return "for (" + name + " : @m) {\n" + body + "print((" + name + ".0, " + name + ".1));\n}\n";
      }
    }
  }

  std::string statement(int depth) {
    switch (below(depth > 0 ? 10 : 7)) {
      case 0:
        return declare();
      case 1:
      case 2:
        return aggregate();
      case 3:
        return print();
      case 4:
      case 5:
        return map_work();
      case 6:
        if (variables_ > 0)
          return "$i" + std::to_string(below(variables_)) + " = (int64)" + integer(2) + ";\n";
        return aggregate();
      case 7:
        return loop(depth);
      case 8:
        return "if (" + integer(2) + ") {\n" + block(1 + below(2), depth - 1) + "} else {\n" +
               block(1, depth - 1) + "}\n";
      default:
        return "if (" + integer(1) + ") { " + pick({"return;", "exit();", "@i++;"}) + " }\n";
    }
  }

  // At the top of a block of its own, so that later uses see it.
  std::string declare() {
    if (nesting_ > 1) return map_work();
    if (below(2)) return "$i" + std::to_string(variables_++) + " = (int64)" + integer(2) + ";\n";
    return "$s" + std::to_string(texts_++) + " = str(" + (is_user_ ? "arg0" : "0") + ");\n";
  }

  std::string block(int statements, int depth) {
    ++nesting_;
    std::string out;
    for (int i = 0; i < statements; ++i) out += statement(depth);
    --nesting_;
    return out;
  }

  std::mt19937_64 random_;
  bool is_user_ = true;
  bool in_map_loop_ = false;
  int variables_ = 0, texts_ = 0, loops_ = 0, nesting_ = 0;
};

}  // namespace uscope::session
