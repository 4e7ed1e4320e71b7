#include "session/engines.h"

#include <linux/capability.h>

#include "engine/inproc/inproc_engine.h"
#include "engine/kernel/kernel_engine.h"
#include "session/doctor_checks.h"

namespace uscope::session {
namespace {

using lang::ProbeKind;

// What the in-process engine cannot do; nothing if all is well.
std::optional<std::string> why_not_inproc(const lang::TypedProgram& program, std::optional<pid_t> pid) {
  if (!pid) return "it needs a process: -p PID or -c COMMAND";
  for (const lang::TypedProbe& probe : program.probes)
    for (const lang::AttachSpec& point : probe.attach_points) switch (point.kind) {
        case ProbeKind::kUprobe:
        case ProbeKind::kUretprobe:
        case ProbeKind::kUsdt:
        case ProbeKind::kInterval:
        case ProbeKind::kBegin:
        case ProbeKind::kEnd:
        case ProbeKind::kSelf:
          break;
        default:
          return std::string(lang::spell(point.kind)) + " probes live in the kernel";
      }
  return std::nullopt;
}

// Whether we have the rights that the kernel's uprobes want; where we don't, its refusal would say nothing of
// the script.
bool kernel_may_be_asked() {
  const Rights rights = read_rights();
  return rights.has(CAP_SYS_ADMIN) || (rights.has(CAP_BPF) && rights.has(CAP_PERFMON));
}

}  // namespace

Result<std::vector<ChosenEngine>> choose_engines(EngineChoice choice, const lang::TypedProgram& program,
                                                 std::optional<pid_t> pid, bool follows_forks) {
  using Engines = std::vector<ChosenEngine>;
  if (choice == EngineChoice::Kernel && follows_forks)
    return fail(Error("--follow-fork needs the in-process engine").with_hint("add --engine inproc"));
  if (choice == EngineChoice::Kernel) return Engines{{false, "as asked"}};
  const auto why_not = why_not_inproc(program, pid);
  if (choice == EngineChoice::Inproc) {
    if (why_not) return fail("--engine inproc cannot run this script: " + *why_not);
    return Engines{{true, "as asked"}};
  }
  if (follows_forks) {
    if (why_not)
      return fail("--follow-fork needs the in-process engine, which cannot run this script: " + *why_not);
    return Engines{{true, "--follow-fork needs it"}};
  }
  if (why_not) return Engines{{false, "the in-process engine cannot: " + *why_not}};
  Engines engines = {{true, "everything probed lives in one process"}};
  if (kernel_may_be_asked()) engines.push_back({false, "the in-process engine cannot"});
  return engines;
}

std::unique_ptr<engine::Engine> EngineMaker::make(const ChosenEngine& chosen, std::optional<pid_t> pid,
                                                  Child* child, bool follows_forks,
                                                  engine::inproc::Misfit misfit) {
  if (!chosen.is_inproc) return std::make_unique<engine::kernel::KernelEngine>();
  auto facts = [this](const std::string& file) -> Result<engine::inproc::TextFacts*> {
    std::unique_ptr<PatchFacts>& known = facts_[file];
    if (!known) {
      TRY(const symbols::ImageSymbols* image, types_.image(file));
      known = std::make_unique<PatchFacts>(*image);
    }
    return known.get();
  };
  engine::inproc::LifeOptions life;
  life.follows_forks = follows_forks;
  life.misfit = std::move(misfit);
  if (child != nullptr) {
    life.exec.hold = [child](pid_t thread, const std::function<void()>& let_go) {
      return child->hold_at_next_entry(thread, let_go);
    };
    life.exec.release = [child] { (void)child->release(); };
  }
  return std::make_unique<engine::inproc::InprocEngine>(*pid, facts, std::move(life));
}

}  // namespace uscope::session
