// What an engine that unwinds inside one process is told of that process: which code is mapped where.
#include <algorithm>

#include "event/plan.h"
#include "process/maps.h"
#include "session/kernel_device.h"
#include "session/unwinding.h"

namespace uscope::session {
namespace {

using codegen::CodeRange;
using codegen::ImageKey;
using Clock = std::chrono::steady_clock;

// What was unmapped and replaced by other code is known this soon at the latest; what is new and asked for,
// sooner.
constexpr auto kLookEvery = std::chrono::milliseconds(250);
constexpr auto kAnswerAfter = std::chrono::milliseconds(20);

ImageKey key_of(const process::Mapping& mapping) { return {mapping.inode, kernel_device(mapping.device)}; }

Bytes bytes_of(const codegen::UnwindState& state) {
  return {reinterpret_cast<const uint8_t*>(&state), sizeof state};
}

bool is_same(const CodeRange& a, const CodeRange& b) {
  return a.start == b.start && a.end == b.end && a.offset == b.offset && a.first_row == b.first_row &&
         a.row_count == b.row_count && a.flags == b.flags && a.is_file == b.is_file;
}

}  // namespace

void Unwinding::add_code_of_process() {
  auto maps = process::Maps::of(*followed_);
  if (!maps) return;
  const std::string root = "/proc/" + std::to_string(*followed_) + "/root";
  for (const process::Mapping& mapping : maps->all()) {
    if (!mapping.perms.execute || mapping.inode == 0) continue;
    auto path = process::path_to_mapped_file(*followed_, mapping);
    if (path) add_file(*path, root, key_of(mapping));
  }
}

// Of a child that the process has forked, and that is gone: what it has of its parent from the beginning.
const codegen::MappingEntry* Unwinding::inherited(uint64_t address) const {
  if (!inside_) return nullptr;
  auto after = past_.upper_bound({uint64_t(*inside_), address});
  if (after == past_.begin()) return nullptr;
  const auto& [key, mapping] = *--after;
  if (key.first != uint64_t(*inside_) || address >= mapping.end) return nullptr;
  auto range = std::ranges::find(code_, mapping.start, &CodeRange::start);
  return !followed_ || (range != code_.end() && range->since == 1) ? &mapping : nullptr;
}

// What lay there before is gone.
void Unwinding::clear_past(pid_t pid, const process::Mapping& mapping) {
  auto first = past_.lower_bound({uint64_t(pid), mapping.start.value});
  if (first != past_.begin()) {
    auto before = std::prev(first);
    if (before->first.first == uint64_t(pid) && mapping.start.value < before->second.end) first = before;
  }
  past_.erase(first, past_.lower_bound({uint64_t(pid), mapping.end.value}));
}

void Unwinding::remember(pid_t pid) {
  inside_ = pid;
  auto maps = process::Maps::of(pid);
  if (!maps) return;
  for (const process::Mapping& mapping : maps->all()) {
    if (!mapping.perms.execute) continue;
    clear_past(pid, mapping);
    if (mapping.inode == 0) continue;
    auto path = process::path_to_mapped_file(pid, mapping);
    if (!path) continue;
    const ImageKey key = key_of(mapping);
    past_[{uint64_t(pid), mapping.start.value}] = {key, mapping.start.value, mapping.end.value,
                                                   mapping.offset.value};
    if (!known_.insert(key).second) continue;
    Image image{*path, "/proc/" + std::to_string(pid) + "/root", key, {}, nullptr, false};
    leave_process(image.path, image.root);
    images_.push_back(std::move(image));
  }
}

// Reads what the process has mapped, and hands it over if it is not what the engine has.
Status Unwinding::list_code(engine::Engine& engine) {
  listed_ = Clock::now();
  const size_t known = images_.size();
  add_code_of_process();
  if (sent_rules_ == 0 && images_.empty())
    TRY_STATUS(engine.set_elements(
        maps_->rules, 0,
        Bytes(reinterpret_cast<const uint8_t*>(rules_.data()), rules_.size() * sizeof rules_[0])));
  for (size_t i = sent_rules_ == 0 ? 0 : known; i < images_.size(); ++i)
    if (!send_tables(engine, images_[i])) images_[i].entry = {};
  auto maps = process::Maps::of(*followed_);
  if (!maps) return {};  // it has ended
  std::vector<CodeRange> code;
  for (const process::Mapping& mapping : maps->all()) {
    if (!mapping.perms.execute || code.size() == codegen::kMostCodeRanges) continue;
    clear_past(*followed_, mapping);
    CodeRange range{mapping.start.value, mapping.end.value, mapping.offset.value};
    auto image = std::ranges::find(images_, key_of(mapping), &Image::key);
    range.is_file = mapping.inode != 0 ? 1 : 0;
    if (mapping.inode != 0 && image != images_.end()) {
      range.first_row = image->entry.first_row;
      range.row_count = image->entry.row_count;
      range.flags = uint16_t(image->entry.flags);
      past_[{uint64_t(*followed_), range.start}] = {image->key, range.start, range.end, range.offset};
    }
    code.push_back(range);
  }
  if (std::ranges::equal(code, code_, is_same) && state_.current != 0) return {};
  const uint64_t renewed = (state_.current >> 32) + 1;
  for (CodeRange& range : code) {
    auto before = std::ranges::lower_bound(code_, range.start, {}, &CodeRange::start);
    range.since = before != code_.end() && is_same(*before, range) ? before->since : uint32_t(renewed);
  }
  code_ = std::move(code);
  const uint32_t first = renewed % 2 == 0 ? 0 : codegen::kMostCodeRanges;
  TRY_STATUS(engine.set_elements(
      *maps_->code, first,
      Bytes(reinterpret_cast<const uint8_t*>(code_.data()), code_.size() * sizeof(CodeRange))));
  state_.current = renewed << 32 | code_.size();
  return write_state(engine);
}

Status Unwinding::write_state(engine::Engine& engine) {
  state_.rows = maps_->rows;
  state_.rules = maps_->rules;
  state_.code = *maps_->code;
  state_.events = 0;  // the first map is the ring buffer
  state_.question = uint32_t(event::RecordKind::UnknownImage);
  return engine.set_elements(*maps_->state, 0, bytes_of(state_));
}

// What is in no range now is no code: whoever meets it again knows.
void Unwinding::answer(engine::Engine& engine) {
  for (uint64_t address : asked_) {
    auto after = std::ranges::upper_bound(code_, address, {}, &CodeRange::start);
    if (after != code_.begin() && address < std::prev(after)->end) continue;
    state_.no_code[answered_++ % codegen::UnwindState::kChecked] = address;
  }
  asked_.clear();
  (void)write_state(engine);
}

void Unwinding::keep_up(engine::Engine& engine) {
  if (!followed_ || !maps_) return;
  const auto age = Clock::now() - listed_;
  if (age < (asked_.empty() ? kLookEvery : kAnswerAfter)) return;
  (void)list_code(engine);
  if (!asked_.empty()) answer(engine);
}

}  // namespace uscope::session
