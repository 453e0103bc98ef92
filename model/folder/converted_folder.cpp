#include "model/folder/converted_folder.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cfck/archive.hpp"
#include "model/error_path.hpp"
#include "model/folder/shard_index.hpp"

namespace cfck::model {
namespace {

namespace fs = std::filesystem;

// Maximum of JSON values that an index may hold beside the tensors: its metadata.
constexpr std::size_t kOtherIndexValues = 4096;

}  // namespace

Result<WrittenFolder> converted_names(const FolderContents& contents, const ArchiveFormat& to) {
  WrittenFolder written;
  written.format = &to;
  written.other_files = contents.other_files;
  for (const std::string& name : contents.tensor_files) {
    written.tensor_files.push_back(renamed_file(name, *contents.format, to));
  }
  for (const std::string& name : contents.index_files) {
    written.index_files.push_back(renamed_index(name, *contents.format, to));
  }
  std::set<std::string> all;
  for (const auto* names : {&written.other_files, &written.tensor_files, &written.index_files}) {
    for (const std::string& name : *names) {
      if (all.insert(name).second) continue;
      return invalid_argument("the folder has files of several formats: '" + escaped(name) +
                              "' would be written twice; convert a folder with one kind of file");
    }
  }
  return written;
}

Result<void> ConvertedIndexes::check(const std::string& index_file, const ShardIndex& index) const {
  const std::string folder = fs::path(index_file).parent_path().string();
  const std::string prefix = folder.empty() ? "" : folder + "/";
  std::map<std::string, std::set<std::string>> names;
  for (const auto& [tensor, file] : index.weight_map) names[prefix + file].insert(tensor);
  for (auto& [file, wanted] : names) {
    const auto& known = contents_->tensor_files;
    if (!std::binary_search(known.begin(), known.end(), file)) {
      return not_found("the shard '" + escaped(file) + "', named in '" + escaped(index_file) +
                       "', is missing; download it");
    }
    ArchiveOptions how;
    how.decode.limits = limits_;
    const auto archive = open_archive_file(path_of(file), how);
    if (!archive) return with_path(archive.error(), file);
    for (const ArchiveTensor& tensor : (*archive)->tensors()) wanted.erase(tensor.name);
    if (!wanted.empty()) {
      return corrupt("the shard '" + escaped(file) + "' lacks this tensor, which '" +
                     escaped(index_file) + "' places there; download the folder again")
          .in_record(*wanted.begin());
    }
  }
  return {};
}

Result<ConvertedIndexes> ConvertedIndexes::read(const FolderContents& contents,
                                                const Limits& limits) {
  ConvertedIndexes indexes(contents, limits);
  for (const std::string& name : contents.index_files) {
    CFCK_TRY_ASSIGN(std::string text, read_text(indexes.path_of(name), kMaxIndexBytes));
    CFCK_TRY_ASSIGN(const ShardIndex index, parse_shard_index(text));
    CFCK_TRY(indexes.check(name, index));
    if (const auto files = index.files(); !files.empty()) {
      const std::string first = (fs::path(name).parent_path() / files.front()).string();
      indexes.first_shards_[name] = first;
      if (contents.format->restores_bytes) indexes.attached_.emplace(first, text);
    }
    indexes.texts_[name] = std::move(text);
  }
  return indexes;
}

std::string_view ConvertedIndexes::attachment_of(const std::string& tensor_file) const {
  const auto found = attached_.find(tensor_file);
  return found == attached_.end() ? std::string_view() : found->second;
}

Result<std::string> ConvertedIndexes::kept_in(const std::string& tensor_file) const {
  ArchiveOptions how;
  how.decode.limits = limits_;
  CFCK_TRY_ASSIGN(const auto archive, open_archive_file(path_of(tensor_file), how));
  const auto attachments = archive->attachments();
  // A longer one was never the index of a folder that was converted.
  const bool is_kept =
      std::any_of(attachments.begin(), attachments.end(), [](const Attachment& attachment) {
        return attachment.name == kShardIndexAttachment &&
               attachment.decoded_bytes <= kMaxIndexBytes;
      });
  if (!is_kept) return std::string();
  CFCK_TRY_ASSIGN(const auto kept, archive->attachment(kShardIndexAttachment));
  return std::string(reinterpret_cast<const char*>(kept.data()), kept.size());
}

Result<std::string> ConvertedIndexes::converted(const std::string& index_file,
                                                const ArchiveFormat& to,
                                                const WeightMap& tied) const {
  const ArchiveFormat& from = *contents_->format;
  const std::string& text = texts_.at(index_file);
  const auto first = first_shards_.find(index_file);
  CFCK_TRY_ASSIGN(std::string complete, rename_shards(text, from, to));
  if (to.encodes || first == first_shards_.end()) return complete;
  // The index names shards as they are called from its own folder.
  const fs::path folder = fs::path(index_file).parent_path();
  WeightMap left_out;
  for (const auto& [tensor, file] : tied) {
    const fs::path path(file);
    left_out.emplace_back(tensor,
                          folder.empty() ? file : path.lexically_relative(folder).generic_string());
  }
  CFCK_TRY_ASSIGN(std::string renamed, rename_shards(text, from, to, left_out));
  CFCK_TRY_ASSIGN(std::string original, kept_in(first->second));
  if (original.empty()) return renamed;
  CFCK_TRY_ASSIGN(const ShardIndex shards, parse_shard_index(complete));
  // An index with more tensors than the present one does not agree with it.
  const auto original_shards =
      parse_shard_index(original, shards.weight_map.size() + kOtherIndexValues);
  return original_shards && original_shards->weight_map == shards.weight_map ? original : renamed;
}

}  // namespace cfck::model
