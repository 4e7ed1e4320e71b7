// Collects the rows of functions in any order and lays them out as one table. Internal to unwind/.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "image/unwind/unwind_table.h"

namespace uscope::image {

class TableBuilder {
 public:
  TableBuilder();

  // A function's code, as file offsets. False: there is no room for more, or the range is none.
  bool begin_function(uint64_t begin, uint64_t end);
  // Of the function begun last; in order of offset.
  void add_row(uint64_t offset, const UnwindRule& rule);
  void set_partial() { table_.is_partial = true; }
  // From now on covers() knows the functions begun until now.
  void remember_functions();
  bool covers(uint64_t offset) const;

  // Where functions overlap, the one that begins later is believed from there on.
  UnwindTable finish();

 private:
  struct Function {
    uint32_t begin = 0, end = 0;
    uint32_t first_row = 0, row_count = 0;
  };
  struct HashRule {
    size_t operator()(const UnwindRule& rule) const;
  };

  uint32_t rule_number(const UnwindRule& rule);
  void sort();
  void append(uint32_t offset, uint32_t rule);

  UnwindTable table_;
  std::vector<Function> functions_;
  std::vector<UnwindRow> rows_;
  std::unordered_map<UnwindRule, uint32_t, HashRule> numbers_;
  size_t remembered_ = 0;  // functions that are sorted and asked about
};

}  // namespace uscope::image
