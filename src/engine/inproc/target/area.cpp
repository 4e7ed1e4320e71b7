#include "engine/inproc/target/area.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "engine/inproc/target/placement.h"
#include "engine/inproc/target/send_fd.h"
#include "process/info.h"
#include "process/proc_dir.h"
#include "process/remote_call.h"

namespace uscope::engine::inproc {
namespace {

using Use = PieceRequest::Use;
using process::RemoteCaller;

constexpr uint64_t kPage = 4096;

uint64_t whole_pages(uint64_t size) { return (size + kPage - 1) / kPage * kPage; }

bool is_in_memfd(Use use) { return use == Use::code || use == Use::shared_data; }

// A piece that must be in reach is nowhere else; any other is where the kernel likes, if its place was taken.
int exactly_if_needed(const PieceRequest& piece) { return piece.reach.size == 0 ? 0 : MAP_FIXED_NOREPLACE; }

bool locks_memory(pid_t pid) {
  auto text = read_text_file(process::living_proc_dir(pid) + "/status");
  auto status = text ? process::parse_status(*text) : Result<process::StatusFile>(fail("gone"));
  return status && status->locked_kb != 0;
}

class Mapper {
 public:
  Mapper(process::SeizedProcess& process, RemoteCaller& caller, const AreaRequest& request, const Fd& shared)
      : process_(process),
        caller_(caller),
        request_(request),
        shared_(shared),
        is_locked_(locks_memory(process.pid())),
        pieces_(request.pieces.size()) {}

  Result<Area> map();
  void undo();

 private:
  Status make_memory();
  std::optional<ProcessAddr> scratch() const;
  Status map_pieces(bool in_memfd);
  Result<AddressSpan> find_place(const PieceRequest& piece);
  Result<AddressSpan> place(const PieceRequest& piece, uint64_t memfd_offset);
  Result<AddressSpan> map_journal(uint64_t memfd_offset);
  Status map_shared(AddressSpan& where, int flags, uint64_t memfd_offset);
  Status map_sparse(AddressSpan& where, int flags, int fd, uint64_t offset);
  Status map_unlocked(AddressSpan& where, int flags, int fd, uint64_t offset);
  Status map_at(AddressSpan& where, int protection, int flags, int fd, uint64_t offset);

  process::SeizedProcess& process_;
  RemoteCaller& caller_;
  const AreaRequest& request_;
  const Fd& shared_;
  bool is_locked_;
  Fd memory_;
  int remote_fd_ = -1;
  std::optional<process::Maps> maps_;  // as they were before
  std::vector<Piece> pieces_;          // beside the request's
  uint64_t memfd_used_ = 0;
  JournalContents contents_;
};

// What is mapped already and has no contents yet.
std::optional<ProcessAddr> Mapper::scratch() const {
  if (contents_.stacks.empty()) return std::nullopt;
  return contents_.stacks.front().start;
}

Status Mapper::make_memory() {
  uint64_t size = Journal::size_for(request_.most_patches);
  for (const PieceRequest& piece : request_.pieces)
    if (is_in_memfd(piece.use)) size += whole_pages(piece.size);
  TRY(remote_fd_, caller_.memfd_create(area_name, scratch()));
  TRY(memory_, open_remote_fd(process_.pid(), remote_fd_));
  // Whoever else has this fd must not take the memory away under us. And should the fd be another file by
  // now, this fails, before that file is changed: only what memfd_create made can be sealed.
  if (::fcntl(memory_.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return fail(Error::from_errno("sealing the shared memory", errno));
  if (::ftruncate(memory_.get(), off_t(size)) != 0)
    return fail(Error::from_errno(fmt::format("making {} bytes of shared memory", size), errno));
  if (::fcntl(memory_.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail(Error::from_errno("sealing the shared memory", errno));
  return {};
}

// Of each thread's part only a few pages are ever used: with huge pages it would be all of it.
Status Mapper::map_sparse(AddressSpan& where, int flags, int fd, uint64_t offset) {
  TRY_STATUS(map_unlocked(where, flags, fd, offset));
  // A kernel without huge pages does not know it.
  TRY([[maybe_unused]] int64_t result,
      caller_.call(SYS_madvise, {where.start.value, where.size, MADV_NOHUGEPAGE}));
  return {};
}

// A gigabyte of addresses that would be filled with memory at once, were it locked as the rest of the
// process's.
Status Mapper::map_unlocked(AddressSpan& where, int flags, int fd, uint64_t offset) {
  constexpr int kBoth = PROT_READ | PROT_WRITE;
  if (!is_locked_) return map_at(where, kBoth, flags, fd, offset);
  TRY_STATUS(map_at(where, PROT_NONE, flags, fd, offset));
  TRY(int64_t result, caller_.call(SYS_munlock, {where.start.value, where.size}));
  if (result == 0) {
    TRY(result, caller_.call(SYS_mprotect, {where.start.value, where.size, kBoth}));
  }
  if (result != 0) return fail(Error::from_errno("keeping memory from being locked", int(-result)));
  return {};
}

Status Mapper::map_at(AddressSpan& where, int protection, int flags, int fd, uint64_t offset) {
  TRY(ProcessAddr at, caller_.mmap(where.start, where.size, protection, flags, fd, {offset}));
  contents_.mappings.push_back({at, where.size});
  if ((flags & MAP_FIXED_NOREPLACE) == 0) where.start = at;
  // Before Linux 4.17 the address is only a wish.
  if (at != where.start) return fail(fmt::format("the place {:#x} was not to be had", where.start.value));
  return {};
}

Status Mapper::map_shared(AddressSpan& where, int flags, uint64_t memfd_offset) {
  flags |= MAP_SHARED;
  if (!shared_.is_open()) return map_sparse(where, flags, remote_fd_, memfd_offset);
  TRY(const int sent, send_fd(process_, caller_, shared_));
  Status mapped = map_sparse(where, flags, sent, 0);
  TRY_STATUS(caller_.close(sent));
  return mapped;
}

// Start 0: wherever the kernel likes.
Result<AddressSpan> Mapper::find_place(const PieceRequest& piece) {
  const uint64_t size = whole_pages(piece.size);
  const bool is_anywhere = piece.reach.size == 0;
  if (is_anywhere && piece.use != Use::private_data) return AddressSpan{{0}, size};
  if (!maps_) {
    TRY(maps_, process::Maps::of(process_.pid()));
  }
  if (is_anywhere) {
    // A signal handler that runs on a stack of ours may leave it by siglongjmp, which in a program made with
    // _FORTIFY_SOURCE ends it when that is a way down.
    uint64_t random = 0;
    (void)::getrandom(&random, sizeof random, GRND_NONBLOCK);
    return AddressSpan{find_room_below_stacks(*maps_, size, random).value_or(ProcessAddr{0}), size};
  }
  auto room = find_room(*maps_, piece.reach, size, contents_.mappings);
  if (!room)
    return fail(fmt::format("process {} has no free {} KB within 2 GB of {:#x}", process_.pid(), size >> 10,
                            piece.reach.start.value));
  return AddressSpan{*room, size};
}

Result<AddressSpan> Mapper::place(const PieceRequest& piece, uint64_t memfd_offset) {
  TRY(AddressSpan where, find_place(piece));
  const int exactly = exactly_if_needed(piece);
  switch (piece.use) {
    case Use::code:
      // Private: what a forked child runs must not change when the parent's is taken away.
      TRY_STATUS(map_at(where, PROT_READ | PROT_EXEC, MAP_PRIVATE | exactly, remote_fd_, memfd_offset));
      contents_.code.push_back(where);
      break;
    case Use::shared_data:
      TRY_STATUS(map_shared(where, exactly, memfd_offset));
      break;
    case Use::private_data: {
      TRY_STATUS(map_sparse(where, exactly | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
      contents_.stacks.push_back(where);
      // No more than that: what lies behind it is the program's.
      const uint64_t wiped = std::min(whole_pages(piece.wiped), where.size);
      TRY(int64_t result, caller_.call(SYS_madvise, {where.start.value, wiped, MADV_WIPEONFORK}));
      if (result != 0) return fail(Error::from_errno("keeping memory from forked children", int(-result)));
      break;
    }
  }
  return where;
}

Result<AddressSpan> Mapper::map_journal(uint64_t memfd_offset) {
  const uint64_t size = Journal::size_for(request_.most_patches);
  TRY(ProcessAddr at, caller_.mmap({0}, size, PROT_READ, MAP_PRIVATE, remote_fd_, {memfd_offset}));
  contents_.mappings.push_back({at, size});
  return AddressSpan{at, size};
}

// Those that are in the memfd, or the others.
Status Mapper::map_pieces(bool in_memfd) {
  for (size_t i = 0; i < request_.pieces.size(); ++i) {
    const PieceRequest& piece = request_.pieces[i];
    if (is_in_memfd(piece.use) != in_memfd) continue;
    TRY(AddressSpan where, place(piece, memfd_used_));
    pieces_[i] = {where, in_memfd ? memfd_used_ : 0};
    if (in_memfd) memfd_used_ += whole_pages(piece.size);
  }
  return {};
}

Result<Area> Mapper::map() {
  TRY_STATUS(map_pieces(false));
  TRY_STATUS(make_memory());
  TRY_STATUS(map_pieces(true));
  TRY(AddressSpan journal_at, map_journal(memfd_used_));
  TRY_STATUS(caller_.close(std::exchange(remote_fd_, -1)));
  contents_.owner = Owner::self();
  TRY(Journal journal, Journal::create(process_.memory(), journal_at, contents_));
  return Area{std::move(memory_), std::move(pieces_), journal, std::move(contents_)};
}

void Mapper::undo() {
  for (const AddressSpan& mapping : contents_.mappings) (void)caller_.munmap(mapping.start, mapping.size);
  if (remote_fd_ >= 0) (void)caller_.close(remote_fd_);
}

}  // namespace

Result<Area> map_area(process::SeizedProcess& process, const AreaRequest& request, const Fd& shared) {
  TRY(RemoteCaller caller, RemoteCaller::begin(process));
  Mapper mapper(process, caller, request, shared);
  Result<Area> area = mapper.map();
  if (!area) mapper.undo();
  TRY_STATUS(caller.finish());
  return area;
}

}  // namespace uscope::engine::inproc
