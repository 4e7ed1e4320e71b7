// The one place that sets Zydis up. For the .cpp files of this folder only: no header of ours includes it, so
// that nobody else compiles Zydis' headers.
#pragma once

#include <Zydis/Zydis.h>

namespace uscope::x86 {

const ZydisDecoder& zydis_decoder();

}  // namespace uscope::x86
