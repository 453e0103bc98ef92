// Files of numpy as archives: .npy with one array, .npz with several in a zip file.
#include "interop/stored/archive.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "format/write/sharing/alias_plan.hpp"
#include "interop/numpy/npy_header.hpp"
#include "interop/numpy/writer.hpp"
#include "interop/zip/directory.hpp"
#include "interop/zip/inflated_member.hpp"
#include "interop/zip/source_part.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::model {
namespace {

using interop::InflatedMember;
using interop::NpyArray;
using interop::ZipMember;

constexpr std::string_view kSuffix = ".npy";
// For decompressed parts of members.
// The name of the array of a .npy file, which has none.
constexpr std::string_view kOnlyName = "array";

std::vector<std::uint64_t> column_major_strides(const Shape& shape) {
  std::vector<std::uint64_t> strides;
  std::uint64_t stride = 1;
  for (const std::uint64_t dim : shape) {
    strides.push_back(stride);
    stride *= dim;
  }
  return strides;
}

class NumpyArchive final : public interop::StoredArchive {
 public:
  NumpyArchive(std::unique_ptr<ByteSource> source, const ArchiveFormat& format,
               const ArchiveOptions& options)
      : StoredArchive(std::move(source), format.name, options.decode),
        only_tensors_(options.only_tensors) {}

  std::span<const std::string> notes() const override { return notes_; }

  Result<void> list_array() {
    CFCK_TRY_ASSIGN(NpyArray array, interop::read_npy(source()));
    const std::uint64_t at = array.data_bytes;
    CFCK_TRY(add_array(std::string(kOnlyName), std::move(array), nullptr, at));
    return finish_list();
  }

  Result<void> list_members() {
    CFCK_TRY_ASSIGN(members_, interop::read_zip_directory(source(), interop::MemberNames::kAny));
    for (const std::size_t number : choose_members()) {
      const ZipMember& member = members_[number];
      if (member.name.ends_with('/')) continue;  // a folder
      if (auto added = add_member(member, names_[number]); !added) {
        Error error = std::move(added).error();
        if (error.record.empty()) error.record = member.name;
        if (!only_tensors_ || error.code != ErrorCode::kUnsupported) return error;
        // The advice that follows the reason does not apply here.
        notes_.push_back("'" + escaped(member.name) +
                         "' was left out: " + error.message.substr(0, error.message.find("; ")));
      }
    }
    return finish_list();
  }

 private:
  // Returns the members to read, by number: of several with one name the last one, as zipfile of
  // Python does. Gives each a name in names_: that of the member, without ".npy" unless another
  // member has that name, by which numpy knows it.
  std::vector<std::size_t> choose_members() {
    std::map<std::string_view, std::size_t> last;
    std::set<std::string_view> repeated;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const auto [place, is_new] = last.insert_or_assign(members_[i].name, i);
      if (!is_new) repeated.insert(place->first);
    }
    for (const std::string_view name : repeated) {
      notes_.push_back("several members are called '" + escaped(name) +
                       "'; only the last one was read, as numpy does");
    }
    names_.resize(members_.size());
    std::set<std::string, std::less<>> taken;
    std::vector<std::size_t> chosen;
    for (const bool has_suffix : {false, true}) {
      for (const auto& [name, number] : last) {
        if (name.ends_with(kSuffix) != has_suffix) continue;
        chosen.push_back(number);
        const std::string_view stem =
            name.substr(0, name.size() - (has_suffix ? kSuffix.size() : 0));
        names_[number] = taken.contains(stem) ? name : stem;
        taken.insert(names_[number]);
      }
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }

  Result<void> add_member(const ZipMember& member, const std::string& name) {
    if (member.stored) {
      const interop::SourcePart part(source(), member.offset_bytes, member.n_bytes);
      CFCK_TRY(check_is_array(member, part));
      CFCK_TRY_ASSIGN(NpyArray array, interop::read_npy(part));
      const std::uint64_t at = member.offset_bytes + array.data_bytes;
      return add_array(name, std::move(array), nullptr, at);
    }
    inflated_.push_back(std::make_unique<InflatedMember>(source(), member, cache_));
    const InflatedMember& inflated = *inflated_.back();
    CFCK_TRY(check_is_array(member, inflated));
    CFCK_TRY_ASSIGN(NpyArray array, interop::read_npy(inflated));
    const std::uint64_t at = array.data_bytes;
    return add_array(name, std::move(array), &inflated, at);
  }

  // A member called ".npy" must be an array; others may be one, as they may for numpy.
  static Result<void> check_is_array(const ZipMember& member, const ByteSource& content) {
    if (member.name.ends_with(kSuffix)) return {};
    CFCK_TRY_ASSIGN(const bool is_array, interop::begins_as_npy(content));
    if (is_array) return {};
    return unsupported(
        "this member of the zip file is no array of numpy; take it out of the file, or take the "
        "arrays alone (--only-tensors)");
  }

  Result<void> add_array(std::string name, NpyArray array, const ByteSource* from,
                         std::uint64_t offset_bytes) {
    if (array.is_stand_in && array.dtype == DType::kBF16) {
      notes_.push_back("numpy saved the elements of '" + escaped(name) +
                       "' as void of two bytes; they were taken for BF16, as ml_dtypes has it");
    }
    auto strides = array.fortran_order ? column_major_strides(array.shape)
                                       : format::contiguous_strides(array.shape);
    return add({std::move(name), array.dtype, std::move(array.shape), std::move(strides), from,
                offset_bytes, array.big_endian});
  }

  bool only_tensors_;
  std::vector<std::string> names_;  // of the arrays in members_
  std::vector<std::string> notes_;
  interop::BlockCache cache_;
  std::vector<std::unique_ptr<InflatedMember>> inflated_;
};

Result<std::unique_ptr<TensorArchive>> open_npy(std::unique_ptr<ByteSource> source,
                                                const ArchiveOptions& options) {
  auto archive = std::make_unique<NumpyArchive>(std::move(source), npy_format(), options);
  CFCK_TRY(archive->list_array());
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

Result<std::unique_ptr<TensorArchive>> open_npz(std::unique_ptr<ByteSource> source,
                                                const ArchiveOptions& options) {
  auto archive = std::make_unique<NumpyArchive>(std::move(source), npz_format(), options);
  CFCK_TRY(archive->list_members());
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

bool begins_npy(std::string_view head) { return head.starts_with("\x93NUMPY"); }

// A zip file whose first member is an array, or one without members.
bool begins_npz(std::string_view head) {
  constexpr std::size_t kLocalBytes = 30;
  if (head.starts_with("PK\x05\x06")) return true;
  if (!head.starts_with("PK\x03\x04") || head.size() < kLocalBytes) return false;
  const auto name_bytes = load<std::uint16_t>(reinterpret_cast<const std::byte*>(head.data()) + 26);
  return head.substr(kLocalBytes, name_bytes).ends_with(kSuffix);
}

}  // namespace

const ArchiveFormat& npy_format() {
  static const ArchiveFormat kFormat = {
      "npy",   kSuffix, false, &begins_npy, &open_npy, &interop::create_npy_writer,
      nullptr, {},      false, {},          false};
  return kFormat;
}

const ArchiveFormat& npz_format() {
  static const ArchiveFormat kFormat = {
      "npz",   ".npz", false, &begins_npz, &open_npz, &interop::create_npz_writer,
      nullptr, {},     false, {},          false};
  return kFormat;
}

}  // namespace cfck::model
