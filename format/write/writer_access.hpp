// What the library does with a Writer beyond its public functions.
#pragma once

#include <span>
#include <string_view>
#include <type_traits>

#include "cfck/writer.hpp"

namespace cfck {

struct WriterStart;

// A view of a tensor, which is added later.
struct BaseView {
  std::string_view name;
  const Shape* shape = nullptr;
  bool is_whole = false;  // it has all elements of the base in their order
};

// Lets update start a writer after an existing file and sync between data and index, and archives
// add what views share.
struct WriterAccess {
  // Calls `function` with the writer's state, unless it was moved from or an earlier call
  // failed.
  template <class Function>
  static std::invoke_result_t<Function, Writer::Impl&> call(Writer& writer, Function&& function);
  static Result<Writer> append(ByteSink& sink, EncodeOptions options, WriterStart start);
  static Result<void> decide_steps(std::span<Writer* const> writers);
  static Result<void> check_size(std::span<Writer* const> writers,
                                 std::span<const WriteSummary> summaries);
  static Result<void> finish_data(Writer& writer);
  static Result<WriteSummary> finish_index(Writer& writer);
  // Adds a tensor that `views`, which follow with add_alias(), share. As in Writer::add_tensors it
  // keeps a maximum error or target only if that is also theirs, and each of them has all of it;
  // else it stays lossless (LosslessReason::kSharedMemory).
  static Result<void> add_base(Writer& writer, std::string_view name, const TensorSource& tensor,
                               std::span<const BaseView> views);
};

}  // namespace cfck
