// Where a probe finds the program's own variables, for code generation: implements codegen's ArgumentPlaces
// from the debug info's Locations. What a probe cannot compute from the registers at hand is an Error that
// says why.
#pragma once

#include "codegen/argument_places.h"
#include "image/location.h"
#include "image/usdt/operand.h"
#include "session/script_types.h"

namespace uscope::session {

class ScriptPlaces final : public codegen::ArgumentPlaces {
 public:
  // `vector_offset` as codegen::Inputs has it. With `numbers_anywhere`, arg0 and so on are C's registers in
  // every language, as bpftrace has it.
  explicit ScriptPlaces(const ScriptTypes& types, bool is_inproc = false,
                        std::optional<uint32_t> vector_offset = {}, bool numbers_anywhere = false)
      : types_(types),
        is_inproc_(is_inproc),
        vector_offset_(vector_offset),
        numbers_anywhere_(numbers_anywhere) {}

  Result<codegen::ArgumentPlace> argument(const lang::AttachSpec& probe,
                                          std::string_view name) const override;
  Result<codegen::ArgumentPlace> local(const lang::AttachSpec& probe, std::string_view name) const override;
  Result<std::vector<codegen::ArgumentPlace>> results(const lang::AttachSpec& probe) const override;
  Status numbered_arguments(const lang::AttachSpec& probe) const override;
  size_t usdt_sites(const lang::AttachSpec& probe) const override;
  Result<codegen::ArgumentPlace> usdt_argument(const lang::AttachSpec& probe, size_t site,
                                               size_t number) const override;
  Result<codegen::ArgumentPlace> symbol(const lang::AttachSpec& probe, std::string_view name) const override;
  Result<codegen::ArgumentPlace> goroutine(const lang::AttachSpec& probe) const override;

 private:
  const ScriptTypes& types_;
  bool is_inproc_;
  std::optional<uint32_t> vector_offset_;
  bool numbers_anywhere_;
};

// Where register `dwarf_number` lies in the context of a probe (struct pt_regs); nothing for vector
// registers.
std::optional<uint32_t> context_offset(uint32_t dwarf_number);
// The place as steps from a register. `site` is the probed instruction, from which static addresses are
// counted; `size` is the value's, where it may lie in one large register.
Result<codegen::ArgumentPlace> to_place(const image::Location& location, ImageAddr site,
                                        std::optional<uint32_t> vector_offset = {}, uint64_t size = 8);
Result<codegen::ArgumentPlace> to_place(const image::UsdtArgument& argument, ImageAddr site,
                                        std::optional<uint32_t> vector_offset = {});

}  // namespace uscope::session
