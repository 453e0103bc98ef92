// Writes a .cfck file, one tensor after another, in one pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/export.hpp"
#include "cfck/io.hpp"
#include "cfck/options.hpp"
#include "cfck/record.hpp"

namespace cfck {

// A tensor that is read by range: `source` holds its contiguous bytes from
// `offset_bytes` on. It may be read several times, from several threads, until
// the writer has finished.
struct TensorSource {
  DType dtype = DType::kU8;
  Shape shape;
  const ByteSource* source = nullptr;
  std::uint64_t offset_bytes = 0;
};

struct KeptLossless {
  std::string name;
  LosslessReason reason = LosslessReason::kNotFloat;
  // Its values and bytes count towards the plain target all the same.
  bool in_target = false;
};

struct LossyTensor {
  std::string name;
  RecordError error;
  std::uint64_t n_elems = 0;
  std::uint64_t stored_bytes = 0;
  std::size_t n_dimensions = 0;
  // Root mean square of the finite values, as the reference of error.rmse; that of the base for
  // aliases.
  double rms = 0;
};

struct WriteSummary {
  std::uint64_t n_records = 0;      // named ones
  std::uint64_t decoded_bytes = 0;  // of all named records
  std::uint64_t stored_bytes = 0;   // of all records, as in Record::stored_bytes
  std::uint64_t file_bytes = 0;     // length of the file
  // The step found for plain targets: that of all tensors they reach, relative to the
  // calibration's, if there is one. 0: there were no targets.
  double step = 0;
  // Tensors that a maximum error or target was meant for and that are lossless all the same, in the
  // order of the file.
  std::vector<KeptLossless> kept_lossless;
  // Named records that are lossy, in the order of the file.
  std::vector<LossyTensor> lossy;
  // Tensors that share memory with others and were stored separately, since no strides describe
  // them within what is stored (see add_tensors), in the order added.
  std::vector<std::string> stored_apart;
  // Patterns of rules that matched no tensor, in the order given.
  std::vector<std::string> unmatched_rules;
};

// Called on the thread that adds, after each chunk, with the bytes of tensors encoded so far, and
// the name of the tensor. While steps of a target are searched the bytes stay as they are, and the
// name is that of the tensor that is tried. Returning false cancels: the call in progress fails
// with kCancelled.
using WriteProgress = std::function<bool(std::uint64_t done_bytes, std::string_view name)>;

// Progress of the search for the steps of a target: tensors are encoded again and again, and
// nothing of that is written. Each trial goes through its tensors twice.
struct StepSearch {
  unsigned trial = 0;             // 0: before the first one, values are measured
  std::uint64_t done_bytes = 0;   // bytes that this trial has processed
  std::uint64_t total_bytes = 0;  // bytes that it has to process
  std::string_view name;          // of the current tensor
};
// Called during a search in the place of WriteProgress, with the same meaning of its result.
using SearchProgress = std::function<bool(const StepSearch& search)>;

// Usage: create, add..., finish. Without finish() the output is not a valid file. Equal
// tensors are stored once. After an error the writer refuses everything but destruction,
// and so does one that was moved from. Not thread-safe; uses threads of its own inside a
// call.
class CFCK_API Writer {
 public:
  // `sink` must outlive the writer.
  static Result<Writer> create(ByteSink& sink, EncodeOptions options = {});
  ~Writer();
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;

  // Adds a record under `name` (unique, valid UTF-8, at most 65535 bytes), with the writer's
  // options, or with `options` alone, which lift exemptions as a rule does. The memory or source of
  // the tensor must stay valid and unchanged until finish() returns. With a plain target nothing is
  // encoded before that: steps depend on all tensors. Errors: kInvalidArgument, kLimitExceeded,
  // those of source and sink.
  Result<void> add(std::string_view name, const TensorView& tensor);
  Result<void> add(std::string_view name, const TensorView& tensor, const TensorOptions& options);
  Result<void> add(std::string_view name, const TensorSource& tensor);
  Result<void> add(std::string_view name, const TensorSource& tensor, const TensorOptions& options);

  // Adds tensors that may share memory. Those that share elements become one record and aliases of
  // it, and are loaded tied; those that are not contiguous are copied first, one at a time. Memory
  // between their elements is not stored; views that cannot be tied without it are stored
  // separately (WriteSummary::stored_apart), such as x[::2] and x[::3]. Records are written in the
  // order given. Each may have options of its own. Shared memory keeps a maximum error only if it
  // is that of all its tensors and each of them has all of it; else it stays lossless
  // (LosslessReason::kSharedMemory).
  Result<void> add_tensors(std::span<const StridedTensor> tensors);

  // Adds a view of the elements of record `base`, which was added before: element i0,
  // i1, ... is at element_offset + i0*strides[0] + ... A base that was added with a
  // maximum error can be tied only whole, and to a name with an equal one:
  // kInvalidArgument.
  Result<void> add_alias(std::string_view name, std::string_view base, std::uint64_t element_offset,
                         const Shape& shape, std::span<const std::uint64_t> strides);
  // Adds a second name for all of record `base`. Returns false, and adds nothing, if no tensor can
  // have this name, or options ask for another codec or error for it than for the base.
  Result<bool> tie(std::string_view name, std::string_view base);

  // Sets one entry of the user metadata, or a named byte string that is read only when asked for.
  // The last value of a key is kept. Names that start with "cfck." or "safetensors." are used by
  // cfck itself.
  Result<void> set_metadata(std::string_view key, std::string_view value);
  Result<void> attach(std::string_view name, ByteView bytes);

  void set_progress(WriteProgress progress);
  // finish_together() uses that of the first file with tensors.
  void set_search_progress(SearchProgress progress);

  // Writes what is pending, the index and the tail. The sink is not synced.
  Result<WriteSummary> finish();

 private:
  struct CFCK_LOCAL Impl;
  explicit Writer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  friend struct WriterAccess;  // update: starts a writer behind an existing file
};

// Finishes the files of one checkpoint, such as its shards, one after another. Their plain target,
// which must be equal, is for all of them together: the tensors that it reaches in any of them
// share one step, and `size` is the bytes of all files. Errors: those of finish(); then files that
// were finished before the one that failed should be dropped too.
CFCK_API Result<std::vector<WriteSummary>> finish_together(std::span<Writer* const> writers);

// Returns one sentence for each thing that is likely to be a mistake, without a full stop:
// - tensors, or all of them together, whose squared errors are above a tenth of their squares
//   (-10 dB), unless the options have a calibration, or learned steps of these tensors;
// - a psnr, which relates errors to the range of the values, where that left more than a hundredth
//   of the squares (-20 dB);
// - tensors of fewer than two dimensions that are lossy, if they have a name;
// - options that no tensor took, and rules that took none although other options did.
// `lossy` and `kept_lossless` are those of the WriteSummary, or of all files of a checkpoint, and
// `options` those that they were written with.
CFCK_API std::vector<std::string> loss_warnings(std::span<const LossyTensor> lossy,
                                                std::span<const KeptLossless> kept_lossless,
                                                const EncodeOptions& options);

}  // namespace cfck
