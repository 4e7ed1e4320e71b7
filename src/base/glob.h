// Shell-style name patterns as the tracing tools use them: `*` any run, `?` one character, `[abc]`, `[a-z]`,
// `[!a]`. Linear in practice (no exponential backtracking). A pattern without these characters matches only
// itself.
#pragma once

#include <string_view>

namespace uscope {

bool has_glob(std::string_view pattern);
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace uscope
