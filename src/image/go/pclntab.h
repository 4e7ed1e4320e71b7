// Go's own tables of functions, lines and inlined calls (.gopclntab), which survive `-s -w` stripping: they
// serve the runtime's tracebacks. Every format from Go 1.2 to 1.26. Found by section, or, where section
// headers are gone, by looking for a header that holds up to checking. Owns nothing but its index (and a
// relocated copy of the table for images that need one); views live as long as the ElfFile and the Pclntab.
// Immutable: threads may share it.
//
// What it does not know: types, parameters, variables. Names are Go's: "main.(*T).Method", generics as
// "main.Max[...]".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "image/elf/elf_file.h"

namespace uscope::image {

enum class PclntabFormat { Go1_2, Go1_16, Go1_18, Go1_20 };  // named after the first Go that wrote it

struct GoFunction {
  std::string_view name;
  ImageAddr entry;
  uint64_t size = 0;        // without the padding that follows
  uint32_t start_line = 0;  // of the func keyword; 0: unknown (before Go 1.20)
  // Distance from the entry to where the runtime resumes the function after a recovered panic; 0: it has no
  // defers.
  uint32_t deferreturn = 0;
  uint64_t record = 0;  // where its record is, as the table counts
};

struct GoLine {
  ImageAddr begin;
  uint64_t size = 0;
  std::string_view file;  // empty: unknown
  uint32_t line = 0;
};

// How far the stack pointer is below the return address, over some code of a function.
struct GoFrameSize {
  uint64_t begin = 0;  // distance from the entry
  int64_t size = 0;
};

// One level of the source-level call stack at an address.
struct GoFrame {
  std::string_view function;
  std::string_view file;
  uint32_t line = 0;
};

struct GoInlinedCall {
  std::string_view function;
  std::string_view call_file;  // where the call stood
  uint32_t call_line = 0;
  uint32_t start_line = 0;           // of the inlined function; 0: unknown
  std::optional<size_t> parent;      // the inlined call that this one is inside of
  std::vector<AddressRange> ranges;  // its own code and that of calls inlined into it
};

class Pclntab {
 public:
  // Nothing: the image has no such table. An Error: it has one that cannot be used.
  static Result<std::optional<Pclntab>> find(const ElfFile& file);
  static Result<std::optional<Pclntab>> find(ElfFile&&) = delete;  // its views would outlive the bytes

  PclntabFormat format() const { return header_.format; }
  // By address. Only real functions: the linker's markers are left out.
  const std::vector<GoFunction>& functions() const { return functions_; }
  const GoFunction* function_at(ImageAddr address) const;
  const std::vector<std::string>& problems() const { return problems_; }

  // The lines of a function in order of address, of the innermost source function each.
  std::vector<GoLine> lines(const GoFunction& function) const;
  // Innermost first; the last is the function itself. Empty: no function is there.
  std::vector<GoFrame> frames_at(ImageAddr address) const;
  // The calls the compiler inlined into a function. Empty where there are none or they are not recorded
  // (Go 1.2).
  std::vector<GoInlinedCall> inlined_calls(const GoFunction& function) const;

  // In order of address, the first at the entry. Empty: not recorded, or damaged.
  std::vector<GoFrameSize> frame_sizes(const GoFunction& function) const;

  // Where the table lies and where runtime.text does.
  ImageAddr address() const { return address_; }
  ImageAddr text_start() const { return {header_.text_start}; }

  // The parts of the table that its header tells apart; offsets from its start.
  struct Header {
    PclntabFormat format = PclntabFormat::Go1_2;
    uint64_t quantum = 1, function_count = 0, text_start = 0;
    uint64_t names = 0, units = 0, files = 0, pc_values = 0, functions = 0;
    // As the table has it, or nothing if the bytes are no such header.
    static std::optional<Header> read(Bytes table);
    uint64_t entry_size() const { return is_offset_based() ? 8 : 16; }
    // From Go 1.18 on addresses are 32-bit distances from runtime.text.
    bool is_offset_based() const { return format >= PclntabFormat::Go1_18; }
  };

 private:
  struct Record;
  Pclntab() = default;
  static Result<Pclntab> load(const ElfFile& file, ImageAddr address, Bytes table, const Header& header);
  Status read_functions(const ElfFile& file);
  std::optional<Record> read_record(uint64_t offset) const;
  uint64_t exact_size(const Record& record, uint64_t limit) const;
  std::string_view name_at(uint64_t offset) const;
  std::string_view file_name(const Record& record, int64_t number) const;
  std::optional<int64_t> value_at(uint64_t pc_table, uint64_t pc_offset, uint64_t limit) const;
  struct InlineEntry;
  Bytes loaded_from(uint64_t address) const;
  std::optional<InlineEntry> inline_entry(const Record& record, int64_t index) const;
  std::optional<int64_t> inline_index_at(const Record& record, uint64_t pc_offset, uint64_t limit) const;
  GoFrame frame_line(const Record& record, uint64_t pc_offset, uint64_t limit) const;

  ImageAddr address_;
  Header header_;
  OwnedBytes relocated_;
  Bytes table_;
  // From Go 1.18 on funcdata is given by its distance from here (go:func.*); 0: not known, inlined calls are
  // not told.
  uint64_t funcdata_base_ = 0;
  // The image's loaded bytes, for funcdata outside the table. Views, so that the ElfFile may be moved.
  std::vector<std::pair<ImageAddr, Bytes>> loaded_;
  std::vector<GoFunction> functions_;
  std::vector<std::string> problems_;
};

}  // namespace uscope::image
