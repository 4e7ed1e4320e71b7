// Names with a meaning of their own, as far as the grammar has to know them: type names, to tell a cast from
// a parenthesis, and builtin values, which never are types.
#pragma once

#include <string_view>

namespace uscope::lang {

bool is_type_word(std::string_view word);
bool is_value_word(std::string_view word);

}  // namespace uscope::lang
