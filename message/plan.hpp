// These functions lay out a message before its values are looked at.
#pragma once

#include <cstdint>

#include "cfck/message.hpp"
#include "encode/rules/tensor_choice.hpp"
#include "message/layout.hpp"

namespace cfck::message {

// Returns what the options ask for. Errors: kInvalidArgument, kUnsupported.
Result<encode::TensorChoice> choose(const MessageOptions& options, DType dtype, const Shape& shape);

// Returns the header of a raw message of this dtype and shape. Errors: kInvalidArgument,
// kLimitExceeded.
Result<Header> header_for(DType dtype, const Shape& shape);

// Returns the length of a raw message, which no other one exceeds.
std::uint64_t raw_message_bytes(const Header& header);

// Returns how many values each chunk of the message has.
std::uint64_t chunk_elems_for(const MessageOptions& options, DType dtype, const Shape& shape,
                              std::uint64_t n_elems, const encode::TensorChoice& choice);

}  // namespace cfck::message
