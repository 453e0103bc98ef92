#include "tools/convert/convert_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cfck/io.hpp"
#include "cfck/reader.hpp"
#include "cfck/safetensors.hpp"
#include "cfck/writer.hpp"
#include "format/update/checkpoint_skeleton.hpp"
#include "tools/convert/comparing_sink.hpp"
#include "tools/measure/target_check.hpp"
#include "tools/output/console.hpp"
#include "tools/output/interrupt.hpp"

namespace cfck::tools {
namespace {

// Counts what passes; without `next` that is all.
class CountingSink final : public ByteSink {
 public:
  explicit CountingSink(ByteSink* next) : next_(next) {}
  Result<void> write(ByteView bytes) override {
    n_bytes_ += bytes.size();
    return next_ != nullptr ? next_->write(bytes) : Result<void>();
  }
  std::uint64_t n_bytes() const { return n_bytes_; }

 private:
  ByteSink* next_;
  std::uint64_t n_bytes_ = 0;
};

// Notices that somebody else changes the input while it is read.
class ChangeGuard {
 public:
  explicit ChangeGuard(std::string path) : path_(std::move(path)), before_(state()) {}

  Result<void> check() const {
    const struct stat now = state();
    const bool same = now.st_dev == before_.st_dev && now.st_ino == before_.st_ino &&
                      now.st_size == before_.st_size &&
                      now.st_mtim.tv_sec == before_.st_mtim.tv_sec &&
                      now.st_mtim.tv_nsec == before_.st_mtim.tv_nsec;
    if (same) return {};
    return Error{ErrorCode::kIo,
                 "'" + escaped(path_) +
                     "' changed while it was read; the output is dropped. Try again when nobody "
                     "writes to it",
                 {},
                 {}};
  }

 private:
  struct stat state() const {
    struct stat info {};
    (void)::stat(path_.c_str(), &info);
    return info;
  }

  std::string path_;
  struct stat before_;
};

// A file on its way.
struct Work {
  Work(const FileConversion& given, ProgressBar& progress_bar)
      : conversion(given), bar(progress_bar), guard(given.input) {}

  const FileConversion& conversion;
  ProgressBar& bar;
  const ChangeGuard guard;
  std::unique_ptr<ByteSource> source;
  const model::ArchiveFormat* format = nullptr;
  std::unique_ptr<AtomicFile> file;  // nullptr for a dry run
  ConvertedFile result;
  // On the way to .cfck.
  SafetensorsHeader header;
  std::unique_ptr<CountingSink> sink;
  std::optional<Writer> writer;
};
using Works = std::vector<std::unique_ptr<Work>>;

bool go_on() { return interrupt_signal() == 0; }

std::string short_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// One thread: decoding is spread over threads by write_safetensors.
DecodeOptions one_thread(const Limits& limits) {
  DecodeOptions options;
  options.threads = 1;
  options.limits = limits;
  return options;
}

// Says which of several files the error is of.
Error naming(Error error, const Work& work) {
  return work.conversion.label.empty() ? error : with_path(std::move(error), work.conversion.label);
}

// Decodes all of `reader` and compares it with a safetensors file.
Result<void> compare(Work& work, const Reader& reader, ComparingSink& sink) {
  work.bar.start("checking " + short_name(work.conversion.output));
  const auto progress = [&](std::uint64_t done_bytes, std::string_view) {
    work.bar.update(done_bytes, 0);
    return go_on();
  };
  CFCK_TRY(write_safetensors(reader, sink, progress, work.conversion.encode.threads));
  return sink.finish();
}

// `shown` is the file that the bar is about.
Result<void> add_tensors(Work& work, const Work*& shown) {
  CFCK_TRY_ASSIGN(work.header, read_safetensors_header(*work.source));
  work.sink = std::make_unique<CountingSink>(work.file.get());
  CFCK_TRY_ASSIGN(Writer writer, Writer::create(*work.sink, work.conversion.encode));
  work.writer.emplace(std::move(writer));
  work.writer->set_progress([&](std::uint64_t done_bytes, std::string_view) {
    if (std::exchange(shown, &work) != &work) work.bar.start(short_name(work.conversion.input));
    work.bar.update(done_bytes, work.sink->n_bytes());
    return go_on();
  });
  work.writer->set_search_progress([&](const StepSearch& search) {
    if (std::exchange(shown, &work) != &work) work.bar.start(short_name(work.conversion.input));
    work.bar.preparing(search.trial == 0 ? std::string("measuring values")
                                         : fmt::format("finding steps, trial {}", search.trial),
                       search.done_bytes, search.total_bytes);
    return go_on();
  });
  CFCK_TRY(add_safetensors(*work.writer, *work.source, work.header));
  if (!work.conversion.shard_index.empty()) {
    CFCK_TRY(work.writer->attach(kShardIndexAttachment,
                                 std::as_bytes(std::span(work.conversion.shard_index))));
  }
  return {};
}

Result<void> take_summary(Work& work, WriteSummary summary) {
  for (const SafetensorsEntry& entry : work.header.entries) {
    CFCK_TRY_ASSIGN(const std::uint64_t count, n_elems(entry.shape));
    work.result.n_elems += count;
    if (!work.conversion.encode.rules.empty()) work.result.names.push_back(entry.name);
  }
  for (const SafetensorsTie& tie : work.header.ties) {
    CFCK_TRY_ASSIGN(const std::uint64_t count, n_elems(work.header.entries[tie.entry].shape));
    work.result.n_elems += count;
    if (!work.conversion.encode.rules.empty()) work.result.names.push_back(tie.name);
  }
  for (const LossyTensor& tensor : summary.lossy) {
    work.result.loss.add(tensor.error, tensor.n_elems, tensor.stored_bytes);
  }
  work.result.kept_lossless = std::move(summary.kept_lossless);
  work.result.unmatched_rules = std::move(summary.unmatched_rules);
  work.result.n_records = summary.n_records;
  work.result.decoded_bytes = summary.decoded_bytes;
  work.result.stored_bytes = summary.stored_bytes;
  work.result.output_bytes = work.sink->n_bytes();
  return {};
}

// Decodes what was written; the totals are those of the plain target.
Result<TargetTotals> verify_cfck(Work& work) {
  CFCK_TRY_ASSIGN(const auto written, work.file->read_back());
  Limits limits;
  limits.max_decoded_bytes = UINT64_MAX;  // the values are those of the input
  CFCK_TRY_ASSIGN(const Reader reader, Reader::open(*written, one_thread(limits)));
  ComparingSink comparison(*work.source);
  comparison.expect_losses(work.header, reader, work.result.kept_lossless);
  CFCK_TRY(compare(work, reader, comparison));
  TargetTotals totals = comparison.totals();
  totals.file_bytes = work.result.output_bytes;
  return totals;
}

// Plain targets hold for all files together.
Result<void> to_cfck(const Works& works) {
  const Work* shown = nullptr;
  std::vector<Writer*> writers;
  for (const auto& work : works) {
    if (auto added = add_tensors(*work, shown); !added) return naming(added.error(), *work);
    writers.push_back(&*work->writer);
  }
  CFCK_TRY_ASSIGN(std::vector<WriteSummary> summaries, finish_together(writers));
  TargetTotals totals;
  bool is_verified = false;
  for (std::size_t i = 0; i < works.size(); ++i) {
    Work& work = *works[i];
    CFCK_TRY(take_summary(work, std::move(summaries[i])));
    if (!work.conversion.verify || work.file == nullptr) continue;
    const auto verified = verify_cfck(work);
    if (!verified) return naming(verified.error(), work);
    totals.add(*verified);
    is_verified = true;
  }
  CFCK_TRY_ASSIGN(const auto target, error_target(works.front()->conversion.encode));
  return is_verified && target ? check_target(*target, totals) : Result<void>();
}

Result<void> to_safetensors(Work& work) {
  CFCK_TRY_ASSIGN(const Reader reader,
                  Reader::open(*work.source, one_thread(work.conversion.limits)));
  CFCK_TRY_ASSIGN(const SafetensorsHeader header, safetensors_header_for(reader));
  for (const SafetensorsTie& tie : header.ties) work.result.tied.push_back(tie.name);
  work.result.loses_containers = format::has_skeleton(reader);
  CountingSink sink(work.file.get());
  const auto progress = [&](std::uint64_t done_bytes, std::string_view) {
    work.bar.update(done_bytes, 0);
    return go_on();
  };
  CFCK_TRY(write_safetensors(reader, sink, progress, work.conversion.encode.threads));
  for (const Record& record : reader.records()) {
    work.result.stored_bytes += record.stored_bytes;
    if (record.hidden) continue;
    work.result.n_records += 1;
    work.result.n_elems += record.n_elems;
    work.result.decoded_bytes += record.decoded_bytes;
    if (record.error) work.result.loss.add(*record.error, record.n_elems, record.stored_bytes);
  }
  work.result.output_bytes = sink.n_bytes();
  if (!work.conversion.verify || work.file == nullptr) return {};
  CFCK_TRY_ASSIGN(const auto written, work.file->read_back());
  CFCK_TRY(read_safetensors_header(*written));
  ComparingSink comparison(*written);
  return compare(work, reader, comparison);
}

}  // namespace

Result<ConversionInput> probe_input(const std::string& path, const Limits& limits) {
  CFCK_TRY_ASSIGN(const auto source, open_file(path));
  ConversionInput input;
  CFCK_TRY_ASSIGN(input.format, model::format_of(*source));
  if (!input.format->encodes) {
    CFCK_TRY_ASSIGN(const SafetensorsHeader header, read_safetensors_header(*source));
    for (const SafetensorsEntry& entry : header.entries) input.decoded_bytes += entry.n_bytes;
    for (const SafetensorsTie& tie : header.ties) {
      input.decoded_bytes += header.entries[tie.entry].n_bytes;
    }
  } else {
    CFCK_TRY_ASSIGN(const Reader reader, Reader::open(*source, one_thread(limits)));
    for (const Record& record : reader.records()) {
      if (!record.hidden) input.decoded_bytes += record.decoded_bytes;
    }
  }
  return input;
}

namespace {

Result<void> open_files(Work& work) {
  const FileConversion& conversion = work.conversion;
  CFCK_TRY_ASSIGN(work.source, open_file(conversion.input));
  CFCK_TRY_ASSIGN(work.format, model::format_of(*work.source));
  if (!conversion.dry_run) {
    AtomicFile::Options options;
    options.replace_existing = conversion.replace_existing;
    CFCK_TRY_ASSIGN(work.file, AtomicFile::create(conversion.output, options));
  }
  work.bar.start(short_name(conversion.input));
  work.result.input = conversion.input;
  work.result.output = conversion.output;
  work.result.input_bytes = work.source->size();
  work.result.to = &model::counterpart(*work.format);
  return {};
}

Result<void> commit(Work& work) {
  // Of a .cfck file every byte has a hash, and updates do not change what was opened.
  if (!work.format->encodes) CFCK_TRY(work.guard.check());
  if (!go_on()) return Error{ErrorCode::kInvalidArgument, "cancelled", {}, {}};
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
  if (!works.front()->format->encodes) {
    CFCK_TRY(to_cfck(works));
  } else {
    for (const auto& work : works) {
      if (auto done = to_safetensors(*work); !done) return naming(done.error(), *work);
    }
  }
  std::vector<ConvertedFile> files;
  for (const auto& work : works) {
    if (auto committed = commit(*work); !committed) return naming(committed.error(), *work);
    files.push_back(std::move(work->result));
  }
  return files;
}

}  // namespace cfck::tools
