#include "message/plan.hpp"

#include <algorithm>
#include <string>

#include "encode/rules/encode_rules.hpp"

namespace cfck::message {
namespace {

TensorOptions tensor_options(const MessageOptions& options) {
  TensorOptions made;
  made.codec = options.codec;
  made.max_abs_error = options.max_abs_error;
  made.max_rel_error = options.max_rel_error;
  made.max_sigma_error = options.max_sigma_error;
  made.per_row = options.per_row;
  return made;
}

// Learned steps come with no other choice.
Result<void> check_alone(const MessageOptions& options) {
  const bool is_open =
      options.codec == CodecChoice::kAuto || options.codec == CodecChoice::kSpectral;
  const bool has_bound = options.max_abs_error || options.max_rel_error || options.max_sigma_error;
  if (!is_open || has_bound || options.per_row) {
    return invalid_argument(
        "learned steps are those of codec spectral, and no other codec or maximum error goes with "
        "them");
  }
  return {};
}

}  // namespace

Result<encode::TensorChoice> choose(const MessageOptions& options, DType dtype,
                                    const Shape& shape) {
  if (options.entropy != EntropyId::kZstd && options.entropy != EntropyId::kRans) {
    return invalid_argument("the entropy stage of a message is zstd or rans");
  }
  if (options.learned_steps) {
    CFCK_TRY(check_alone(options));
    CFCK_TRY_ASSIGN(encode::TensorChoice choice,
                    encode::EncodeRules::choose_learned("", dtype, shape, *options.learned_steps));
    // There is nothing to be found: the step is known.
    if (const auto open = choice.request->open_step()) {
      choice.request = choice.request->with_step(open->known);
    }
    return choice;
  }
  if (options.codec == CodecChoice::kSpectral) {
    return unsupported(
        "a message has codec spectral only with learned steps; take codec direct with a maximum "
        "error, or write a file");
  }
  EncodeOptions of_file;
  of_file.level = options.level;
  CFCK_TRY_ASSIGN(const encode::EncodeRules rules, encode::EncodeRules::create(of_file));
  return rules.choose("", dtype, shape, tensor_options(options));
}

Result<Header> header_for(DType dtype, const Shape& shape) {
  if (shape.size() > kMaxRank) {
    return invalid_argument("a message has at most 64 dimensions, and the tensor has " +
                            std::to_string(shape.size()));
  }
  Header header;
  header.dtype = dtype;
  header.rank = shape.size();
  std::copy(shape.begin(), shape.end(), header.dims.begin());
  CFCK_TRY_ASSIGN(header.n_elems, n_elems(shape));
  CFCK_TRY_ASSIGN(header.n_bytes, n_bytes(dtype, shape));
  return header;
}

std::uint64_t raw_message_bytes(const Header& header) {
  return header.size() + header.n_bytes + kHashBytes;
}

std::uint64_t chunk_elems_for(const MessageOptions& options, DType dtype, const Shape& shape,
                              std::uint64_t n_elems, const encode::TensorChoice& choice) {
  const std::uint64_t chunk_elems = codec::default_chunk_elems(dtype, shape, options.chunk_elems);
  return choice.request && n_elems > chunk_elems
             ? choice.request->align_chunks(dtype, shape, chunk_elems)
             : chunk_elems;
}

}  // namespace cfck::message
