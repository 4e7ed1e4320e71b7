// Shortcuts for tests that start from script text.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "codegen/disassemble.h"
#include "codegen/generate.h"
#include "lang/compile.h"

namespace uscope::codegen {

struct Generated {
  lang::SourceSet sources;
  lang::Diagnostics diagnostics;
  std::optional<lang::TypedProgram> typed;
  Result<Compiled> result = fail("not compiled");

  explicit Generated(const std::string& text, Inputs inputs = {}, bool allow_unsafe = false) {
    sources.add("script", text);
    static const lang::NoTypes kNoTypes;
    lang::CompileInputs compile_inputs;
    compile_inputs.allow_unsafe = allow_unsafe;
    const lang::TypeSource& types = inputs.types ? *inputs.types : kNoTypes;
    typed = lang::compile(sources, 0, compile_inputs, types, diagnostics);
    if (!typed) {
      result = fail(diagnostics.render(sources));
      return;
    }
    inputs.sources = &sources;
    result = generate(*typed, inputs);
  }
  std::string code(size_t number = 0) const {
    if (!result) return result.error().message();
    return disassemble(result->program.codes.at(number), result->program);
  }
  std::string error() const { return result ? "" : result.error().message(); }
};

// The code of `uprobe:/a:f { body }`, without the first and the last lines that every code has.
inline std::string body(const std::string& statements, Inputs inputs = {}) {
  std::string text = Generated("uprobe:/a:f { " + statements + " }", inputs).code();
  auto start = text.find('\n');
  auto end = text.rfind("r0 = 0\n");
  if (start == std::string::npos || end == std::string::npos || end < start) return text;
  end = text.rfind('\n', end);
  return text.substr(start + 1, end - start);
}

}  // namespace uscope::codegen
