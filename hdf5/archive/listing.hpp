// The objects of an HDF5 file: its datasets as tensors, and all else as a description that gives
// the same file again (the attachment "hdf5.structure", docs/formats.md).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cfck/record.hpp"
#include "cfck/tensor.hpp"
#include "hdf5/archive/values.hpp"

namespace cfck::hdf5 {

inline constexpr std::string_view kStructureAttachment = "hdf5.structure";
// The key of metadata that names attributes which are not kept.
inline constexpr std::string_view kLeftOutKey = "hdf5.left_out";
inline constexpr std::size_t kMaxObjects = std::size_t{1} << 20;
inline constexpr std::size_t kMaxPathBytes = 65535;

struct ListedDataset {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;
  std::uint64_t stored_bytes = 0;
  // The place in the file of elements that are stored as a tensor has them.
  std::optional<std::uint64_t> offset_bytes;
  std::vector<std::uint64_t> chunk_shape;  // empty unless stored in chunks
  std::optional<std::size_t> tied_to;      // the first name of the same dataset, in the list
  // One element of a dataset that was never written, as a tensor has it.
  std::optional<std::vector<std::uint8_t>> fill;
};

// An attribute that cannot be kept: the path of its object, and its name.
using LeftOutAttribute = std::pair<std::string, std::string>;

struct Listing {
  std::vector<ListedDataset> datasets;  // in the order of the file
  Json structure;                       // {"version", "objects"}
  Metadata metadata;                    // plain strings among the attributes of the root
  std::vector<LeftOutAttribute> left_out;
  std::vector<std::string> lost;  // datasets that cannot be kept
};

}  // namespace cfck::hdf5
