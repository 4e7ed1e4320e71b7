#include "x86/graph.h"

namespace uscope::x86 {

Graph::Graph(std::vector<CodeRange> parts) {
  for (const CodeRange& part : parts) add_part(part);
}

void Graph::add_part(const CodeRange& part) {
  parts_.push_back(part);
  index_.emplace_back(part.bytes.size());
  linear_.emplace_back();
}

const CodeRange* Graph::part_of(uint64_t address) const {
  for (const CodeRange& part : parts_) {
    if (part.contains(address)) return &part;
  }
  return nullptr;
}

uint64_t Graph::size() const {
  uint64_t total = 0;
  for (const CodeRange& part : parts_) total += part.bytes.size();
  return total;
}

void Graph::add(const Instruction& instruction) {
  const CodeRange* part = part_of(instruction.address);
  if (!part) return;
  instructions_.push_back(instruction);
  uint32_t* first = &index_[size_t(part - parts_.data())][instruction.address - part->address];
  *first = uint32_t(instructions_.size());
  for (unsigned n = 1; n < instruction.length; ++n) {
    if (first[n] == 0) first[n] = inside;
  }
  if (instruction.is_direct_branch()) add_edge(instruction.address, instruction.target);
}

void Graph::add_edge(uint64_t from, uint64_t to) {
  edges_.emplace_back(to, from);
  const Instruction* source = at(from);
  if (source && source->kind == Kind::indirect_jump) indirect_targets_[from].push_back(to);
}

void Graph::sort_edges() {
  if (sorted_edges_ == edges_.size()) return;
  std::sort(edges_.begin(), edges_.end());
  edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
  sorted_edges_ = edges_.size();
}

const Instruction* Graph::at(uint64_t address) const {
  const CodeRange* part = part_of(address);
  if (!part) return nullptr;
  const uint32_t number = index_[size_t(part - parts_.data())][address - part->address];
  return number != 0 && number != inside ? &instructions_[number - 1] : nullptr;
}

bool Graph::is_free(uint64_t address, uint64_t length) const {
  const CodeRange* part = part_of(address);
  if (!part || length > part->end() - address) return false;
  const uint32_t* first = &index_[size_t(part - parts_.data())][address - part->address];
  return std::all_of(first, first + length, [](uint32_t number) { return number == 0; });
}

const Instruction* Graph::straddling(uint64_t address) const {
  for (unsigned back = 1; back < max_instruction_length; ++back) {
    const Instruction* before = at(address - back);
    if (before && before->length > back) return before;
  }
  return nullptr;
}

const Instruction* Graph::falling_into(uint64_t address) const {
  for (unsigned back = 1; back <= max_instruction_length; ++back) {
    const Instruction* before = at(address - back);
    if (before && before->end() == address && before->falls_through()) return before;
  }
  return nullptr;
}

bool Graph::is_linear_start(uint64_t address) {
  const CodeRange* part = part_of(address);
  if (!part) return false;
  std::vector<bool>& starts = linear_[size_t(part - parts_.data())];
  if (starts.empty()) {
    starts.resize(part->bytes.size());
    Decoder decoder(part->bytes, part->address);
    while (!decoder.at_end()) {
      if (auto instruction = decoder.next()) {
        starts[instruction->address - part->address] = true;
      } else {
        decoder.skip_byte();
      }
    }
  }
  return starts[address - part->address];
}

Bytes Graph::bytes_of(const Instruction& instruction) const {
  const CodeRange* part = part_of(instruction.address);
  return part ? part->bytes.subspan(instruction.address - part->address, instruction.length) : Bytes();
}

}  // namespace uscope::x86
