// The public headers alone fill namespace cfck; what is inside the library is in namespaces of its
// own, and what all of it stands on in cfck::detail.
#pragma once

namespace cfck {
namespace detail {}
// So that the code of the library names it without a prefix.
using namespace detail;
}  // namespace cfck
