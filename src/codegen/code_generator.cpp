#include "codegen/code_generator.h"

#include <fmt/format.h>

#include "codegen/layout_of.h"

namespace uscope::codegen {

using enum Reg;
using lang::TypeKind;

namespace {

// Beyond this, one call is shorter than a row of loads and stores.
constexpr uint64_t kMaxUnrolled = 128;

Width largest_width(uint64_t left) {
  return left >= 8 ? Width::B8 : left >= 4 ? Width::B4 : left >= 2 ? Width::B2 : Width::B1;
}
uint64_t bytes_in(Width width) {
  return width == Width::B8 ? 8 : width == Width::B4 ? 4 : width == Width::B2 ? 2 : 1;
}

// Scratch memory may not be aligned to more than its pieces are.
Width width_at(uint64_t offset, uint64_t left) {
  Width width = largest_width(left);
  while (offset % bytes_in(width) != 0) width = largest_width(bytes_in(width) - 1);
  return width;
}

constexpr uint64_t kMaxWaitingBranches = 8192;  // the verifier's limit; see loop()

}  // namespace

Result<Code> CodeGenerator::run() {
  end_ = asm_.label();
  Scope scope = make_scope(site_.probe->variables);
  scope.end = end_;
  scopes_.push_back(std::move(scope));
  if (site_.probe->predicate) condition(*site_.probe->predicate, end_);
  block(site_.probe->body);
  asm_.bind(end_);
  if (frame_.uses_scratch()) asm_.store(Width::B8, kScratch, 0, 0);
  asm_.mov(R0, 0);
  asm_.exit();
  if (frame_.is_full() || frame_.scratch_bytes() > kMaxScratch)
    return fail(fmt::format("{}: the probe's values need {} bytes, {} are available",
                            unit_.place(site_.probe->span), frame_.scratch_bytes(), kMaxScratch));
  if (unit_.inputs.loops == Loops::Walked && loop_branches_ != 0 &&
      asm_.branches() + loop_branches_ > kMaxWaitingBranches)
    return fail(fmt::format("{}: the probe has more branches than this kernel can check beside its loops",
                            unit_.place(site_.probe->span)));
  auto code = asm_.finish(prologue(), functions_);
  if (!code) return fail(std::move(code).error().while_doing(unit_.place(site_.probe->span)));
  code->kind = site_.kind;
  code->name = site_.attach->text;
  code->reads_result = reads_result_;
  code->reads_took = reads_took_;
  return code;
}

// R6 = the context; R9 = a piece of scratch memory that nobody else has.
Assembler CodeGenerator::prologue() {
  Assembler out;
  out.mov(kContext, R1);
  if (!frame_.uses_scratch()) {
    if (!functions_.empty()) out.mov(kScratch, 0);  // they are handed it
    return out;
  }
  uint32_t map = unit_.scratch_map(frame_.scratch_bytes());
  Label found = out.label(), none = out.label();
  for (uint32_t entry = 0; entry < kScratchEntries; entry++) {
    out.store(Width::B4, R10, -8, int32_t(entry));
    out.mov(R2, R10);
    out.alu(Alu::Add, R2, -8);
    out.load_map(R1, map);
    out.call(BPF_FUNC_map_lookup_elem);
    out.jump_if(Cond::Eq, R0, 0, none);
    out.mov(R1, 1);
    out.atomic(BPF_XCHG, Width::B8, R0, 0, R1);
    out.jump_if(Cond::Eq, R1, 0, found);
  }
  out.bind(none);
  // All taken: the hit is lost, and counted.
  out.store(Width::B4, R10, -8, 0);
  out.mov(R2, R10);
  out.alu(Alu::Add, R2, -8);
  out.load_map(R1, unit_.lost_map());
  out.call(BPF_FUNC_map_lookup_elem);
  Label gone = out.label();
  out.jump_if(Cond::Eq, R0, 0, gone);
  out.mov(R1, 1);
  out.atomic(BPF_ADD, Width::B8, R0, 0, R1);
  out.bind(gone);
  out.mov(R0, 0);
  out.exit();
  out.bind(found);
  out.mov(kScratch, R0);
  return out;
}

CodeGenerator::Scope CodeGenerator::make_scope(const std::vector<lang::VariableInfo>& variables) {
  Scope scope;
  scope.variables = &variables;
  for (const lang::VariableInfo& variable : variables) {
    if (variable.is_entry) {  // the loop makes room for it
      scope.slots.emplace_back();
      continue;
    }
    uint64_t size = size_of(variable.type);
    Place place = frame_.allocate(size);
    clear(place, std::max<uint64_t>(8, (size + 7) / 8 * 8));
    scope.slots.push_back(place);
  }
  return scope;
}

void CodeGenerator::unsupported(lang::Span span, const std::string& what) {
  unit_.problem(span, what + " is not supported yet");
}

void CodeGenerator::address(Reg dst, Place place) {
  asm_.mov(dst, place.base);
  if (place.offset != 0) asm_.alu(Alu::Add, dst, place.offset);
}

Place CodeGenerator::keep(Reg src) {
  Place place = frame_.allocate(8);
  store_slot(place, src);
  return place;
}

void CodeGenerator::clear(Place place, uint64_t size) {
  if (size > kMaxUnrolled) {
    // A read from address 0 fails, and zeroes.
    address(R1, place);
    asm_.mov(R2, int64_t(size));
    asm_.mov(R3, 0);
    asm_.call(BPF_FUNC_probe_read_kernel);
    return;
  }
  for (uint64_t done = 0; done < size;) {
    Width width = width_at(uint64_t(place.offset) + done, size - done);
    asm_.store(width, place.base, place.offset + int32_t(done), 0);
    done += bytes_in(width);
  }
}

void CodeGenerator::copy(Place to, Place from, uint64_t size) {
  if (size > kMaxUnrolled) {
    address(R1, to);
    asm_.mov(R2, int64_t(size));
    address(R3, from);
    asm_.call(BPF_FUNC_probe_read_kernel);
    return;
  }
  for (uint64_t done = 0; done < size;) {
    Width width = width_at(uint64_t(to.offset) + done, size - done);
    width = width_at(uint64_t(from.offset) + done, bytes_in(width));
    asm_.load(width, R1, from.base, from.offset + int32_t(done));
    asm_.store(width, to.base, to.offset + int32_t(done), R1);
    done += bytes_in(width);
  }
}

// Cut to size - 1 characters; zero behind.
void CodeGenerator::store_text(Place place, std::string_view text, uint64_t size) {
  if (size == 0) return;
  text = text.substr(0, size - 1);
  if (size > kMaxUnrolled) clear(place, size);
  for (uint64_t done = 0; done < size;) {
    if (size > kMaxUnrolled && done >= text.size()) break;
    Width width = width_at(uint64_t(place.offset) + done, std::min<uint64_t>(size - done, 4));
    uint32_t value = 0;
    for (uint64_t i = 0; i < bytes_in(width) && done + i < text.size(); i++)
      value |= uint32_t(uint8_t(text[done + i])) << (8 * i);
    asm_.store(width, place.base, place.offset + int32_t(done), int32_t(value));
    done += bytes_in(width);
  }
}

void CodeGenerator::extend(Reg reg, const Type& type) {
  if (type.size() == 0 || type.size() >= 8) return;
  auto shift = int32_t(64 - 8 * type.size());
  asm_.alu(Alu::Lsh, reg, shift);
  asm_.alu(type.is_signed() ? Alu::Arsh : Alu::Rsh, reg, shift);
}

void CodeGenerator::load_scalar(Reg dst, Place place, const Type& type) {
  asm_.load(width_of(type.size()), dst, place.base, place.offset);
  if (type.is_signed()) extend(dst, type);
}

void CodeGenerator::clamp(Reg reg, int32_t most) {
  Label fine = asm_.label();
  asm_.jump_if(Cond::Le, reg, most, fine);
  asm_.mov(reg, most);
  asm_.bind(fine);
}

}  // namespace uscope::codegen
