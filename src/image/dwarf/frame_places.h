// Whether what debug info says of a variable holds at one instruction of its function, behind the entry (for
// locals also at it). One expression for the whole function is meant for its body: in the prologue a slot of
// the frame is not yet written, and LLVM counts from registers that are moved there and in epilogues. Turns
// such places into ones from the frame address, which call frame information knows at each instruction, and
// makes unavailable what is not certain. Internal to dwarf/.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "image/dwarf/frame.h"
#include "image/dwarf/prologue.h"
#include "image/dwarf/prologue_ends.h"
#include "image/dwarf/store.h"
#include "image/dwarf/type_reader.h"
#include "image/dwarf/variables.h"

namespace uscope::image::dwarf {

class FramePlaces {
 public:
  // `reader` gives places with a symbolic CFA.
  FramePlaces(const Store& store, TypeReader& types, const FrameTable& frames, PrologueEnds& ends,
              const VariableReader& reader, const Die& function, uint64_t address);

  // is_own: a parameter of the function itself, not of one that is inlined into it.
  void settle(Variable& variable, bool from_list, bool is_own);

 private:
  enum class Written { Yes, No, Unknown };

  // The reason why the place is not certain here, or nothing.
  std::optional<std::string> convert(LocPiece& piece, bool from_list, bool is_only) const;
  std::optional<std::string> judge(const LocPiece& piece, const Variable& variable, bool from_list,
                                   bool is_own);
  static void point_to_object(LocPiece& piece);
  std::optional<std::string> with_real_cfa(LocPiece& piece) const;
  Written is_written(int64_t cfa_offset, const std::vector<bool>& used);
  bool is_in_body() const;
  std::optional<int64_t> frame_size() const;
  Bytes code_from(uint64_t address) const;

  const Store& store_;
  TypeReader& types_;
  const Unit& unit_;
  std::optional<std::vector<LocOp>> cfa_;
  uint64_t entry_, address_;
  std::optional<uint64_t> end_;  // of the prologue
  std::optional<CfaRule> here_, body_;
  std::optional<uint32_t> base_register_;  // that the frame base names
  std::optional<std::vector<IncomingStore>> stores_;
  bool is_gnu_, is_go_, may_push_;
};

}  // namespace uscope::image::dwarf
