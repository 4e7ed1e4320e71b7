// A type's layout written as source code, with offsets and sizes in comments before the members:
//   struct conn {          // size 48, align 8, 1 hole (4 bytes), conn.c:12
//     /*    0 |  8 */  struct conn *next;
//     /*    8 |  4 */  int fd;
//     /*   12 |  4 */  // hole
// The columns are offset and size in bytes; a bitfield's offset is byte:bit and its size is in bits (`3b`).
#pragma once

#include <string>

#include "symbols/type_layout.h"

namespace uscope::symbols {

// Ends in a newline.
std::string print_type(const TypeLayout& layout, bool with_offsets = true);

// `size 48, align 8, 1 hole (4 bytes), conn.c:12`.
std::string describe_layout(const TypeLayout& layout);

}  // namespace uscope::symbols
