#include "lang/diagnostics.h"

#include <fmt/format.h>

namespace uscope::lang {
namespace {

const char* word(Severity severity) { return severity == Severity::kError ? "ERROR" : "WARNING"; }

// Under the span's part of the line. Tabs are kept so that the marker stands where the terminal shows the
// text.
std::string marker(std::string_view line, uint32_t from, uint32_t to) {
  std::string out;
  for (uint32_t i = 0; i + 1 < from; ++i) out += i < line.size() && line[i] == '\t' ? '\t' : ' ';
  out.append(to > from ? to - from : 0, '~');
  return out;
}

void render_place(std::string& out, const SourceSet& sources, Severity severity, Span span,
                  const std::string& message) {
  if (span.source >= sources.size()) {
    out += fmt::format("{}: {}\n", word(severity), message);
    return;
  }
  const Source& source = sources.at(span.source);
  LineColumn begin = source.locate(span.begin), end = source.locate(span.end);
  if (begin.line != end.line) {
    out += fmt::format("{}:{}-{}: {}: {}\n", source.name(), begin.line, end.line, word(severity), message);
    constexpr uint32_t kMostLines = 20;
    for (uint32_t line = begin.line; line <= end.line && line < begin.line + kMostLines; ++line) {
      out += fmt::format("{}\n", source.line(line));
    }
    return;
  }
  out += fmt::format("{}:{}:{}-{}: {}: {}\n", source.name(), begin.line, begin.column, end.column,
                     word(severity), message);
  std::string_view line = source.line(begin.line);
  out += fmt::format("{}\n{}\n", line, marker(line, begin.column, end.column));
}

}  // namespace

Diagnostic& Diagnostics::add(Severity severity, Span span, std::string message) {
  if (severity == Severity::kError) ++error_count_;
  Diagnostic made{severity, span, std::move(message), {}, {}};
  if (kept_.size() >= kMaxKept) return overflow_ = std::move(made);
  return kept_.emplace_back(std::move(made));
}

std::string Diagnostics::render(const SourceSet& sources, bool with_warnings) const {
  std::string out;
  for (Severity severity : {Severity::kError, Severity::kWarning}) {
    if (severity == Severity::kWarning && !with_warnings) continue;
    for (const Diagnostic& one : kept_) {
      if (one.severity == severity) out += lang::render(one, sources);
    }
  }
  return out;
}

std::string render(const Diagnostic& diagnostic, const SourceSet& sources) {
  std::string out;
  render_place(out, sources, diagnostic.severity, diagnostic.span, diagnostic.message);
  if (!diagnostic.hint.empty()) out += fmt::format("HINT: {}\n", diagnostic.hint);
  for (const auto& note : diagnostic.notes) {
    render_place(out, sources, diagnostic.severity, note.span, note.message);
  }
  return out;
}

}  // namespace uscope::lang
