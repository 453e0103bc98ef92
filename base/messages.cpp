#include "base/messages.hpp"

#include "base/text.hpp"

namespace cfck::detail {
namespace {

// Number of bytes of a control character that begins `text`: those of C0, DEL, and of C1 in UTF-8.
std::size_t control_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first == '\n' || first == '\t') return 0;
  if (first < 0x20 || first == 0x7f) return 1;
  if (first != 0xc2 || text.size() < 2) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  return second >= 0x80 && second < 0xa0 ? 2 : 0;
}

}  // namespace

std::string without_controls(std::string_view message) {
  std::string out;
  out.reserve(message.size());
  while (!message.empty()) {
    const std::size_t n_bytes = control_bytes(message);
    if (n_bytes == 0) {
      out += message[0];
    } else {
      out += escaped(message.substr(0, n_bytes));
    }
    message.remove_prefix(n_bytes == 0 ? 1 : n_bytes);
  }
  return out;
}

}  // namespace cfck::detail
