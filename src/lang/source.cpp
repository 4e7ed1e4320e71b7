#include "lang/source.h"

#include <algorithm>

namespace uscope::lang {

Span join(Span from, Span to) { return Span{from.begin, std::max(from.begin, to.end), from.source}; }

Source::Source(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  line_starts_.push_back(0);
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') line_starts_.push_back(static_cast<uint32_t>(i + 1));
  }
}

LineColumn Source::locate(uint32_t offset) const {
  offset = std::min(offset, static_cast<uint32_t>(text_.size()));
  auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  auto index = static_cast<uint32_t>(after - line_starts_.begin() - 1);
  return LineColumn{index + 1, offset - line_starts_[index] + 1};
}

std::string_view Source::line(uint32_t number) const {
  if (number == 0 || number > line_starts_.size()) return {};
  size_t begin = line_starts_[number - 1];
  size_t end = number < line_starts_.size() ? line_starts_[number] - 1 : text_.size();
  return std::string_view(text_).substr(begin, end - begin);
}

uint32_t SourceSet::add(std::string name, std::string text) {
  if (text.size() > kMaxTextSize) text.resize(kMaxTextSize);
  sources_.emplace_back(std::move(name), std::move(text));
  return static_cast<uint32_t>(sources_.size() - 1);
}

std::string_view SourceSet::text(Span span) const {
  if (span.source >= sources_.size()) return {};
  std::string_view all = sources_[span.source].text();
  if (span.begin > all.size()) return {};
  return all.substr(span.begin, span.end - span.begin);
}

}  // namespace uscope::lang
