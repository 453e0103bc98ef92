#include "model/error_path.hpp"

#include <string_view>

#include "base/text.hpp"

namespace cfck::model {
namespace {

// Looks for "'path'" anywhere, "path: " at the start, or a file in that folder. A path may be
// as short as a word of the message.
bool names_path(const std::string& message, const std::string& path) {
  for (std::size_t at = message.find(path); at != std::string::npos;
       at = message.find(path, at + 1)) {
    const bool begins = at == 0 || message[at - 1] == '\'';
    const std::size_t end = at + path.size();
    const bool ends = end < message.size() &&
                      (std::string_view("':/").find(message[end]) != std::string_view::npos ||
                       path.back() == '/');
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace

Error with_path(Error error, const std::string& path) {
  const std::string shown = escaped(path);
  if (!path.empty() && !names_path(error.message, shown)) {
    error.message = shown + ": " + error.message;
  }
  return error;
}

}  // namespace cfck::model
