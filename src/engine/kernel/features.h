// What the running kernel offers to programs, found by asking it: a program that only calls the helper is
// loaded, and the verifier's words tell an unknown helper from wrong arguments. Keeps nothing loaded.
#pragma once

namespace uscope::engine::kernel {

struct Features {
  bool is_privileged = false;  // may load programs at all; nothing else is known without
  bool get_func_ip = false, lookup_percpu_elem = false, loop = false, get_tai_ns = false, dpath = false;
  bool uprobe_multi = false;
};
Features find_features();

}  // namespace uscope::engine::kernel
