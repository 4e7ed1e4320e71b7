// What the compiler has to say about a script: errors and warnings with a place, a hint and the places it
// came from. Printed as bpftrace prints them:
//   stdin:1:10-20: ERROR: message
//   the line
//        ~~~~~
//   HINT: what to do
#pragma once

#include <string>
#include <vector>

#include "lang/source.h"

namespace uscope::lang {

enum class Severity { kError, kWarning };

struct Diagnostic {
  struct Note {
    Span span;
    std::string message;
  };

  Severity severity = Severity::kError;
  Span span;
  std::string message;
  std::string hint;
  std::vector<Note> notes;  // printed after it, with the same severity: "expanded from"
};

class Diagnostics {
 public:
  // Past this many, further ones are counted but not kept.
  static constexpr size_t kMaxKept = 200;

  Diagnostic& error(Span span, std::string message) {
    return add(Severity::kError, span, std::move(message));
  }
  Diagnostic& warning(Span span, std::string message) {
    return add(Severity::kWarning, span, std::move(message));
  }

  bool has_errors() const { return error_count_ > 0; }
  size_t error_count() const { return error_count_; }
  const std::vector<Diagnostic>& all() const { return kept_; }

  // Errors first, then warnings, each in the order they were found.
  std::string render(const SourceSet& sources, bool with_warnings = true) const;

 private:
  Diagnostic& add(Severity severity, Span span, std::string message);

  std::vector<Diagnostic> kept_;
  Diagnostic overflow_;
  size_t error_count_ = 0;
};

std::string render(const Diagnostic& diagnostic, const SourceSet& sources);

}  // namespace uscope::lang
