// Errors as values. A Result<T> is a T or an Error; an Error reads aloud as a sentence:
// "attaching to ./server, while opening ./server: permission denied; try running as root".
// Looking something up that is not there is no Error: return an optional or a reason type instead.
// Nothing here throws; nothing here logs.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace uscope {

class Error {
 public:
  explicit Error(std::string what) : what_(std::move(what)) {}

  // From errno: "opening /x: No such file or directory".
  static Error from_errno(std::string_view doing, int error_number);

  // Says what was being done when this happened; the outermost context comes first.
  [[nodiscard]] Error while_doing(std::string_view doing) && {
    what_ = std::string(doing) + ": " + what_;
    return std::move(*this);
  }
  // Says what the user can do about it.
  [[nodiscard]] Error with_hint(std::string_view hint) && {
    hint_ = hint;
    return std::move(*this);
  }

  const std::string& what() const { return what_; }
  const std::string& hint() const { return hint_; }
  // The whole sentence, with the hint: "what; hint".
  std::string message() const { return hint_.empty() ? what_ : what_ + "; " + hint_; }

 private:
  std::string what_;
  std::string hint_;
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> fail(std::string what) { return std::unexpected(Error(std::move(what))); }
inline std::unexpected<Error> fail(Error error) { return std::unexpected(std::move(error)); }

}  // namespace uscope

// TRY(auto x, make_x()): declares x from a Result, or returns its Error to the caller.
#define USCOPE_CONCAT_INNER(a, b) a##b
#define USCOPE_CONCAT(a, b) USCOPE_CONCAT_INNER(a, b)
#define TRY(declaration, expression) \
  TRY_IMPL(USCOPE_CONCAT(try_result_, __COUNTER__), declaration, expression)
#define TRY_IMPL(temporary, declaration, expression)                    \
  auto temporary = (expression);                                        \
  if (!temporary) return std::unexpected(std::move(temporary).error()); \
  declaration = std::move(*temporary)
// TRY_STATUS(do_it()): the same where there is no value.
#define TRY_STATUS(expression)                                              \
  do {                                                                      \
    auto try_status = (expression);                                         \
    if (!try_status) return std::unexpected(std::move(try_status).error()); \
  } while (false)
