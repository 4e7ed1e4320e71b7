#include "image/elf/notes.h"

#include <algorithm>
#include <vector>

#include "image/elf/elf_file.h"

namespace uscope::image {

bool for_each_note(Bytes block, uint64_t alignment, const std::function<bool(const Note&)>& visit) {
  // Old linkers wrote 0 or 1; only 8 ever means 8 (x86's .note.gnu.property).
  uint64_t padding = alignment == 8 ? 8 : 4;
  ByteReader reader(block);
  while (reader.remaining() >= sizeof(Elf64_Nhdr)) {
    auto header = reader.read<Elf64_Nhdr>();
    Bytes owner = reader.take(header.n_namesz);
    if (reader.failed()) break;
    reader.align(padding);
    Bytes description = reader.take(header.n_descsz);
    if (reader.failed()) break;
    Note note{cstring_at(owner, 0), header.n_type, description};
    if (!visit(note)) return false;
    // The last note may do without its padding.
    reader.align(padding);
  }
  return true;
}

void for_each_note(const ElfFile& file, const std::function<bool(const Note&)>& visit) {
  // A hostile file may have tens of thousands of headers that share one long block; distinct blocks, and no
  // more than any real image has, keep the work linear.
  constexpr size_t most_blocks = 256;
  struct Block {
    uint64_t offset, size, alignment;
  };
  std::vector<Block> blocks;
  auto add = [&](uint64_t offset, uint64_t size, uint64_t alignment) {
    bool covered = std::ranges::any_of(blocks, [&](const Block& b) {
      return offset >= b.offset && offset - b.offset <= b.size && size <= b.size - (offset - b.offset);
    });
    if (!covered && blocks.size() < most_blocks) blocks.push_back({offset, size, alignment});
  };
  // Segments first: a PT_NOTE covers several sections, which must not be visited again.
  for (const Segment& segment : file.segments()) {
    if (segment.type == PT_NOTE)
      add(segment.offset.value, file.stored_bytes(segment).size(), segment.alignment);
  }
  for (const Section& section : file.sections()) {
    if (section.type == SHT_NOTE)
      add(section.offset.value, file.stored_bytes(section).size(), section.alignment);
  }
  for (const Block& block : blocks) {
    if (!for_each_note(file.bytes().subspan(block.offset, block.size), block.alignment, visit)) return;
  }
}

}  // namespace uscope::image
