#include "tools/convert_file.hpp"

#include <sys/stat.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cfck/io.hpp"
#include "cfck/reader.hpp"
#include "cfck/safetensors.hpp"
#include "cfck/writer.hpp"
#include "tools/comparing_sink.hpp"
#include "tools/interrupt.hpp"

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

struct Work {
  const FileConversion& conversion;
  const ByteSource& source;
  ProgressBar& bar;
  AtomicFile* file;  // nullptr for a dry run
  ConvertedFile result;
};

bool go_on() { return interrupt_signal() == 0; }

std::string short_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// One thread: decoding is spread over threads by write_safetensors.
DecodeOptions one_thread() {
  DecodeOptions options;
  options.threads = 1;
  return options;
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

Result<void> to_cfck(Work& work) {
  CFCK_TRY_ASSIGN(const SafetensorsHeader header, read_safetensors_header(work.source));
  CountingSink sink(work.file);
  CFCK_TRY_ASSIGN(Writer writer, Writer::create(sink, work.conversion.encode));
  writer.set_progress([&](std::uint64_t done_bytes, std::string_view) {
    work.bar.update(done_bytes, sink.n_bytes());
    return go_on();
  });
  CFCK_TRY(add_safetensors(writer, work.source, header));
  if (!work.conversion.shard_index.empty()) {
    CFCK_TRY(writer.attach(kShardIndexAttachment,
                           std::as_bytes(std::span(work.conversion.shard_index))));
  }
  CFCK_TRY_ASSIGN(WriteSummary summary, writer.finish());
  for (const SafetensorsEntry& entry : header.entries) {
    CFCK_TRY_ASSIGN(const std::uint64_t count, n_elems(entry.shape));
    work.result.n_elems += count;
    if (!work.conversion.encode.rules.empty()) work.result.names.push_back(entry.name);
  }
  for (const LossyTensor& tensor : summary.lossy) {
    work.result.loss.add(tensor.error, tensor.n_elems, tensor.stored_bytes);
  }
  work.result.kept_lossless = std::move(summary.kept_lossless);
  work.result.unmatched_rules = std::move(summary.unmatched_rules);
  work.result.n_records = summary.n_records;
  work.result.decoded_bytes = summary.decoded_bytes;
  work.result.stored_bytes = summary.stored_bytes;
  work.result.output_bytes = sink.n_bytes();
  if (!work.conversion.verify || work.file == nullptr) return {};
  CFCK_TRY_ASSIGN(const auto written, work.file->read_back());
  CFCK_TRY_ASSIGN(const Reader reader, Reader::open(*written, one_thread()));
  ComparingSink comparison(work.source);
  comparison.expect_losses(header, reader);
  return compare(work, reader, comparison);
}

Result<void> to_safetensors(Work& work) {
  CFCK_TRY_ASSIGN(const Reader reader, Reader::open(work.source, one_thread()));
  CountingSink sink(work.file);
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

Result<ConversionInput> probe_input(const std::string& path) {
  CFCK_TRY_ASSIGN(const auto source, open_file(path));
  ConversionInput input;
  CFCK_TRY_ASSIGN(input.kind, file_kind(*source));
  if (input.kind == FileKind::kSafetensors) {
    CFCK_TRY_ASSIGN(const SafetensorsHeader header, read_safetensors_header(*source));
    for (const SafetensorsEntry& entry : header.entries) input.decoded_bytes += entry.n_bytes;
  } else {
    CFCK_TRY_ASSIGN(const Reader reader, Reader::open(*source, one_thread()));
    for (const Record& record : reader.records()) {
      if (!record.hidden) input.decoded_bytes += record.decoded_bytes;
    }
  }
  return input;
}

Result<ConvertedFile> convert_file(const FileConversion& conversion, ProgressBar& bar) {
  const ChangeGuard guard(conversion.input);
  CFCK_TRY_ASSIGN(const auto source, open_file(conversion.input));
  CFCK_TRY_ASSIGN(const FileKind kind, file_kind(*source));
  std::unique_ptr<AtomicFile> file;
  if (!conversion.dry_run) {
    AtomicFile::Options options;
    options.replace_existing = conversion.replace_existing;
    CFCK_TRY_ASSIGN(file, AtomicFile::create(conversion.output, options));
  }
  bar.start(short_name(conversion.input));
  Work work{conversion, *source, bar, file.get(), {}};
  work.result.input = conversion.input;
  work.result.output = conversion.output;
  work.result.input_bytes = source->size();
  work.result.to = kind == FileKind::kSafetensors ? FileKind::kCfck : FileKind::kSafetensors;
  CFCK_TRY(kind == FileKind::kSafetensors ? to_cfck(work) : to_safetensors(work));
  CFCK_TRY(guard.check());
  if (!go_on()) return Error{ErrorCode::kInvalidArgument, "cancelled", {}, {}};
  if (file) CFCK_TRY(file->commit());
  return std::move(work.result);
}

}  // namespace cfck::tools
