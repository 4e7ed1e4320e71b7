#include "image/exceptions/augmentation.h"

#include "image/exceptions/encoded_pointer.h"

namespace uscope::image {

std::optional<Augmentation> read_augmentation(ByteReader& reader, std::string_view letters,
                                              uint64_t section_address) {
  Augmentation out;
  if (letters.empty()) return out;
  if (letters[0] != 'z') return {};
  out.has_data = true;
  uint64_t size = reader.uleb128();
  if (!reader || size > reader.remaining()) return {};
  uint64_t end = reader.position() + size;
  for (char letter : letters.substr(1)) {
    if (letter == 'R') {
      out.pointer_encoding = reader.u8();
    } else if (letter == 'L') {
      out.lsda_encoding = reader.u8();
    } else if (letter == 'P') {
      uint8_t encoding = reader.u8();
      read_encoded_pointer(reader, encoding, section_address);
    } else if (letter == 'S') {
      out.is_signal_frame = true;
    } else if (letter != 'B') {
      break;
    }
  }
  reader.seek(end);
  if (!reader) return {};
  return out;
}

}  // namespace uscope::image
