// Where exceptions land in a library of the machine: .eh_frame and the tables it points to. Trusts the file,
// as elf_functions.h does.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace uscope::x86::testing {

class LandingPadReader {
 public:
  // read_from(address): the image's bytes from an address on.
  template <typename ReadFrom>
  LandingPadReader(Bytes eh_frame, uint64_t address, ReadFrom read_from) : address_(address) {
    ByteReader reader(eh_frame);
    while (reader.remaining() >= 8) {
      const uint64_t start = reader.position();
      const uint32_t length = reader.u32();
      if (length == 0 || length > reader.remaining()) break;
      const uint64_t id_at = reader.position();
      const uint64_t end = id_at + length;
      const uint32_t id = reader.u32();
      if (id == 0) {
        read_cie(reader, start);
      } else {
        read_fde(reader, cies_[id_at - id], read_from);
      }
      reader.seek(end);
    }
  }
  // function's start -> landing pads
  std::map<uint64_t, std::vector<uint64_t>> take() { return std::move(pads_); }

 private:
  struct Cie {
    uint8_t pointer = 0, lsda = 0xff;
    bool augmented = false;
  };

  // A pointer as DW_EH_PE_* encodes it; only what x86-64 compilers emit.
  static uint64_t read_pointer(ByteReader& reader, uint8_t encoding, uint64_t address_of_reader) {
    const uint64_t at = address_of_reader + reader.position();
    uint64_t value = 0;
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        value = reader.u64();
        break;
      case 0x01:
        value = reader.uleb128();
        break;
      case 0x03:
        value = reader.u32();
        break;
      case 0x09:
        value = uint64_t(reader.sleb128());
        break;
      case 0x0b:
        value = uint64_t(int64_t(int32_t(reader.u32())));
        break;
      default:
        break;
    }
    return value != 0 && (encoding & 0x70) == 0x10 ? value + at : value;
  }

  void read_cie(ByteReader& reader, uint64_t start) {
    Cie cie;
    reader.u8();
    const std::string augmentation(reader.cstring());
    reader.uleb128();
    reader.sleb128();
    reader.uleb128();
    if (augmentation.starts_with('z')) {
      cie.augmented = true;
      reader.uleb128();
      for (char c : augmentation.substr(1)) {
        if (c == 'R') cie.pointer = reader.u8();
        if (c == 'L') cie.lsda = reader.u8();
        if (c == 'P') {
          const uint8_t encoding = reader.u8();
          read_pointer(reader, encoding, address_);
        }
      }
    }
    cies_[start] = cie;
  }

  template <typename ReadFrom>
  void read_fde(ByteReader& reader, const Cie& cie, ReadFrom read_from) {
    const uint64_t function = read_pointer(reader, cie.pointer, address_);
    read_pointer(reader, cie.pointer & 0x0f, address_);
    if (!cie.augmented || cie.lsda == 0xff) return;
    reader.uleb128();
    const uint64_t table = read_pointer(reader, cie.lsda, address_);
    if (table == 0) return;
    ByteReader lsda(read_from(table));
    uint64_t base = function;
    if (const uint8_t encoding = lsda.u8(); encoding != 0xff) base = read_pointer(lsda, encoding, table);
    if (lsda.u8() != 0xff) lsda.uleb128();
    const uint8_t encoding = lsda.u8();
    const uint64_t size = lsda.uleb128(), end = lsda.position() + size;
    while (!lsda.failed() && lsda.position() < end) {
      read_pointer(lsda, encoding, table);
      read_pointer(lsda, encoding, table);
      const uint64_t pad = read_pointer(lsda, encoding, table);
      lsda.uleb128();
      if (pad != 0) pads_[function].push_back(base + pad);
    }
  }

  uint64_t address_;
  std::map<uint64_t, Cie> cies_;
  std::map<uint64_t, std::vector<uint64_t>> pads_;
};

}  // namespace uscope::x86::testing
