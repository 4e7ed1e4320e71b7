#include "base/result.h"

#include <cstring>

namespace uscope {

Error Error::from_errno(std::string_view doing, int error_number) {
  return Error(std::string(doing) + ": " + std::strerror(error_number));
}

}  // namespace uscope
