#include "cfck/archive_writer.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "model/formats/archive_format.hpp"
#include "model/stateful_writer.hpp"

namespace cfck {

struct ArchiveWriterAccess {
  static Result<Writer*> encoder(ArchiveWriter& writer) { return writer.encoder(); }
};

namespace {

// The states that the writers of all formats have: after an error or finish() no call reaches the
// format, and no exception leaves it.
class StatefulWriter final : public ArchiveWriter {
 public:
  StatefulWriter(std::unique_ptr<ArchiveWriter> format, ByteSink* sink)
      : format_(std::move(format)), sink_(sink) {
    if (sink_ != nullptr) sink_->writer_began();
  }

  Result<void> add(std::string_view name, const TensorSource& tensor) override {
    return guarded([&] { return format_->add(name, tensor); });
  }
  Result<void> add(std::string_view name, const TensorView& tensor) override {
    return guarded([&] { return format_->add(name, tensor); });
  }
  Result<bool> tie(std::string_view name, std::string_view base) override {
    return guarded([&] { return format_->tie(name, base); });
  }
  Result<void> set_metadata(std::string_view key, std::string_view value) override {
    return guarded([&] { return format_->set_metadata(key, value); });
  }
  Result<void> attach(std::string_view name, ByteView bytes) override {
    return guarded([&] { return format_->attach(name, bytes); });
  }
  Result<void> add_archive(const TensorArchive& archive) override {
    return guarded([&] { return format_->add_archive(archive); });
  }
  void set_progress(WriteProgress progress) override { format_->set_progress(std::move(progress)); }
  void set_search_progress(SearchProgress progress) override {
    format_->set_search_progress(std::move(progress));
  }
  Result<ArchiveSummary> finish() override {
    auto summary = guarded([&] { return format_->finish(); });
    if (summary && sink_ != nullptr) sink_->writer_finished();
    finished_ = true;
    return summary;
  }

 private:
  Result<Writer*> encoder() override {
    return guarded([&] { return ArchiveWriterAccess::encoder(*format_); });
  }

  // Calls `function` unless an earlier call failed, and remembers its error.
  template <class Function>
  std::invoke_result_t<Function> guarded(Function&& function) {
    if (error_) return copy_of(*error_);
    if (finished_) {
      return run_guarded(
          [] { return invalid_argument("the writer is finished; create another one"); });
    }
    auto result = run_guarded(std::forward<Function>(function));
    if (!result) error_ = copy_of(result.error());
    return result;
  }

  std::unique_ptr<ArchiveWriter> format_;
  ByteSink* sink_;
  std::optional<Error> error_;
  bool finished_ = false;
};

// Error: kInvalidArgument for nullptr and twins.
Result<void> check_different(std::span<ArchiveWriter* const> writers) {
  for (auto writer = writers.begin(); writer != writers.end(); ++writer) {
    if (*writer == nullptr) {
      return invalid_argument("one of the writers to finish is nullptr");
    }
    if (std::find(writers.begin(), writer, *writer) != writer) {
      return invalid_argument("the same writer was passed twice; pass each once");
    }
  }
  return {};
}

}  // namespace

std::unique_ptr<ArchiveWriter> model::with_states(std::unique_ptr<ArchiveWriter> format,
                                                  ByteSink* sink) {
  return std::make_unique<StatefulWriter>(std::move(format), sink);
}

ArchiveWriter::~ArchiveWriter() = default;

Result<std::unique_ptr<ArchiveWriter>> ArchiveWriter::create(std::string_view format,
                                                             ByteSink& sink,
                                                             const EncodeOptions& options) {
  return run_guarded([&]() -> Result<std::unique_ptr<ArchiveWriter>> {
    const auto* const known = model::find_format(format);
    if (known == nullptr || known->create == nullptr) {
      return unsupported("files of the format '" + escaped(format) + "' cannot be written");
    }
    CFCK_TRY_ASSIGN(auto writer, known->create(sink, options));
    CFCK_TRY_ASSIGN(const Writer* const encoder, ArchiveWriterAccess::encoder(*writer));
    return model::with_states(std::move(writer), encoder == nullptr ? &sink : nullptr);
  });
}

Result<std::vector<ArchiveSummary>> ArchiveWriter::finish_together(
    std::span<ArchiveWriter* const> writers) {
  return run_guarded([&]() -> Result<std::vector<ArchiveSummary>> {
    CFCK_TRY(check_different(writers));
    std::vector<Writer*> of_writers;  // nullptr in formats without
    std::vector<Writer*> encoders;
    for (ArchiveWriter* const writer : writers) {
      CFCK_TRY_ASSIGN(Writer* const encoder, writer->encoder());
      of_writers.push_back(encoder);
      if (encoder != nullptr) encoders.push_back(encoder);
    }
    CFCK_TRY_ASSIGN(std::vector<WriteSummary> encoded, cfck::finish_together(encoders));
    std::vector<ArchiveSummary> summaries(writers.size());
    auto next = encoded.begin();
    for (std::size_t i = 0; i < writers.size(); ++i) {
      if (of_writers[i] != nullptr) {
        static_cast<WriteSummary&>(summaries[i]) = std::move(*next++);
      } else {
        CFCK_TRY_ASSIGN(summaries[i], writers[i]->finish());
      }
    }
    return summaries;
  });
}

}  // namespace cfck
