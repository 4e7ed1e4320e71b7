#include "image/unwind/table_builder.h"

#include <algorithm>
#include <cstring>

namespace uscope::image {
namespace {

// The largest programs of today have some three million.
constexpr size_t kMostRows = size_t(16) << 20;
// Between two functions so close together is nothing but padding, which no program counter is ever in.
constexpr uint32_t kPadding = 16;
constexpr size_t kMostRules = size_t(1) << 18;

}  // namespace

size_t TableBuilder::HashRule::operator()(const UnwindRule& rule) const {
  uint64_t words[sizeof(UnwindRule) / 8];
  std::memcpy(words, &rule, sizeof rule);
  uint64_t hash = 0;
  for (uint64_t word : words) hash = (hash ^ word) * 0x9e3779b97f4a7c15u + (hash >> 29);
  return hash;
}

TableBuilder::TableBuilder() { rule_number(UnwindRule()); }

uint32_t TableBuilder::rule_number(const UnwindRule& rule) {
  auto [at, is_new] = numbers_.try_emplace(rule, uint32_t(table_.rules.size()));
  if (is_new) {
    if (table_.rules.size() >= kMostRules) {
      numbers_.erase(at);
      table_.is_partial = true;
      return 0;
    }
    table_.rules.push_back(rule);
  }
  return at->second;
}

bool TableBuilder::begin_function(uint64_t begin, uint64_t end) {
  if (end <= begin || end > UINT32_MAX) return false;
  if (rows_.size() >= kMostRows) {
    table_.is_partial = true;
    return false;
  }
  functions_.push_back({uint32_t(begin), uint32_t(end), uint32_t(rows_.size()), 0});
  return true;
}

void TableBuilder::add_row(uint64_t offset, const UnwindRule& rule) {
  Function& function = functions_.back();
  if (offset < function.begin || offset >= function.end) return;
  uint32_t number = rule_number(rule);
  if (function.row_count != 0 && rows_.back().rule == number) return;
  if (rows_.size() >= kMostRows) {
    table_.is_partial = true;
    return;
  }
  rows_.push_back({uint32_t(offset), number});
  ++function.row_count;
}

void TableBuilder::sort() {
  auto by_begin = [](const Function& a, const Function& b) { return a.begin < b.begin; };
  if (!std::is_sorted(functions_.begin(), functions_.end(), by_begin))
    std::stable_sort(functions_.begin(), functions_.end(), by_begin);
}

void TableBuilder::remember_functions() {
  sort();
  remembered_ = functions_.size();
}

bool TableBuilder::covers(uint64_t offset) const {
  auto end = functions_.begin() + ptrdiff_t(remembered_);
  auto after = std::upper_bound(functions_.begin(), end, offset,
                                [](uint64_t at, const Function& function) { return at < function.begin; });
  return after != functions_.begin() && offset < (after - 1)->end;
}

void TableBuilder::append(uint32_t offset, uint32_t rule) {
  auto& rows = table_.rows;
  if (!rows.empty() && rows.back().offset == offset) {
    rows.back().rule = rule;
    // It may now say what the row before says.
    if (rows.size() > 1 && rows[rows.size() - 2].rule == rule) rows.pop_back();
    return;
  }
  if (rows.empty() || rows.back().rule != rule) rows.push_back({offset, rule});
}

UnwindTable TableBuilder::finish() {
  sort();
  table_.rows.reserve(rows_.size() + functions_.size() / 4 + 2);
  if (!functions_.empty()) append(0, 0);
  for (size_t i = 0; i < functions_.size(); ++i) {
    const Function& function = functions_[i];
    uint32_t end = function.end;
    bool is_followed = i + 1 < functions_.size() && functions_[i + 1].begin < uint64_t(end) + kPadding;
    if (is_followed) end = functions_[i + 1].begin;
    for (uint32_t row = 0; row < function.row_count; ++row) {
      const UnwindRow& one = rows_[function.first_row + row];
      if (one.offset < end) append(one.offset, one.rule);
    }
    if (!is_followed) append(end, 0);
  }
  rows_.clear();
  functions_.clear();
  remembered_ = 0;
  return std::move(table_);
}

}  // namespace uscope::image
