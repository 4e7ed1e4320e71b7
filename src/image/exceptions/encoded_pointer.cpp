#include "image/exceptions/encoded_pointer.h"

#include <dwarf.h>

namespace uscope::image {

std::optional<uint64_t> read_encoded_pointer(ByteReader& reader, uint8_t encoding, uint64_t section_address) {
  uint64_t here = section_address + reader.position();
  uint64_t value = 0;
  switch (encoding & 0x0f) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
      value = reader.u64();
      break;
    case DW_EH_PE_uleb128:
      value = reader.uleb128();
      break;
    case DW_EH_PE_udata2:
      value = reader.u16();
      break;
    case DW_EH_PE_udata4:
      value = reader.u32();
      break;
    case DW_EH_PE_sleb128:
      value = uint64_t(reader.sleb128());
      break;
    case DW_EH_PE_sdata2:
      value = uint64_t(int64_t(reader.read<int16_t>()));
      break;
    case DW_EH_PE_sdata4:
      value = uint64_t(int64_t(reader.read<int32_t>()));
      break;
    default:
      return {};
  }
  if (!reader) return {};
  switch (encoding & 0x70) {
    case DW_EH_PE_absptr:
      return value;
    case DW_EH_PE_pcrel:
      return here + value;
    case DW_EH_PE_datarel:
      return section_address + value;
    default:
      return {};
  }
}

}  // namespace uscope::image
