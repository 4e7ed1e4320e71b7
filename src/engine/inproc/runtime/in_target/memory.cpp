// What the compiler takes for granted.
#include <stddef.h>

extern "C" {

void* memcpy(void* to, const void* from, size_t size) {
  void* start = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
  return start;
}

void* memset(void* to, int value, size_t size) {
  void* start = to;
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
