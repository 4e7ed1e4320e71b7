#include "engine/inproc/own_code.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "engine/inproc/runtime/shared_plan.h"

namespace uscope::engine::inproc {
namespace {

Result<std::span<uint8_t>> map_own(uint64_t size) {
  void* at =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return fail(Error::from_errno("mapping memory for the script's own code", errno));
  return std::span(static_cast<uint8_t*>(at), size);
}

}  // namespace

Result<std::unique_ptr<OwnCode>> OwnCode::place(const TargetCode& code, std::span<uint8_t> shared) {
  std::unique_ptr<OwnCode> own(new OwnCode(code));
  TRY(own->private_, map_own(code.plan().private_bytes));
  TRY(own->area_, map_own(code.plan().code_bytes));
  own->maps_ = code.shared_plan().maps;
  for (MapInfo& map : own->maps_) map.self = uint64_t(&map) - uint64_t(shared.data());
  MemoryPlaces places{{uint64_t(shared.data())}, {uint64_t(own->private_.data())}, {}, {}};
  places.pid = uint32_t(::getpid());
  places.maps = ProcessAddr{uint64_t(own->maps_.data())};
  TRY(auto bytes, code.code_area({uint64_t(own->area_.data())}, places));
  std::ranges::copy(bytes, own->area_.begin());
  std::ranges::copy(code.private_header(places, TargetCode::Process::Own), own->private_.begin());
  if (::mprotect(own->area_.data(), own->area_.size(), PROT_READ | PROT_EXEC) != 0)
    return fail(Error::from_errno("making the script's own code executable", errno));
  return own;
}

OwnCode::~OwnCode() {
  for (std::span<uint8_t> memory : {private_, area_})
    if (!memory.empty()) ::munmap(memory.data(), memory.size());
}

void OwnCode::run(uint32_t code) const {
  const ProcessAddr entry = code_.entry_of(code, {uint64_t(area_.data())});
  reinterpret_cast<void (*)()>(entry.value)();
}

}  // namespace uscope::engine::inproc
