#include "tools/convert/file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/files/access.hpp"
#include "base/files/stamp.hpp"
#include "base/text.hpp"
#include "cfck/archive.hpp"
#include "cfck/archive_writer.hpp"
#include "cfck/io.hpp"
#include "model/folder/converted_folder.hpp"
#include "model/folder/model_files.hpp"
#include "tools/convert/compare/comparing_sink.hpp"
#include "tools/convert/compare/tensor_comparison.hpp"
#include "tools/measure/target_check.hpp"
#include "tools/output/console.hpp"
#include "tools/output/interrupt.hpp"

namespace cfck::tools {
namespace {

// Counts the bytes, and passes them on if there is a `next`.
class CountingSink final : public ByteSink {
 public:
  explicit CountingSink(ByteSink* next) : next_(next) {}
  Result<void> write(ByteView bytes) override {
    n_bytes_ += bytes.size();
    return next_ != nullptr ? next_->write(bytes) : Result<void>();
  }
  void writer_began() noexcept override {
    if (next_ != nullptr) next_->writer_began();
  }
  void writer_finished() noexcept override {
    if (next_ != nullptr) next_->writer_finished();
  }
  std::uint64_t n_bytes() const { return n_bytes_; }

 private:
  ByteSink* next_;
  std::uint64_t n_bytes_ = 0;
};

// Notices that another process changes the input while it is read.
class ChangeGuard {
 public:
  explicit ChangeGuard(std::string path)
      : path_(std::move(path)), before_(detail::stamp_of(path_)) {}

  Result<void> check() const {
    if (!detail::was_written_to(path_, before_)) return {};
    return io_error("'" + escaped(path_) +
                    "' changed while it was read; the output was discarded. Try again when nothing "
                    "writes to it");
  }

 private:
  std::string path_;
  std::optional<detail::FileStamp> before_;
};

// Returns the file whose permissions the output gets: the input, or what a patch was made for, or
// the first of its folder.
std::string file_like(const std::string& input) {
  if (!is_folder(input)) return input;
  const auto found = model::model_files(input, {.finds_unread = false});
  return found ? found->paths.front() : std::string();
}

// A file that is being converted.
struct Work {
  Work(const FileConversion& given, ProgressBar& progress_bar)
      : conversion(given),
        bar(progress_bar),
        guard(given.input),
        files(system_files(),
              file_like(given.reading.base.empty() ? given.input : given.reading.base)) {}

  const FileConversion& conversion;
  ProgressBar& bar;
  const ChangeGuard guard;
  std::vector<ChangeGuard> part_guards;  // of the files of a folder, and of bases
  std::unique_ptr<TensorArchive> archive;
  FilesLike files;
  std::unique_ptr<AtomicFile> file;  // nullptr for a dry run
  std::unique_ptr<CountingSink> sink;
  std::unique_ptr<ArchiveWriter> writer;
  ConvertedFile result;

  const model::ArchiveFormat& to() const { return *result.to; }
};
using Works = std::vector<std::unique_ptr<Work>>;

bool go_on() { return interrupt_signal() == 0; }

std::string short_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Options for one thread: the writer spreads decoding over threads.
Result<ArchiveOptions> one_thread(const ReadingOptions& reading, bool only_tensors = false) {
  ArchiveOptions options;
  CFCK_TRY_ASSIGN(options.decode, reading.decode());
  options.decode.threads = 1;
  options.only_tensors = only_tensors;
  return options;
}

// Adds to the error which of several files it is about.
Error naming(Error error, const Work& work) {
  return work.conversion.label.empty() ? error : with_path(std::move(error), work.conversion.label);
}

// Writes the archive in the other format again, into the sink.
Result<void> compare(Work& work, const TensorArchive& archive, std::string_view format,
                     ComparingSink& sink) {
  work.bar.start("checking " + short_name(work.conversion.output));
  EncodeOptions options;
  options.threads = work.conversion.encode.threads;
  CFCK_TRY_ASSIGN(const auto writer, ArchiveWriter::create(format, sink, options));
  writer->set_progress([&](std::uint64_t done_bytes, std::string_view) {
    work.bar.update(done_bytes, 0);
    return go_on();
  });
  CFCK_TRY(writer->add_archive(archive));
  if (auto finished = writer->finish(); !finished) return std::move(finished).error();
  return sink.finish();
}

// `shown` is the file that the progress bar names.
Result<void> add_tensors(Work& work, const Work*& shown) {
  work.sink = std::make_unique<CountingSink>(work.file.get());
  CFCK_TRY_ASSIGN(work.writer,
                  ArchiveWriter::create(work.to().name, *work.sink, work.conversion.encode));
  work.writer->set_progress([&](std::uint64_t done_bytes, std::string_view) {
    if (std::exchange(shown, &work) != &work) work.bar.start(short_name(work.conversion.input));
    work.bar.update(done_bytes, work.to().encodes ? work.sink->n_bytes() : 0);
    return go_on();
  });
  work.writer->set_search_progress([&](const StepSearch& search) {
    if (std::exchange(shown, &work) != &work) work.bar.start(short_name(work.conversion.input));
    work.bar.preparing(search.trial == 0 ? std::string("measuring values")
                                         : fmt::format("finding steps, trial {}", search.trial),
                       search.done_bytes, search.total_bytes);
    return go_on();
  });
  CFCK_TRY(work.writer->add_archive(*work.archive));
  if (!work.conversion.shard_index.empty()) {
    CFCK_TRY(work.writer->attach(model::kShardIndexAttachment,
                                 std::as_bytes(std::span(work.conversion.shard_index))));
  }
  return {};
}

void take_summary(Work& work, ArchiveSummary summary) {
  take_summary(work.result, *work.archive, std::move(summary),
               !work.conversion.encode.rules.empty());
  work.result.output_bytes = work.sink->n_bytes();
}

const model::ArchiveFormat& format_from(const Work& work) {
  return *model::find_format(work.archive->files().front().format);
}

// True where the file that is converted cannot be had again byte for byte.
bool is_compared_by_tensors(const Work& work) {
  const model::ArchiveFormat& from = format_from(work);
  return !from.restores_bytes || work.archive->files().size() > 1 || &from == &work.to();
}

// Compares the input with its own checksums, where it has any.
Result<void> check_input(Work& work) {
  const std::string what = "comparing the checksums of " + short_name(work.conversion.input);
  const std::uint64_t total_bytes = work.archive->files().front().n_bytes;
  const auto report =
      work.archive->verify(VerifyLevel::kHashes, [&](std::uint64_t done_bytes, std::string_view) {
        work.bar.preparing(what, done_bytes, total_bytes);
        return go_on();
      });
  if (!report) {
    return report.error().code == ErrorCode::kUnsupported ? Result<void>() : report.error();
  }
  return report->problems.empty() ? Result<void>() : report->problems.front();
}

// Compares the written file with the input; the totals are those of the plain target, where they
// are known.
Result<std::optional<TargetTotals>> verify(Work& work) {
  CFCK_TRY_ASSIGN(auto read_back, work.file->read_back());
  CFCK_TRY_ASSIGN(ArchiveOptions how, one_thread({}));
  how.decode.limits.max_decoded_bytes = UINT64_MAX;  // the values are those of the input
  how.decode.base = work.conversion.encode.base;
  CFCK_TRY_ASSIGN(const auto written, TensorArchive::open(std::move(read_back), how));
  const bool encodes = work.to().encodes;
  if (is_compared_by_tensors(work)) {
    work.bar.start("checking " + short_name(work.conversion.output));
    CFCK_TRY_ASSIGN(std::optional<TargetTotals> of_tensors,
                    compare_tensors(*work.archive, *written, work.result.kept_lossless,
                                    [&](std::uint64_t done_bytes) {
                                      work.bar.update(done_bytes, 0);
                                      return go_on();
                                    }));
    if (of_tensors) of_tensors->file_bytes = work.result.output_bytes;
    return of_tensors;
  }
  const TensorArchive& plain = encodes ? *work.archive : *written;
  const TensorArchive& encoded = encodes ? *written : *work.archive;
  ComparingSink comparison(*plain.files().front().source);
  if (encodes) comparison.expect_losses(plain, encoded, work.result.kept_lossless);
  CFCK_TRY(compare(work, encoded, plain.files().front().format, comparison));
  TargetTotals totals = comparison.totals();
  totals.file_bytes = work.result.output_bytes;
  return std::optional(totals);
}

// Plain targets apply to all files together.
Result<std::vector<ArchiveSummary>> finish_all(const Works& works) {
  std::vector<ArchiveWriter*> writers;
  for (const auto& work : works) writers.push_back(work->writer.get());
  if (works.front()->to().encodes) return ArchiveWriter::finish_together(writers);
  std::vector<ArchiveSummary> summaries;
  for (const auto& work : works) {
    auto summary = work->writer->finish();
    if (!summary) return naming(std::move(summary).error(), *work);
    summaries.push_back(std::move(*summary));
  }
  return summaries;
}

Result<void> convert(const Works& works) {
  const Work* shown = nullptr;
  for (const auto& work : works) {
    if (auto added = add_tensors(*work, shown); !added) return naming(added.error(), *work);
  }
  CFCK_TRY_ASSIGN(std::vector<ArchiveSummary> summaries, finish_all(works));
  TargetTotals totals;
  bool is_verified = false;
  for (std::size_t i = 0; i < works.size(); ++i) {
    Work& work = *works[i];
    take_summary(work, std::move(summaries[i]));
    if (!work.conversion.verify || work.file == nullptr) continue;
    const auto verified = verify(work);
    if (!verified) return naming(verified.error(), work);
    if (!*verified) continue;
    totals.add(**verified);
    is_verified = true;
  }
  CFCK_TRY_ASSIGN(const auto target, error_target(works.front()->conversion.encode));
  return is_verified && target ? check_target(*target, totals) : Result<void>();
}

}  // namespace

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

void take_summary(ConvertedFile& result, const TensorArchive& archive, ArchiveSummary summary,
                  bool has_rules) {
  for (const ArchiveTensor& tensor : archive.tensors()) {
    if (tensor.hidden) continue;
    result.n_elems += tensor.n_elems;
    if (has_rules) result.names.push_back(tensor.name);
  }
  for (const LossyTensor& tensor : summary.lossy) {
    result.loss.add(tensor.error, tensor.n_elems, tensor.stored_bytes);
  }
  for (const LossyTensor& tensor : summary.lossy) {
    const ArchiveTensor* const before = archive.find(tensor.name);
    const bool was_lossy = before != nullptr && before->record != nullptr && before->record->error;
    if (was_lossy) ++result.n_lossy_before;
  }
  result.kept_lossless = std::move(summary.kept_lossless);
  result.lossy = std::move(summary.lossy);
  result.unmatched_rules = std::move(summary.unmatched_rules);
  result.tied = std::move(summary.metadata_names);
  result.n_records = summary.n_records;
  result.decoded_bytes = summary.decoded_bytes;
  result.stored_bytes = summary.stored_bytes;
  const auto notes = archive.notes();
  result.notes.assign(notes.begin(), notes.end());
  result.left_out = model::left_out(archive, *result.to);
  if (result.to->encodes) return;
  // Stored bytes and errors are those of the input.
  result.stored_bytes = 0;
  for (const ArchiveTensor& tensor : archive.tensors()) {
    result.stored_bytes += tensor.stored_bytes;
    if (tensor.hidden || tensor.record == nullptr || !tensor.record->error) continue;
    result.loss.add(*tensor.record->error, tensor.n_elems, tensor.stored_bytes);
  }
}

Result<std::unique_ptr<TensorArchive>> open_input(const std::string& path,
                                                  const ArchiveOptions& options) {
  return is_folder(path) ? TensorArchive::open(path, options)
                         : model::open_archive_file(path, options);
}

Result<ConversionInput> probe_input(const std::string& path, const ReadingOptions& reading,
                                    bool only_tensors) {
  CFCK_TRY_ASSIGN(const ArchiveOptions how, one_thread(reading, only_tensors));
  CFCK_TRY_ASSIGN(const auto archive, open_input(path, how));
  ConversionInput input;
  input.format = model::find_format(archive->files().front().format);
  for (const ArchiveTensor& tensor : archive->tensors()) {
    if (!tensor.hidden) input.decoded_bytes += tensor.n_bytes;
  }
  for (const ArchiveFile& file : archive->files()) input.files.push_back(file.path);
  return input;
}

namespace {

Result<void> open_files(Work& work) {
  const FileConversion& conversion = work.conversion;
  CFCK_TRY_ASSIGN(const ArchiveOptions how,
                  one_thread(conversion.reading, conversion.only_tensors));
  CFCK_TRY_ASSIGN(work.archive, open_input(conversion.input, how));
  for (const ArchiveFile& file : work.archive->files()) {
    work.result.input_bytes += file.n_bytes;
    work.result.input_files.push_back(is_folder(conversion.input) ? file.path : conversion.input);
    if (is_folder(conversion.input)) work.part_guards.emplace_back(file.path);
  }
  for (const std::string& base : conversion.bases) {
    if (!base.empty() && !is_folder(base)) work.part_guards.emplace_back(base);
  }
  if (!conversion.dry_run) {
    AtomicFile::Options options;
    options.replace_existing = conversion.replace_existing;
    CFCK_TRY_ASSIGN(work.file, AtomicFile::create(conversion.output, options, work.files));
  }
  work.bar.start(short_name(conversion.input));
  work.result.input = conversion.input;
  work.result.output = conversion.output;
  work.result.to =
      conversion.to != nullptr ? conversion.to : &model::counterpart(format_from(work));
  if (conversion.verify && is_compared_by_tensors(work)) return check_input(work);
  return {};
}

Result<void> commit(Work& work) {
  // In a .cfck file every byte has a hash, and updates do not change the opened file.
  if (work.to().encodes && work.part_guards.empty()) CFCK_TRY(work.guard.check());
  for (const ChangeGuard& guard : work.part_guards) CFCK_TRY(guard.check());
  if (!go_on()) return cancelled();
  return work.file ? work.file->commit() : Result<void>();
}

}  // namespace

Result<std::vector<ConvertedFile>> convert_files(std::span<const FileConversion> conversions,
                                                 ProgressBar& bar) {
  Works works;
  for (const FileConversion& conversion : conversions) {
    works.push_back(std::make_unique<Work>(conversion, bar));
    if (auto opened = open_files(*works.back()); !opened) {
      return naming(opened.error(), *works.back());
    }
  }
  CFCK_TRY(convert(works));
  std::vector<ConvertedFile> files;
  for (const auto& work : works) {
    if (auto committed = commit(*work); !committed) return naming(committed.error(), *work);
    files.push_back(std::move(work->result));
  }
  return files;
}

}  // namespace cfck::tools
