#include "cfck/version.hpp"

#define CFCK_TEXT_INNER(text) #text
#define CFCK_TEXT(text) CFCK_TEXT_INNER(text)

namespace cfck {

const char* library_version() noexcept {
  return CFCK_TEXT(CFCK_VERSION_MAJOR) "." CFCK_TEXT(CFCK_VERSION_MINOR) "." CFCK_TEXT(
      CFCK_VERSION_PATCH);
}

}  // namespace cfck
