// Some of the tensors of an archive, as an archive.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/status.hpp"

namespace cfck::model {

// `indexes` are those of tensors in `archive`, ascending; what shares memory with a tensor of the
// part must come with it. The part has neither metadata nor attachments. `archive` must outlive it.
Result<std::unique_ptr<TensorArchive>> part_of(const TensorArchive& archive,
                                               std::span<const std::size_t> indexes);

}  // namespace cfck::model
