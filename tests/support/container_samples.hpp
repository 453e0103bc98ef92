// Metadata and a tail that fit each other.
#pragma once

#include "cfck/version.hpp"
#include "format/container/container.hpp"

namespace cfck::format {

inline MetadataFrame sample_metadata() {
  return {{{"", "empty key"}, {"a", ""}, {"b", "text"}},
          {{"one", {16, 20}, 3, 9}, {"two", {36, 21}, 0, 10}}};
}

inline Tail sample_tail() {
  Tail tail;
  tail.minor = kFormatMinor;
  tail.metadata = {16, 20};
  tail.index = {36, 44};
  tail.file_bytes = 80 + kTailBytes;
  tail.index_hash[1] = 7;
  tail.metadata_hash[15] = 8;
  return tail;
}

}  // namespace cfck::format
