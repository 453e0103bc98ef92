#include "hdf5/archive/notes.hpp"

#include <algorithm>
#include <string_view>

#include "base/text.hpp"

namespace cfck::hdf5 {
namespace {

constexpr std::size_t kMaxNamed = 5;

// Returns "2 attributes cannot be kept, ...: a, b", with the names of the first.
template <class List, class NameOf>
std::string note(const List& list, std::string_view one, std::string_view many,
                 const NameOf& name_of) {
  std::string text = std::to_string(list.size());
  text.append(" ").append(list.size() == 1 ? one : many);
  text.append(
      " cannot be kept, since the types are references, sequences of varying length or the like: ");
  const std::size_t n_named = std::min(list.size(), kMaxNamed);
  for (std::size_t i = 0; i < n_named; ++i) {
    text.append(i == 0 ? "" : ", ").append(name_of(list[i]));
  }
  if (list.size() > n_named) {
    text.append(" and ").append(std::to_string(list.size() - n_named)).append(" more");
  }
  return text;
}

std::string quoted(const std::string& name) { return "'" + escaped(name) + "'"; }

}  // namespace

std::vector<std::string> notes_of(const Listing& listing) {
  std::vector<std::string> notes;
  if (!listing.left_out.empty()) {
    notes.push_back(
        note(listing.left_out, "attribute", "attributes", [](const LeftOutAttribute& left_out) {
          const auto& [object, name] = left_out;
          return quoted(name) + " of " + (object.empty() ? "the root" : quoted(object));
        }));
  }
  if (!listing.lost.empty()) {
    notes.push_back(
        note(listing.lost, "object that is no tensor", "objects that are no tensors", &quoted));
  }
  return notes;
}

}  // namespace cfck::hdf5
