// What the compiler takes for granted.
#include <stddef.h>

#include "engine/inproc/runtime/hash_map.h"

using uscope::engine::inproc::strings_go_backwards;

extern "C" {

void* memcpy(void* to, const void* from, size_t size) {
  void* start = to;
  if (strings_go_backwards()) {
    for (size_t i = 0; i < size; i++) ((volatile char*)to)[i] = ((const char*)from)[i];
    return start;
  }
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
  return start;
}

void* memset(void* to, int value, size_t size) {
  void* start = to;
  if (strings_go_backwards()) {
    for (size_t i = 0; i < size; i++) ((volatile char*)to)[i] = char(value);
    return start;
  }
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(value) : "memory");
  return start;
}

void* memmove(void* to, const void* from, size_t size) {
  auto* out = (char*)to;
  const auto* in = (const char*)from;
  if (out <= in || out >= in + size) return memcpy(to, from, size);
  while (size-- > 0) out[size] = in[size];
  return to;
}
}
