// What is lost when an archive is written in a format that cannot hold all of it.
#pragma once

#include <string>
#include <vector>

#include "cfck/archive.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::model {

struct LeftOut {
  // A checkpoint with containers or plain values beside its tensors, which only a .cfck file holds.
  bool containers = false;
  // All else, as a part of a sentence: "3 attributes", "the members config.json, metadata.json".
  std::vector<std::string> contents;
};

// Tensors are not what this is about: a format that cannot have one refuses it.
LeftOut left_out(const TensorArchive& archive, const ArchiveFormat& to);

}  // namespace cfck::model
