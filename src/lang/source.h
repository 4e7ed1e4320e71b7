// Script text and places in it. A SourceSet owns every text that takes part in one compilation (the script,
// what it imports) and outlives the syntax trees made from it; a Span is a half-open range of bytes in one of
// them. Nothing here reads files or knows the grammar.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace uscope::lang {

struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t source = 0;  // index into the SourceSet

  bool operator==(const Span&) const = default;
};

// From the start of `from` to the end of `to`; both lie in the same source.
Span join(Span from, Span to);

struct LineColumn {
  uint32_t line = 1;    // from 1
  uint32_t column = 1;  // from 1, in bytes
};

class Source {
 public:
  // `name` is what diagnostics print: "stdin" for a program given with -e, else the file's name.
  Source(std::string name, std::string text);

  const std::string& name() const { return name_; }
  std::string_view text() const { return text_; }
  LineColumn locate(uint32_t offset) const;
  // The text of a line, from 1, without its newline; empty past the end.
  std::string_view line(uint32_t number) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<uint32_t> line_starts_;
};

class SourceSet {
 public:
  // The largest text taken, so that offsets fit and hostile input cannot eat memory.
  static constexpr size_t kMaxTextSize = 16u << 20;

  // Returns the index for Span::source. Text past kMaxTextSize is cut off; callers that care check the size
  // first.
  uint32_t add(std::string name, std::string text);
  const Source& at(uint32_t index) const { return sources_[index]; }
  size_t size() const { return sources_.size(); }
  std::string_view text(Span span) const;

 private:
  std::vector<Source> sources_;
};

}  // namespace uscope::lang
