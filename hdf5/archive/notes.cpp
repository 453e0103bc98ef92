#include "hdf5/archive/notes.hpp"

#include <algorithm>
#include <string_view>

#include "base/text.hpp"

namespace cfck::hdf5 {
namespace {

constexpr std::size_t kMaxNamed = 5;

constexpr std::string_view kCannotBeKept =
    " cannot be kept, since the types are references, sequences of varying length or the like: ";

// Returns "2 attributes cannot be kept, ...: a, b", with the names of the first.
template <class List, class NameOf>
std::string note(const List& list, std::string_view one, std::string_view many,
                 std::string_view what, const NameOf& name_of) {
  std::string text = std::to_string(list.size());
  text.append(" ").append(list.size() == 1 ? one : many).append(what);
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

// Adds sentences about the datasets that are no tensors and about the attributes of a file of which
// the tensors alone are taken.
void add_others(const Listing& listing, std::vector<std::string>& notes) {
  std::vector<std::string> values;
  std::size_t n_attributes = 0;
  for (const Json& object : listing.structure.at("objects")) {
    if (object.contains("value")) values.push_back(object["value"].get<std::string>());
    if (object.contains("attributes")) n_attributes += object["attributes"].size();
  }
  if (!values.empty()) {
    notes.push_back(note(values, "dataset that is no tensor", "datasets that are no tensors",
                         values.size() == 1 ? " was left out: " : " were left out: ", &quoted));
  }
  if (n_attributes > 0) {
    notes.push_back(std::to_string(n_attributes) +
                    (n_attributes == 1 ? " attribute was left out" : " attributes were left out"));
  }
}

}  // namespace

std::vector<std::string> notes_of(const Listing& listing, bool only_tensors) {
  std::vector<std::string> notes;
  if (!listing.left_out.empty()) {
    notes.push_back(note(listing.left_out, "attribute", "attributes", kCannotBeKept,
                         [](const LeftOutAttribute& left_out) {
                           const auto& [object, name] = left_out;
                           return quoted(name) + " of " +
                                  (object.empty() ? "the root" : quoted(object));
                         }));
  }
  if (!listing.lost.empty()) {
    notes.push_back(note(listing.lost, "object that is no tensor", "objects that are no tensors",
                         kCannotBeKept, &quoted));
  }
  if (only_tensors) add_others(listing, notes);
  return notes;
}

}  // namespace cfck::hdf5
