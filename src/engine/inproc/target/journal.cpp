#include "engine/inproc/target/journal.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "process/info.h"

namespace uscope::engine::inproc {
namespace {

constexpr uint64_t kMagic = 0x326c6e6a70637375;  // "uscpjnl2"
constexpr size_t kMostSpans = 64;
constexpr uint64_t kMostPatches = uint64_t(16) << 20;
constexpr uint64_t kPage = 4096;

enum class SpanUse : uint32_t { data, code, stacks };

struct SpanRecord {
  uint64_t start, size;
  SpanUse use;
  uint32_t unused;
};
struct Header {
  uint64_t magic;
  uint64_t owner_start_time, owner_namespace;
  int32_t owner_pid;
  uint32_t span_count;
  uint64_t patch_count;
  SpanRecord spans[kMostSpans];
};
// A semaphore takes a record of its own.
enum RecordKind : uint8_t { kForgotten, kPatch, kSemaphoreAsked, kSemaphoreCounted };
struct PatchRecord {
  uint64_t address;
  uint8_t size, hole;  // its offset + 1; 0: none
  uint8_t original[max_patch_size], replacement[max_patch_size];
  uint8_t kind;
  uint8_t goes_last;
  uint8_t moved;
  uint8_t unused[3];
};
static_assert(sizeof(PatchRecord) == 48);

constexpr uint64_t kRecordsAt = (sizeof(Header) + 63) / 64 * 64;

template <typename T>
Bytes bytes_of(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

uint64_t own_pid_namespace() {
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

PatchRecord to_record(const Patch& patch) {
  PatchRecord record{};
  record.kind = kPatch;
  record.address = patch.address.value;
  record.size = patch.size;
  record.moved = patch.moved;
  record.hole = uint8_t(patch.hole_offset ? *patch.hole_offset + 1 : 0);
  record.goes_last = patch.goes_last;
  std::copy(patch.original.begin(), patch.original.end(), record.original);
  std::copy(patch.replacement.begin(), patch.replacement.end(), record.replacement);
  return record;
}

std::optional<Patch> from_record(const PatchRecord& record) {
  if (record.kind != kPatch || record.size == 0 || record.size > max_patch_size) return std::nullopt;
  Patch patch;
  patch.address = {record.address};
  patch.size = record.size;
  patch.moved = record.moved;
  patch.goes_last = record.goes_last != 0;
  if (record.hole != 0) patch.hole_offset = uint8_t(record.hole - 1);
  std::copy(std::begin(record.original), std::end(record.original), patch.original.begin());
  std::copy(std::begin(record.replacement), std::end(record.replacement), patch.replacement.begin());
  return patch;
}

// A journal may only speak of memory that uscope itself can have mapped: never of the program's own.
bool is_ours(const process::Maps& maps, const SpanRecord& span) {
  if (span.size == 0 || span.start % kPage != 0 || span.start + span.size < span.start) return false;
  const process::Mapping* mapping = maps.find({span.start});
  if (mapping == nullptr) return true;  // gone already
  return mapping->kind == process::MappingKind::Memfd || mapping->kind == process::MappingKind::Anonymous;
}

std::optional<JournalContents> read_one(const process::RemoteMemory& memory, const process::Maps& maps,
                                        const process::Mapping& mapping) {
  auto header = memory.read_value<Header>(mapping.start);
  if (!header || header->magic != kMagic || header->span_count > kMostSpans) return std::nullopt;
  if (header->patch_count > kMostPatches ||
      header->patch_count > (mapping.size() - std::min(mapping.size(), kRecordsAt)) / sizeof(PatchRecord))
    return std::nullopt;
  JournalContents contents;
  contents.owner = {header->owner_pid, header->owner_start_time, header->owner_namespace};
  bool names_itself = false;
  for (uint32_t i = 0; i < header->span_count; ++i) {
    const SpanRecord& span = header->spans[i];
    if (!is_ours(maps, span)) return std::nullopt;
    const AddressSpan here{{span.start}, span.size};
    contents.mappings.push_back(here);
    if (span.use == SpanUse::code) contents.code.push_back(here);
    if (span.use == SpanUse::stacks) contents.stacks.push_back(here);
    names_itself |= here.start == mapping.start;
  }
  if (!names_itself) return std::nullopt;
  std::vector<PatchRecord> records(header->patch_count);
  auto raw = std::span(reinterpret_cast<uint8_t*>(records.data()), records.size() * sizeof(PatchRecord));
  if (!memory.read(mapping.start + kRecordsAt, raw)) return std::nullopt;
  for (const PatchRecord& record : records) {
    if (auto patch = from_record(record)) contents.patches.push_back(std::move(*patch));
    if (record.kind == kSemaphoreCounted) contents.semaphores.push_back({record.address});
  }
  return contents;
}

}  // namespace

Owner Owner::self() {
  Owner owner;
  owner.pid = ::getpid();
  owner.pid_namespace = own_pid_namespace();
  owner.start_time = process::start_time_of(owner.pid).value_or(0);
  return owner;
}

std::optional<bool> Owner::is_alive() const {
  if (pid_namespace != own_pid_namespace()) return std::nullopt;
  auto info = process::read_process(pid);
  return info && info->start_time == start_time && !info->is_zombie;
}

uint64_t Journal::size_for(size_t patches) {
  const uint64_t bytes = kRecordsAt + patches * sizeof(PatchRecord);
  return (bytes + kPage - 1) / kPage * kPage + kPage;
}

ProcessAddr Journal::last_page() const { return where_.start + (where_.size - kPage); }

size_t Journal::room() const {
  return (where_.size - kPage - kRecordsAt) / sizeof(PatchRecord) - noted_.size();
}

Result<Journal> Journal::create(process::RemoteMemory& memory, AddressSpan where,
                                const JournalContents& contents) {
  if (contents.mappings.size() > kMostSpans)
    return fail(fmt::format("more than {} pieces of memory to map", kMostSpans));
  Header header{};
  header.magic = kMagic;
  header.owner_pid = contents.owner.pid;
  header.owner_start_time = contents.owner.start_time;
  header.owner_namespace = contents.owner.pid_namespace;
  auto is_among = [](const std::vector<AddressSpan>& spans, const AddressSpan& span) {
    return std::ranges::any_of(spans, [&](const AddressSpan& s) { return s.start == span.start; });
  };
  for (const AddressSpan& span : contents.mappings) {
    SpanUse use = is_among(contents.code, span)     ? SpanUse::code
                  : is_among(contents.stacks, span) ? SpanUse::stacks
                                                    : SpanUse::data;
    header.spans[header.span_count++] = {span.start.value, span.size, use, 0};
  }
  TRY_STATUS(memory.write(where.start, bytes_of(header)));
  return Journal(where, contents.owner);
}

std::vector<JournalContents> Journal::find_all(const process::RemoteMemory& memory,
                                               const process::Maps& maps) {
  std::vector<JournalContents> found;
  for (const process::Mapping& mapping : maps.all()) {
    if (mapping.kind != process::MappingKind::Memfd || mapping.perms.shared || mapping.perms.execute)
      continue;
    if (mapping.path.find(area_name) == std::string::npos) continue;
    if (auto contents = read_one(memory, maps, mapping)) found.push_back(std::move(*contents));
  }
  return found;
}

Status Journal::write_records(process::RemoteMemory& memory, Bytes raw, size_t count) {
  TRY_STATUS(memory.write(where_.start + kRecordsAt + noted_.size() * sizeof(PatchRecord), raw));
  // The count comes last: a record counts only when it is whole.
  const uint64_t in_all = noted_.size() + count;
  return memory.write(where_.start + offsetof(Header, patch_count), bytes_of(in_all));
}

Status Journal::set_kind(process::RemoteMemory& memory, size_t record, uint8_t kind) const {
  const uint64_t at = kRecordsAt + record * sizeof(PatchRecord) + offsetof(PatchRecord, kind);
  return memory.write(where_.start + at, bytes_of(kind));
}

Status Journal::add(process::RemoteMemory& memory, std::span<const Patch> patches) {
  if (patches.size() > room()) return fail("the journal of patches is full");
  std::vector<PatchRecord> records;
  records.reserve(patches.size());
  for (const Patch& patch : patches) records.push_back(to_record(patch));
  const Bytes raw(reinterpret_cast<const uint8_t*>(records.data()), records.size() * sizeof(PatchRecord));
  TRY_STATUS(write_records(memory, raw, records.size()));
  for (const Patch& patch : patches) noted_.push_back(Noted{patch.address, false});
  return {};
}

Status Journal::add_semaphores(process::RemoteMemory& memory, std::span<const ProcessAddr> semaphores) {
  if (semaphores.size() > room()) return fail("the journal of patches is full");
  for (ProcessAddr semaphore : semaphores) {
    PatchRecord record{};
    record.kind = kSemaphoreAsked;
    record.address = semaphore.value;
    TRY_STATUS(write_records(memory, bytes_of(record), 1));
    noted_.push_back(Noted{semaphore, true});
  }
  return {};
}

Status Journal::confirm_semaphores(process::RemoteMemory& memory) {
  for (size_t i = 0; i < noted_.size(); ++i)
    if (noted_[i] && noted_[i]->is_semaphore) TRY_STATUS(set_kind(memory, i, kSemaphoreCounted));
  return {};
}

Status Journal::forget(process::RemoteMemory& memory, std::span<const AddressSpan> spans) {
  for (size_t i = 0; i < noted_.size(); ++i) {
    const bool is_gone = noted_[i] && std::ranges::any_of(spans, [&](const AddressSpan& span) {
                           return span.contains(noted_[i]->address);
                         });
    if (!is_gone) continue;
    TRY_STATUS(set_kind(memory, i, kForgotten));
    noted_[i].reset();
  }
  return {};
}

bool Journal::is_present(const process::RemoteMemory& memory) const {
  auto header = memory.read_value<Header>(where_.start);
  return header && header->magic == kMagic && header->owner_pid == owner_.pid &&
         header->owner_start_time == owner_.start_time;
}

}  // namespace uscope::engine::inproc
