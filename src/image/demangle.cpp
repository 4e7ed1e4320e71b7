#include "image/demangle.h"

#include <libiberty/demangle.h>
#include <pthread.h>

#include <csetjmp>

namespace uscope::image {
namespace {

// libiberty recurses along the name. Up to this length its own limit holds and any stack is deep enough.
constexpr size_t longest_on_this_stack = 1024;
// Real names of template libraries reach tens of thousands of characters; these get a stack of their own.
constexpr size_t longest_name = 32768;
constexpr size_t stack_per_character = 4096;
// Substitutions let a short name stand for an exponentially long text.
constexpr size_t longest_output = size_t(1) << 20;

enum class Dialect { Cpp, Rust };

struct Job {
  const char* name = nullptr;
  Dialect dialect = Dialect::Cpp;
  int options = 0;
  bool done = false;
  std::string output;
  std::jmp_buf too_long;
};

void take_output(const char* text, size_t size, void* opaque) {
  auto* job = static_cast<Job*>(opaque);
  // libiberty has no other way to be stopped. It is C and keeps no resources here (but, in Rust names with
  // punycode, a buffer of the identifier's length).
  if (job->output.size() + size > longest_output) std::longjmp(job->too_long, 1);
  job->output.append(text, size);
}

void run(Job& job) {
  if (setjmp(job.too_long) != 0) {
    job.done = false;
    return;
  }
  int demangled = job.dialect == Dialect::Rust
                      ? rust_demangle_callback(job.name, job.options, take_output, &job)
                      : cplus_demangle_v3_callback(job.name, job.options, take_output, &job);
  job.done = demangled != 0;
}

void run_on_large_stack(Job& job, size_t stack_size) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  pthread_t thread;
  auto entry = [](void* opaque) -> void* {
    run(*static_cast<Job*>(opaque));
    return nullptr;
  };
  if (pthread_attr_setstacksize(&attributes, stack_size) == 0 &&
      pthread_create(&thread, &attributes, entry, &job) == 0) {
    pthread_join(thread, nullptr);
  }
  pthread_attr_destroy(&attributes);
}

std::optional<std::string> demangle_as(const std::string& name, Dialect dialect, int options) {
  Job job;
  job.name = name.c_str();
  job.dialect = dialect;
  job.options = options;
  if (name.size() <= longest_on_this_stack) {
    run(job);
  } else {
    job.options |= DMGL_NO_RECURSE_LIMIT;
    run_on_large_stack(job, (size_t(1) << 20) + name.size() * stack_per_character);
  }
  if (!job.done || job.output.empty()) return std::nullopt;
  return std::move(job.output);
}

// Rust's older mangling looks like C++'s, but ends in a hash: 17h and 16 hexadecimal digits.
bool may_be_rust(std::string_view name) {
  return name.starts_with("_R") || (name.starts_with("_ZN") && name.find("17h") != std::string_view::npos);
}

std::optional<std::string> demangle_with(std::string_view name, int options) {
  if (!looks_mangled(name) || name.size() > longest_name) return std::nullopt;
  std::string text(name);
  // An embedded NUL would make libiberty read a shorter name than the caller has.
  if (text.find('\0') != std::string::npos) return std::nullopt;
  if (may_be_rust(name)) {
    if (auto rust = demangle_as(text, Dialect::Rust, options)) return rust;
  }
  return name.starts_with("_R") ? std::nullopt : demangle_as(text, Dialect::Cpp, options);
}

}  // namespace

bool looks_mangled(std::string_view name) {
  return name.starts_with("_Z") || name.starts_with("_R") || name.starts_with("_GLOBAL_");
}

std::optional<std::string> demangle(std::string_view name) {
  return demangle_with(name, DMGL_PARAMS | DMGL_ANSI);
}

std::optional<std::string> demangle_without_parameters(std::string_view name) {
  auto text = demangle_with(name, DMGL_ANSI);
  // libiberty keeps the parameters of what a thunk stands for, and drops " [clone .part.0]", which is another
  // function.
  bool is_clone = name.find('.') != std::string_view::npos;
  bool is_thunk = text && (text->find(" thunk to ") != std::string::npos ||
                           text->find(" clone for ") != std::string::npos);
  if (!text || (!is_clone && !is_thunk)) return text;
  auto whole = demangle(name);
  return whole ? std::optional(strip_parameters(*whole)) : text;
}

}  // namespace uscope::image
