// Switches random probes of a running program on and off, again and again, while the program checks its own
// results: torture [--cycles N] [--seconds S] [--probes MOST] [--seed N] [-v] (--pid PID | -- COMMAND…)
// The command prints READY, runs until its standard input closes, and ends with 0 if all it saw was right.
// Ends with 0 if it did, and if nothing of uscope's was left in it after any cycle. A program named by its
// pid is somebody else's to start, to check and to end: it must only be alive at the end.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "base/mapped_file.h"
#include "engine/inproc/target/deployment.h"
#include "process/info.h"
#include "process/maps.h"
#include "session/patch_facts.h"
#include "symbols/image_symbols.h"
#include "unit/engine/inproc/target/counting_emitter.h"
#include "x86/flow.h"

namespace uscope {
namespace {

using Clock = std::chrono::steady_clock;
using engine::Attachment;
using engine::inproc::Deployment;

struct Options {
  uint64_t cycles = 200;
  double seconds = 10;
  size_t probes = 300;
  uint64_t seed = 1;
  bool verbose = false;
  pid_t pid = 0;
  std::string_view image = "";  // only files whose path holds this
  char** command = nullptr;
};

// Counts only: what is tested is getting in and out.
class CountingCode : public engine::inproc::TargetCode {
 public:
  CountingCode() { plan_.shared_bytes = 4096, plan_.private_bytes = 4096; }
  const engine::inproc::MemoryPlan& plan() const override { return plan_; }
  Status prepare_shared(std::span<uint8_t>) const override { return {}; }
  x86::RegisterSet read_at_entry(uint32_t) const override { return 0; }
  const engine::inproc::SharedPlan& shared_plan() const override { return shared_plan_; }
  std::vector<uint8_t> private_header(const engine::inproc::MemoryPlaces& places, Process) const override {
    places_ = places;
    return std::vector<uint8_t>(8, 1);
  }
  void tell_children(std::span<uint8_t>, const engine::inproc::MemoryPlaces&) const override {}
  Result<std::vector<uint8_t>> code_area(ProcessAddr,
                                         const engine::inproc::MemoryPlaces& places) const override {
    places_ = places;
    return std::vector<uint8_t>();
  }
  std::unique_ptr<engine::inproc::StubEmitter> emitter(ProcessAddr) const override {
    return std::make_unique<engine::inproc::CountingEmitter>(places_.shared);
  }
  BusyWords busy_words(const engine::inproc::MemoryPlaces&) const override { return {}; }
  ProcessAddr entry_of(uint32_t, ProcessAddr area) const override { return area; }

 private:
  engine::inproc::MemoryPlan plan_;
  engine::inproc::SharedPlan shared_plan_;
  mutable engine::inproc::MemoryPlaces places_;
};

class Program {
 public:
  explicit Program(pid_t pid) : pid_(pid), is_ours_(false) {}
  explicit Program(char** command) {
    int input[2], output[2];
    if (::pipe(input) != 0 || ::pipe(output) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(input[0], 0);
      ::dup2(output[1], 1);
      for (int fd = 3; fd < 16; ++fd) ::close(fd);
      ::execvp(command[0], command);
      ::_exit(127);
    }
    ::close(input[0]);
    ::close(output[1]);
    input_ = Fd(input[1]);
    output_ = Fd(output[0]);
    std::string text;
    for (char byte; text.find("READY\n") == text.npos && ::read(output_.get(), &byte, 1) == 1;) text += byte;
  }
  pid_t pid() const { return pid_; }
  bool has_ended() {
    int status = 0;
    if (!is_ours_) return ::kill(pid_, 0) != 0;
    if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    return status_.has_value();
  }
  int end() {
    if (!is_ours_) return has_ended() ? -1 : 0;
    input_.reset();
    std::string text(4096, 0);
    ssize_t got;
    while ((got = ::read(output_.get(), text.data(), text.size())) > 0)
      fmt::print("{}", std::string_view(text).substr(0, size_t(got)));
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, 0) == pid_) status_ = status;
    return status_.value_or(-1);
  }

 private:
  pid_t pid_ = -1;
  bool is_ours_ = true;
  Fd input_, output_;
  std::optional<int> status_;
};

// A file with code that the program has loaded.
struct Image {
  std::string path;
  symbols::ImageSymbols symbols;
  std::unique_ptr<session::PatchFacts> facts;
};

class Torture {
 public:
  Torture(const Options& options, Program& program)
      : options_(options), program_(program), random_(options.seed) {}

  bool run();

 private:
  void open_images();
  bool cycle();
  Attachment random_attachment(Image& image, size_t most);
  bool is_clean();
  bool text_is_original();

  const Options& options_;
  Program& program_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Image>> images_;
  std::map<std::string, size_t> refusals_;
  uint64_t attached_ = 0, refused_ = 0, hits_ = 0, moved_ = 0, frames_ = 0, longest_stop_ = 0,
           most_rounds_ = 0;
};

void Torture::open_images() {
  auto maps = process::Maps::of(program_.pid());
  if (!maps) return;
  for (const process::MappedImage& mapped : maps->images()) {
    if (mapped.path.empty() || mapped.path.front() != '/') continue;
    auto symbols = symbols::ImageSymbols::open(mapped.path);
    if (!symbols || symbols->functions().empty()) continue;
    if (mapped.path.find(options_.image) == std::string::npos) continue;
    auto image = std::make_unique<Image>(Image{mapped.path, std::move(*symbols), nullptr});
    image->facts = std::make_unique<session::PatchFacts>(image->symbols);
    images_.push_back(std::move(image));
  }
}

Attachment Torture::random_attachment(Image& image, size_t most) {
  Attachment attachment;
  attachment.file = image.path;
  attachment.pid = program_.pid();
  const auto functions = image.symbols.functions();
  const size_t wanted = std::min(most, functions.size());
  auto add = [&](uint64_t address) {
    if (auto offset = image.symbols.file_offset(ImageAddr{address}))
      attachment.sites.push_back({*offset, 0, {}});
  };
  for (size_t i = 0; i < wanted; ++i) {
    const auto& function = functions[random_() % functions.size()];
    const uint64_t how = random_() % 4;
    if (how != 1) add(function.address.value);
    if (how == 0) continue;
    auto facts = image.facts->function_at(function.address);
    if (!facts) continue;
    const x86::Flow flow = x86::analyze(facts->code);
    if (how == 3 && !flow.instructions().empty() && flow.complete())
      add(flow.instructions()[random_() % flow.instructions().size()].address);
    else
      for (const x86::Exit& exit : flow.exits())
        if (exit.kind != x86::ExitKind::no_return) add(exit.address);
  }
  return attachment;
}

bool Torture::is_clean() {
  auto maps = process::Maps::of(program_.pid());
  if (!maps) return program_.has_ended();
  for (const process::Mapping& mapping : maps->all())
    if (mapping.path.find("memfd:uscope") != std::string::npos) {
      fmt::print("left behind: {}\n", mapping.path_as_shown);
      return false;
    }
  return true;
}

bool Torture::text_is_original() {
  auto maps = process::Maps::of(program_.pid());
  auto memory = process::RemoteMemory::open(program_.pid());
  if (!maps || !memory) return false;
  bool all_right = true;
  for (const process::Mapping& mapping : maps->all()) {
    if (!mapping.perms.execute || mapping.kind != process::MappingKind::File) continue;
    auto file = MappedFile::open(mapping.path);
    if (!file) continue;
    const Bytes stored = slice_from(file->bytes(), mapping.offset.value);
    std::vector<uint8_t> now(std::min<uint64_t>(mapping.size(), stored.size()));
    if (!memory->read(mapping.start, now)) continue;
    if (std::ranges::equal(now, stored.first(now.size()))) continue;
    auto differs = std::ranges::mismatch(now, stored.first(now.size()));
    fmt::print("{} differs at offset {:#x}\n", mapping.path,
               mapping.offset.value + uint64_t(differs.in1 - now.begin()));
    all_right = false;
  }
  return all_right;
}

bool Torture::cycle() {
  CountingCode code;
  std::vector<Attachment> attachments;
  // The program's own code most of the time: there the work is.
  const size_t which = random_() % 3 != 0 ? 0 : random_() % images_.size();
  attachments.push_back(random_attachment(*images_[which], 1 + random_() % options_.probes));
  if (random_() % 2 == 0)
    attachments.push_back(random_attachment(*images_[0], 1 + random_() % options_.probes));
  auto facts = [&](const std::string& file) -> Result<engine::inproc::TextFacts*> {
    for (auto& image : images_)
      if (image->path == file) return image->facts.get();
    return fail("unknown file");
  };
  // Mapped in one stop with the memory, or in one of its own.
  const bool is_known = random_() % 2 == 0;
  auto deployment =
      Deployment::start(program_.pid(), code, is_known ? attachments : std::vector<Attachment>(), facts);
  if (deployment && !is_known)
    if (auto planned = (*deployment)->plan(attachments, facts); !planned) return false;
  if (!deployment) {
    if (program_.has_ended()) return false;
    fmt::print("start: {}\n", deployment.error().message());
    return false;
  }
  auto report = (*deployment)->attach();
  if (!report) {
    fmt::print("attach: {}\n", report.error().message());
    return false;
  }
  attached_ += report->attached_sites;
  refused_ += report->failures.size();
  for (const auto& failure : report->failures) {
    std::string why = failure.error.message();
    for (size_t at; (at = why.find("0x")) != why.npos;) {
      size_t end = why.find_first_not_of("0123456789abcdefx", at);
      why.erase(at, end == why.npos ? end : end - at).insert(at, 1, '@');
    }
    ++refusals_[why];
  }
  const auto& timing = (*deployment)->timing();
  moved_ += timing.moved_threads;
  frames_ += timing.moved_frames;
  longest_stop_ = std::max(longest_stop_, timing.stopped_ns);
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % 4000));
  auto removed = (*deployment)->detach();
  if (!removed || !removed->is_clean || removed->changed != 0) {
    fmt::print("detach: {}\n",
               removed ? fmt::format("not clean: {} changed", removed->changed) : removed.error().message());
    return false;
  }
  uint64_t counted;
  std::memcpy(&counted, (*deployment)->shared().data(), 8);
  hits_ += counted;
  most_rounds_ = std::max<uint64_t>(most_rounds_, removed->rounds);
  longest_stop_ = std::max(longest_stop_, removed->stopped_ns);
  return is_clean();
}

bool Torture::run() {
  open_images();
  if (images_.empty()) return false;
  const auto began = Clock::now();
  uint64_t cycles = 0;
  bool all_right = true;
  auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  for (; all_right && cycles < options_.cycles && seconds() < options_.seconds; ++cycles) {
    all_right = !program_.has_ended() && cycle();
    if (program_.has_ended()) {
      fmt::print("the program ended in cycle {}\n", cycles);
      all_right = false;
    }
  }
  if (all_right) all_right = text_is_original();
  fmt::print(
      "{} cycles in {:.1f} s: {} probes attached, {} refused, {} hits, {} threads and {} signal frames "
      "moved; longest stop {:.2f} ms, at most {} stops to leave\n",
      cycles, seconds(), attached_, refused_, hits_, moved_, frames_, double(longest_stop_) / 1e6,
      most_rounds_);
  if (options_.verbose)
    for (auto& [why, count] : refusals_) fmt::print("  refused {}: {}\n", count, why);
  return all_right;
}

int main_(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "-v") {
      options.verbose = true;
    } else if (name == "--" && i + 1 < argc) {
      options.command = argv + i + 1;
      break;
    } else if (i + 1 < argc) {
      const char* value = argv[++i];
      if (name == "--cycles") options.cycles = std::strtoull(value, nullptr, 10);
      if (name == "--seconds") options.seconds = std::strtod(value, nullptr);
      if (name == "--probes") options.probes = std::strtoull(value, nullptr, 10);
      if (name == "--pid") options.pid = pid_t(std::strtol(value, nullptr, 10));
      if (name == "--image") options.image = value;
      if (name == "--seed") options.seed = std::strtoull(value, nullptr, 10);
    }
  }
  if (options.command == nullptr && options.pid <= 0) return 2;
  Program program = options.pid > 0 ? Program(options.pid) : Program(options.command);
  bool all_right = Torture(options, program).run();
  const int status = program.end();
  if (status != 0) fmt::print("the program ended with status {:#x}\n", status);
  return all_right && status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace uscope

int main(int argc, char** argv) { return uscope::main_(argc, argv); }
