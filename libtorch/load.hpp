// Which tensors of a file go where.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cfck/torch.hpp"
#include "libtorch/tensors.hpp"

namespace cfck::libtorch {

Result<std::unique_ptr<TensorArchive>> open_archive(const std::string& path,
                                                    const LoadOptions& options);

// Collects what fits and what does not, before anything is changed.
struct Matching {
  std::vector<Target> targets;
  LoadReport report;
  std::vector<std::string> misfits;  // sentences about shapes, types and values

  void add(const NamedTensor& named, const ArchiveTensor& source);
};

// Error: kInvalidArgument, which says all that does not fit: misfits in any case, names unless they
// are tolerated.
Result<void> check(const Matching& matching, bool strict);

}  // namespace cfck::libtorch
