// What planning must know of a program's code that a site's bytes do not show: which function it is in, where
// exceptions land, what lies behind the function. Declared here, supplied by whoever knows images (session),
// so that the engine reads no file format and tests can make it up. Addresses are the image's own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "x86/flow.h"

namespace uscope::engine::inproc {

// Who turns a fault into something that the program goes on from, and looks the faulting instruction up by
// its address: such an instruction must stay where it is.
struct FaultFacts {
  // Go's runtime. It copes with an address that it does not know if the return address is on top of the
  // stack.
  bool panics = false;
  // Whether an exception that is thrown at an instruction is caught in this function; empty: none is.
  std::function<bool(uint64_t address)> lands;
};

struct FunctionFacts {
  // With landing pads and every other place that something outside may jump to.
  x86::FunctionCode code;
  // How many bytes behind the end of the function's first part are filler that belongs to nobody.
  uint64_t padding_behind = 0;
  // Execution may be parked at any instruction, with nobody to find it there (goroutines of a stripped Go
  // program): only patches that destroy a single instruction are safe.
  bool parks_anywhere = false;
  FaultFacts faults;
  // Not empty: this function must not be patched, and why.
  std::string forbidden;
};

// What patching a function's first bytes takes to know: less than all that FunctionFacts has, and cheap.
struct EntryFacts {
  x86::CodeRange body;  // its first part
  bool parks_anywhere = false;
  FaultFacts faults;
  std::string forbidden;
};

// One image file. Several threads may ask at once; what it hands out refers to the file's bytes and lives as
// long.
class TextFacts {
 public:
  virtual ~TextFacts() = default;

  // Said before very many functions are asked for, by one thread.
  virtual void expect_many() {}
  virtual std::optional<ImageAddr> address_of(FileOffset offset) = 0;
  // Where the code of a function of this name is in the file; nothing if there is none.
  virtual std::optional<FileOffset> offset_of(std::string_view) { return std::nullopt; }
  // The function that holds an address; nothing if none is known to.
  virtual std::optional<FunctionFacts> function_at(ImageAddr address) = 0;
  // The function that begins at an address; nothing if that is not known without looking closer.
  virtual std::optional<EntryFacts> entry_at(ImageAddr) { return std::nullopt; }
  // The function, or part of one, that holds an address: instructions begin at its start.
  virtual std::optional<x86::CodeRange> code_around(ImageAddr address);
  // Every place that something other than an instruction leads to (an exception, a pointer in the data, a
  // name), sorted. Whoever has entry_at() has this.
  virtual std::span<const uint64_t> ways_in() { return {}; }
  // All code that is known to be some, in pieces that begin with an instruction; by address, not overlapping.
  struct Piece {
    x86::CodeRange code;
    bool is_function = false;  // from its first instruction on; else a part of one
  };
  virtual std::vector<Piece> pieces() { return {}; }
  // What of the image is not code: tables of jumps are there.
  virtual std::vector<x86::CodeRange> data() { return {}; }
  // Whether it is always loaded at the addresses it says: then pointers to code are plain numbers in its
  // data, which nothing else tells of.
  virtual bool is_fixed() { return false; }
  // All of the image's code.
  virtual std::vector<x86::CodeRange> text() = 0;
  // Start and size of filler of at least `size` bytes near an address, outside of its function: nothing runs
  // it and nothing leads there.
  struct Filler {
    ImageAddr address;
    Bytes bytes;
  };
  virtual std::vector<Filler> filler_near(ImageAddr address, uint64_t distance, uint64_t size) = 0;

  // What finding parked goroutines needs; nothing if this is no Go program, or one that has no such symbols.
  struct GoFacts {
    ImageAddr all_goroutines;  // runtime.allgs
    ImageAddr preempt2;        // runtime.asyncPreempt2
    uint64_t preempt2_size = 0;
  };
  virtual std::optional<GoFacts> go_facts() { return std::nullopt; }
};

}  // namespace uscope::engine::inproc
