#include "cfck/update.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "cfck/reader.hpp"
#include "format/read/dependents.hpp"
#include "format/read/reader_access.hpp"
#include "format/update/checkpoint_skeleton.hpp"
#include "format/update/file_view.hpp"
#include "format/update/record_selection.hpp"
#include "format/write/writer_impl.hpp"

namespace cfck {
namespace {

constexpr std::string_view kSafetensorsHeader = "safetensors.header";

// Marks the records that are removed or replaced.
Result<std::vector<bool>> marked(const format::Index& index, const Update& changes) {
  std::set<std::string_view> removed(changes.remove.begin(), changes.remove.end());
  std::set<std::string_view> gone = removed;
  for (const StridedTensor& tensor : changes.tensors) {
    gone.insert(tensor.name);
  }
  std::vector<bool> drop(index.records.size());
  for (std::size_t i = 0; i < drop.size(); ++i) {
    const Record& record = index.records[i].record;
    drop[i] = !record.hidden && gone.contains(record.name);
    if (drop[i]) {
      removed.erase(record.name);
    }
  }
  if (!removed.empty()) {
    return not_found("there is no record with this name to remove")
        .in_record(std::string(*removed.begin()));
  }
  return drop;
}

// What is stored against a base is found there by its name, so that it cannot go on without it.
Result<void> check_bases_keep_names(const format::Index& index, const std::vector<bool>& drop) {
  for (std::size_t i = 0; i < drop.size(); ++i) {
    const Record& record = index.records[i].record;
    const bool shares = record.kind == RecordKind::kAlias || record.kind == RecordKind::kDuplicate;
    if (drop[i] || !shares || !drop[record.base]) {
      continue;
    }
    const Record& owner = index.records[record.base].record;
    if (owner.base_digest) {
      return unsupported("'" + escaped(record.name) + "' has the bytes of this tensor, which are " +
                         "stored against a base; replace both, or make the file stand alone first "
                         "(cfck compact)")
          .in_record(owner.name);
    }
  }
  return {};
}

// Files that are stored against tensors of this one would be lost with them.
Result<void> check_dependents(const std::string& path, const format::Index& index,
                              const std::vector<bool>& drop, bool force) {
  if (force || std::find(drop.begin(), drop.end(), true) == drop.end()) {
    return {};
  }
  const Result<std::vector<std::string>> dependents = format::dependents_of(path, index, drop);
  if (!dependents) {
    // A file that only the caller's FileSystem has is in no folder that others could be in.
    return dependents.error().code == ErrorCode::kNotFound ? Result<void>() : dependents.error();
  }
  return dependents->empty() ? Result<void>()
                             : format::is_a_base(path, *dependents,
                                                 "force the update (replace_base=True in Python)");
}

Result<WriterStart> next_generation(const std::string& path, const Reader& reader,
                                    const Update& changes) {
  CFCK_TRY_ASSIGN(const std::vector<bool> drop, marked(ReaderAccess::index(reader), changes));
  CFCK_TRY(check_dependents(path, ReaderAccess::index(reader), drop, changes.force));
  CFCK_TRY(check_bases_keep_names(ReaderAccess::index(reader), drop));
  CFCK_TRY(format::check_skeleton_keeps(reader, changes));
  WriterStart start;
  start.offset_bytes = reader.file_bytes();
  start.generation = reader.generation() + 1;
  start.previous_file_bytes = reader.file_bytes();
  start.index = format::select_records(ReaderAccess::index(reader), drop);
  start.metadata = ReaderAccess::metadata(reader);
  std::erase_if(start.metadata.attachments,
                [](const auto& attachment) { return attachment.name == kSafetensorsHeader; });
  return start;
}

Result<WriteSummary> append(File& file, format::AppendSink& sink, EncodeOptions options,
                            WriterStart start, const Update& changes, WriteProgress progress) {
  CFCK_TRY_ASSIGN(Writer writer, WriterAccess::append(sink, std::move(options), std::move(start)));
  writer.set_progress(std::move(progress));
  if (changes.prepare) {
    CFCK_TRY(changes.prepare(writer));
  }
  for (const auto& [key, value] : changes.metadata) {
    CFCK_TRY(writer.set_metadata(key, value));
  }
  CFCK_TRY(writer.add_tensors(changes.tensors));
  CFCK_TRY(WriterAccess::finish_data(writer));
  // Everything that the index refers to must be on the device before the index is.
  CFCK_TRY(file.sync());
  CFCK_TRY_ASSIGN(WriteSummary summary, WriterAccess::finish_index(writer));
  CFCK_TRY(file.sync());
  return summary;
}

// Truncates the file after a failed update; the error says if that failed too.
Error take_back(File& file, std::uint64_t n_bytes, Error error) {
  Result<void> cut = file.truncate(n_bytes);
  if (cut) {
    cut = file.sync();
  }
  if (cut) {
    return error;
  }
  return run_guarded([&] {
    Error both = std::move(error);
    both.message += "; cutting the file back to its " + std::to_string(n_bytes) +
                    " bytes failed too (" + cut.error().message +
                    "): if it does not open, `cfck repair` recovers its last state";
    return both;
  });
}

Result<WriteSummary> update_file(const std::string& path, const Update& changes,
                                 EncodeOptions options, DecodeOptions decode, FileSystem& files,
                                 WriteProgress progress) {
  CFCK_TRY_ASSIGN(const std::unique_ptr<File> file, files.open_read_write(path));
  CFCK_TRY(file->lock());
  CFCK_TRY_ASSIGN(const std::uint64_t old_bytes, file->size());
  const format::FileView source(*file, old_bytes, path);
  CFCK_TRY_ASSIGN(const Reader reader, Reader::open(source, decode));
  CFCK_TRY_ASSIGN(WriterStart start, next_generation(path, reader, changes));
  format::AppendSink sink(*file, old_bytes);
  Result<WriteSummary> summary = run_guarded(
      [&] { return append(*file, sink, options, std::move(start), changes, std::move(progress)); });
  if (!summary && sink.touched()) {
    return take_back(*file, old_bytes, std::move(summary).error());
  }
  return summary;
}

}  // namespace

Result<WriteSummary> update(const std::string& path, const Update& changes, EncodeOptions options,
                            DecodeOptions decode, FileSystem& files, WriteProgress progress) {
  return run_guarded(
      [&] { return update_file(path, changes, options, decode, files, std::move(progress)); });
}

}  // namespace cfck
