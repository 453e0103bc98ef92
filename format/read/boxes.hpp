// The arguments of reads: sizes, ranges and boxes of tensors, checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cfck/record.hpp"
#include "format/container/element_view.hpp"
#include "format/read/chunks/open_file.hpp"

namespace cfck::format {

// kInvalidArgument for a record.
Error wrong_call(std::string message, const std::string& record);

// kInvalidArgument unless `out` has the bytes of the values, and none of a file in memory.
Result<void> check_out(const OpenFile& file, const Record& record, std::uint64_t expected_bytes,
                       MutableBytes out);

// Returns the bytes of `count` elements from `first` on, which must not start inside a byte.
Result<std::uint64_t> range_bytes(const Record& record, std::uint64_t first, std::uint64_t count);

// Returns the shape of the box starts[i] <= index i < stops[i].
Result<Shape> box_shape(const Record& record, std::span<const std::uint64_t> starts,
                        std::span<const std::uint64_t> stops);

// Returns the view of the base that a box of `record` is.
ElementView box_view(const Record& record, std::span<const std::uint64_t> starts,
                     const Shape& shape);

// Returns the record of this file that was asked for, if it can be read.
Result<const Record*> own_readable(const OpenFile& file, const Record& record);

}  // namespace cfck::format
