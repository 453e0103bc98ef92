// Memory that must not be that of something else.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/names/detail.hpp"
#include "cfck/io.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"

namespace cfck::detail {

inline bool overlap(ByteView a, ByteView b) noexcept {
  // Of pointers into different objects only std::less knows which comes first.
  const std::less<const std::byte*> is_before;
  return !a.empty() && !b.empty() && is_before(a.data(), b.data() + b.size()) &&
         is_before(b.data(), a.data() + a.size());
}

// Refuses memory for a result where it overlaps what is still to be read for that result, which
// would be changed meanwhile. `read` names it, as "the tensor". Errors: kInvalidArgument.
inline Result<void> check_apart(ByteView out, ByteView in, const char* read) {
  if (overlap(out, in)) {
    return invalid_argument("the memory for the result overlaps " + std::string(read) +
                            ", which would change while it is read; give other memory");
  }
  return {};
}

// The same for the values of a record.
inline Result<void> check_apart(ByteView out, ByteView in, const char* read,
                                const std::string& record) {
  auto apart = check_apart(out, in, read);
  return apart ? Result<void>() : std::move(apart).error().in_record(record);
}

// The same for a record that is read from a source in memory.
inline Result<void> check_apart(ByteView out, const ByteSource& source, const std::string& record) {
  return check_apart(out, source.mapped(), "the file", record);
}

}  // namespace cfck::detail
