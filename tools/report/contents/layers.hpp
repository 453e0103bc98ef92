// Groups of tensors by their names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/report/contents/report_data.hpp"

namespace cfck::tools::report {

// Returns the beginning of a name up to its first number ("encoder.layer.3" of
// "encoder.layer.3.attention.query.weight"), or without its last part where there is none
// ("pooler.dense" of "pooler.dense.weight"). Parts are separated by dots or slashes.
std::string_view layer_of(std::string_view name);

// Returns the layers, the largest first, with their records, the largest first.
std::vector<Layer> group_layers(const std::vector<RecordReport>& records);

}  // namespace cfck::tools::report
