// The state of a Writer. Included by the sources of Writer and update only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/run_guarded.hpp"
#include "cfck/writer.hpp"
#include "encode/rate/control.hpp"
#include "encode/record/encoder.hpp"
#include "encode/rules/encode_rules.hpp"
#include "format/write/duplicates.hpp"
#include "format/write/record_emitter.hpp"
#include "format/write/record_layout.hpp"
#include "format/write/sharing/alias_plan.hpp"
#include "format/write/writer_access.hpp"

namespace cfck {

// The start of a writer: an empty file, or the end of an existing one.
struct WriterStart {
  std::uint64_t offset_bytes = 0;
  std::uint64_t generation = 0;
  std::uint64_t previous_file_bytes = 0;
  format::Index index;             // records that stay
  format::MetadataFrame metadata;  // metadata that stay
};

struct Writer::Impl {
  Impl(ByteSink& sink, EncodeOptions encode_options, encode::EncodeRules encode_rules,
       WriterStart start);

  // Calls `function` unless an earlier call failed, and remembers its error.
  template <class Function>
  std::invoke_result_t<Function> guarded(Function&& function);

  // The location of the contiguous bytes of a tensor, and how to store them.
  struct Place {
    const ByteSource* source = nullptr;
    std::uint64_t offset_bytes = 0;
    encode::TensorChoice choice;
  };
  // Memory that several tensors share, as they see it.
  struct SharedMemory {
    std::uint32_t record = 0;  // that stores it
    std::uint64_t n_elems = 0;
    encode::TensorChoice choice;
  };

  Result<void> add_source(std::string_view name, const TensorSource& tensor);
  Result<void> add_source(std::string_view name, const TensorSource& tensor,
                          const encode::TensorChoice& choice);
  Result<void> add_base(std::string_view name, const TensorSource& tensor,
                        std::span<const BaseView> views);
  // The tensor in memory as a source, which the writer keeps.
  Result<TensorSource> source_in_memory(std::string_view name, const TensorView& tensor);
  Result<void> add_tensors(std::span<const StridedTensor> tensors);
  std::vector<SharedMemory> plan_memory(std::span<const StridedTensor> tensors,
                                        const format::AliasPlan& plan,
                                        std::span<const encode::TensorChoice> choices) const;
  Result<void> remember_bases(std::span<const StridedTensor> tensors, const format::AliasPlan& plan,
                              std::span<const SharedMemory> memory);
  Result<void> add_planned(const StridedTensor& tensor, const format::PlannedTensor& planned,
                           const encode::TensorChoice& choice, const SharedMemory& memory);
  Result<void> add_alias(std::string_view name, std::string_view base, std::uint64_t element_offset,
                         const Shape& shape, std::span<const std::uint64_t> strides);
  Result<bool> tie(std::string_view name, std::string_view base);
  Result<void> attach(std::string_view name, ByteView bytes);
  // Has the device encode tensors in its memory. Error: kInvalidArgument where tensors were added.
  Result<void> use_device(encode::DeviceEncoder& encoder);
  // Has the device look at tensors that will be added.
  Result<void> look_at(std::span<const TensorSource> tensors);
  Result<void> look_at_sources(std::span<const StridedTensor> tensors);
  // Decides the steps of tensors that wait for the last one, with one step for those of all writers
  // that the target reaches. Requires: equal targets.
  static Result<void> decide_steps(std::span<Impl* const> writers);
  // Encodes the tensors that waited for the last one.
  Result<void> encode_deferred();
  // Error: kInvalidArgument if encoding a tensor did not give the result of the trial of its step.
  Result<void> check_decided();
  Result<void> finish_data();
  Result<WriteSummary> finish_index();

  // Decides the step of a tensor that has its own target, or none.
  Result<void> decide_alone(std::uint32_t record, encode::EncodePlan& plan);
  // Decides the common step of those that wait for it, in all files.
  static Result<void> decide_together(std::span<Impl* const> writers);
  // Tells whoever asked for progress. Error: kCancelled.
  Result<void> report(const StepSearch& search);
  void set_progress(WriteProgress progress) noexcept;
  void apply(std::uint32_t record, encode::EncodePlan& plan, const encode::StepDecision& decision);
  // Returns the bytes of the files if those that wait for the step take `sizes`, and the others
  // `rest_sizes`.
  static Result<std::uint64_t> bytes_of_files(
      std::span<Impl* const> writers, std::span<const std::vector<encode::RecordSize>> rest_sizes,
      std::span<const encode::RecordSize> sizes);
  // Returns the bytes of the file if the deferred tensors take these sizes.
  Result<std::uint64_t> file_bytes(std::span<const encode::RecordSize> sizes) const;
  Result<void> write_attachments(format::RecordLayout& to,
                                 std::vector<format::StoredAttachment>& kept) const;

  Result<void> check_name(std::string_view name) const;
  // Appends an entry for the record; the tensor has been checked.
  Result<std::uint32_t> push(std::string_view name, bool hidden, DType dtype, const Shape& shape);
  // Remembers the location of the record's bytes, and why it is lossless.
  Result<void> encode(std::uint32_t record, const Place& place);
  Result<std::uint32_t> push_hidden(DType dtype, const Shape& shape, const Place& place);
  // `is_whole`: the view has all elements of the base in their order.
  Result<void> push_alias(std::string_view name, std::uint32_t base, std::uint64_t element_offset,
                          const Shape& shape, std::vector<std::uint64_t> strides, bool is_whole,
                          DType dtype, const Place& place);
  // Called before the record's chunks are made.
  void align_chunks(std::uint32_t number, const encode::TensorChoice& choice);
  encode::EncodePlan plan_for(std::uint32_t record, const Place& place) const;
  // Notes that a record with this choice shares the bytes of another.
  void share(std::uint32_t record, const encode::TensorChoice& choice);
  Result<std::uint32_t> storage_of(std::uint32_t record, std::uint64_t& element_offset);
  Result<const ByteSource*> view_source(std::uint32_t base, std::uint64_t element_offset,
                                        const Shape& shape,
                                        const std::vector<std::uint64_t>& strides,
                                        std::uint64_t& offset_bytes);
  const ByteSource& keep(std::unique_ptr<ByteSource> source);
  const ByteSource& source_of(const StridedTensor& tensor);
  // Returns the facts that a device found about the tensor, or nullptr.
  const encode::DeviceTensor* known_on_device(const encode::EncodePlan& plan) const {
    return device == nullptr ? nullptr : device->find(plan);
  }
  Record& record(std::uint32_t number) { return layout.index().records[number].record; }
  // Returns the bytes of the file that only this record needs.
  std::uint64_t own_bytes(const format::StoredRecord& stored) const;

  // A record to be encoded when all have been added.
  struct Deferred {
    std::uint32_t record = 0;
    encode::EncodePlan plan;
    bool waits_for_step = false;
  };
  // The result of the trial of a step.
  struct Decided {
    std::uint32_t record = 0;
    std::uint64_t stored_bytes = 0;
    double rmse = 0;
  };
  struct PendingAttachment {
    std::vector<std::byte> frame;
    std::uint64_t decoded_bytes = 0;
  };

  ByteSink& output;
  const EncodeOptions options;
  encode::EncodeRules rules;
  const std::uint64_t generation;
  const std::uint64_t previous_file_bytes;
  format::RecordLayout layout;
  format::MetadataFrame metadata;
  std::map<std::string, PendingAttachment, std::less<>> pending;
  std::map<std::string, std::uint32_t> names;
  format::DuplicateFinder duplicates;
  std::unordered_map<std::uint32_t, Place> places;  // of the bytes of stored records
  std::vector<std::uint32_t> equal_to_base;         // records with the digest of their base
  std::vector<std::uint32_t> lossy_shares;          // that may be lossy, like their base
  std::vector<Deferred> deferred;                   // in order
  bool steps_decided = false;                       // of these
  std::vector<Decided> decided;
  std::vector<std::string> stored_apart;       // names, in order
  std::set<std::uint32_t> lossless_in_target;  // see KeptLossless::in_target
  double file_step = 0;                        // that of the file's target, once found
  WriteProgress write_progress;
  SearchProgress search_progress;
  std::vector<std::unique_ptr<ByteSource>> sources;
  encode::DeviceEncoder* device = nullptr;
  std::optional<Error> error;
  bool finished = false;
  format::RecordEmitter emitter;
  encode::RecordEncoder encoder;  // last: its tasks use the sources and the emitter
};

template <class Function>
std::invoke_result_t<Function> Writer::Impl::guarded(Function&& function) {
  if (error) {
    return copy_of(*error);
  }
  if (finished) {
    return run_guarded([] {
      return Error{
          ErrorCode::kInvalidArgument, "the writer is finished; create another one", {}, {}};
    });
  }
  auto result = run_guarded(std::forward<Function>(function));
  if (!result) {
    error = copy_of(result.error());
  }
  return result;
}

template <class Function>
std::invoke_result_t<Function, Writer::Impl&> WriterAccess::call(Writer& writer,
                                                                 Function&& function) {
  Writer::Impl* const impl = writer.impl_.get();
  if (impl == nullptr) {
    return run_guarded([] {
      return Error{ErrorCode::kInvalidArgument, "the writer was moved from", {}, {}};
    });
  }
  return impl->guarded([&] { return std::forward<Function>(function)(*impl); });
}

}  // namespace cfck
