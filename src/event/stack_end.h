// Why a user stack has no more frames: the second word of a UserStack (event/aggregate.h). Part of a map's
// key, so that a stack that was cut is not counted as one that was not.
#pragma once

#include <cstdint>
#include <string_view>

namespace uscope::event {

enum class StackEnd : uint32_t {
  Complete = 0,  // the outermost function; or an engine that cannot tell
  Limit,         // as many frames as were asked for
  NoRule,        // code that no table describes
  Unreadable,    // the stack's memory cannot be read
  UnknownImage,  // the first stack through a file: its tables are being read
  Busy,          // the address space could not be looked at: it is changing, or the kernel was interrupted
  NotCode,       // a return address that leads to no code
  LostRegister,  // the frame hangs on a register whose value is gone
  OtherStack,    // the runtime has switched stacks
  Damaged,       // the next frame would lie below this one
  ReturnProbe,   // a return probe of the kernel hides the return address
};

// What a reader is told; empty where there is nothing to tell.
constexpr std::string_view explain(StackEnd end) {
  switch (end) {
    case StackEnd::NoRule:
      return "this code has no unwind information";
    case StackEnd::Unreadable:
      return "the stack is not readable here";
    case StackEnd::UnknownImage:
      return "the first stack through this file";
    case StackEnd::Busy:
      return "the kernel was busy with the address space";
    case StackEnd::NotCode:
      return "the return address leads to no code";
    case StackEnd::LostRegister:
      return "the value of a register is lost";
    case StackEnd::OtherStack:
      return "the caller is on another stack";
    case StackEnd::Damaged:
      return "the stack leads downwards";
    case StackEnd::ReturnProbe:
      return "a return probe hides the caller";
    default:
      return "";
  }
}

}  // namespace uscope::event
