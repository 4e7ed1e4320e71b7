// Shortcuts for tests that start from script text.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "lang/parser.h"
#include "lang/printer.h"
#include "sexpr.h"

namespace uscope::lang {

struct Parsed {
  SourceSet sources;
  Diagnostics diagnostics;
  std::optional<Program> program;

  explicit Parsed(std::string text, std::string name = "stdin") {
    sources.add(std::move(name), std::move(text));
    program = parse(sources, 0, diagnostics);
  }
  std::string errors() const { return diagnostics.render(sources); }
  std::string tree() const { return program ? sexpr(*program) : errors(); }
  std::string formatted() const { return program ? print(*program, sources) : errors(); }
};

// The body of `BEGIN { ... }` as an S-expression, or the error.
inline std::string body(const std::string& statements) {
  Parsed parsed("BEGIN { " + statements + " }");
  if (!parsed.program) return parsed.errors();
  const auto& probe = std::get<Probe>(parsed.program->items.at(0));
  std::string text = sexpr(probe.body);
  return text.substr(1, text.size() - 2);
}

// The first error, without its place.
inline std::string first_error(const Diagnostics& diagnostics) {
  for (const Diagnostic& one : diagnostics.all()) {
    if (one.severity == Severity::kError) return one.message;
  }
  return "";
}

}  // namespace uscope::lang
