// What writers share whose formats list all tensors before the first one's bytes.
#pragma once

#include <string_view>
#include <utility>

#include "cfck/archive_writer.hpp"
#include "model/collected_archive.hpp"

namespace cfck::model {

// Collects everything, for finish() to write. with_states() keeps states and catches exceptions.
class CollectingWriter : public ArchiveWriter {
 public:
  Result<void> add(std::string_view name, const TensorSource& tensor) override {
    return contents_.add(name, tensor);
  }
  Result<void> add(std::string_view name, const TensorView& tensor) override {
    return contents_.add(name, tensor);
  }
  Result<bool> tie(std::string_view name, std::string_view base) override {
    return contents_.tie(name, base);
  }
  Result<void> set_metadata(std::string_view key, std::string_view value) override {
    return contents_.set_metadata(key, value);
  }
  Result<void> attach(std::string_view name, ByteView bytes) override {
    return contents_.attach(name, bytes);
  }
  Result<void> add_archive(const TensorArchive& archive) override {
    return contents_.add_archive(archive);
  }
  void set_progress(WriteProgress progress) override { progress_ = std::move(progress); }
  void set_search_progress(SearchProgress) override {}

 protected:
  // Counts the tensors and their bytes. To be called once contents_ is finished.
  ArchiveSummary counted() const {
    ArchiveSummary summary;
    for (const ArchiveTensor& tensor : contents_.tensors()) {
      if (tensor.hidden) continue;
      summary.n_records += 1;
      summary.decoded_bytes += tensor.n_bytes;
    }
    return summary;
  }

  CollectedArchive contents_;
  WriteProgress progress_;
};

}  // namespace cfck::model
