#include "interop/numpy/writer.hpp"

#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "interop/numpy/npy_header.hpp"
#include "interop/stream/tensor_stream.hpp"
#include "interop/zip/directory.hpp"
#include "interop/zip/sink.hpp"
#include "model/collecting_writer.hpp"

namespace cfck::interop {
namespace {

constexpr std::size_t kMaxNameBytes = 65535;

// All names and sizes come before the first array.
class NumpyWriter final : public model::CollectingWriter {
 public:
  NumpyWriter(ByteSink& sink, unsigned threads, bool is_zip)
      : sink_(sink), threads_(threads), is_zip_(is_zip) {}

  Result<ArchiveSummary> finish() override {
    CFCK_TRY(contents_.finish());
    for (const ArchiveTensor& tensor : contents_.tensors()) {
      if (tensor.hidden) continue;
      auto header = npy_header(tensor.dtype, tensor.shape);
      if (header && !header->stand_in_for.empty()) {
        header = unsupported("numpy has no dtype " + header->stand_in_for +
                             "; write a safetensors file, or convert the tensor first");
      }
      if (!header) return std::move(header).error().in_record(tensor.name);
      headers_.push_back(std::move(header->bytes));
      written_.push_back(&tensor);
    }
    ArchiveSummary summary = counted();
    summary.stored_bytes = summary.decoded_bytes;
    CFCK_TRY_ASSIGN(summary.file_bytes, is_zip_ ? write_npz() : write_npy());
    return summary;
  }

 private:
  Result<std::uint64_t> write_npy() {
    if (written_.size() != 1) {
      return unsupported("a .npy file has one array, and there are " +
                         std::to_string(written_.size()) +
                         " tensors; write a .npz file, or one tensor with `cfck extract`");
    }
    CFCK_TRY(write_arrays(sink_));
    return headers_.front().size() + written_.front()->n_bytes;
  }
  Result<std::uint64_t> write_npz() {
    std::vector<ZipItem> items;
    for (std::size_t i = 0; i < written_.size(); ++i) {
      const std::string name = written_[i]->name + ".npy";
      if (name.size() > kMaxNameBytes || !is_safe_member_name(name)) {
        return unsupported(
                   "zip files have no member of this name, which is empty, too long, or leaves the "
                   "folder in which the file is unpacked; rename the tensor")
            .in_record(written_[i]->name);
      }
      items.push_back({name, headers_[i].size() + written_[i]->n_bytes});
    }
    ZipSink zip(sink_, std::move(items));
    CFCK_TRY(write_arrays(zip));
    CFCK_TRY(zip.finish());
    return zip.file_bytes();
  }
  Result<void> write_arrays(ByteSink& sink) {
    std::vector<StreamedTensor> tensors;
    for (std::size_t i = 0; i < written_.size(); ++i) {
      tensors.push_back({written_[i], std::as_bytes(std::span(headers_[i]))});
    }
    return write_tensors(contents_, tensors, {}, sink, progress_, threads_);
  }

  ByteSink& sink_;
  unsigned threads_;
  bool is_zip_;
  std::vector<std::string> headers_;           // one for each of written_
  std::vector<const ArchiveTensor*> written_;  // in the order of the file
};

}  // namespace

Result<std::unique_ptr<ArchiveWriter>> create_npy_writer(ByteSink& sink,
                                                         const EncodeOptions& options) {
  return std::unique_ptr<ArchiveWriter>(
      std::make_unique<NumpyWriter>(sink, options.threads, false));
}

Result<std::unique_ptr<ArchiveWriter>> create_npz_writer(ByteSink& sink,
                                                         const EncodeOptions& options) {
  return std::unique_ptr<ArchiveWriter>(std::make_unique<NumpyWriter>(sink, options.threads, true));
}

}  // namespace cfck::interop
