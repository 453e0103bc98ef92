// Files of numpy as archives: .npy with one array, .npz with several in a zip file.
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "format/write/alias_plan.hpp"
#include "interop/numpy/npy_header.hpp"
#include "interop/numpy/numpy_writer.hpp"
#include "interop/stored/stored_archive.hpp"
#include "interop/zip/inflated_member.hpp"
#include "interop/zip/source_part.hpp"
#include "interop/zip/zip_directory.hpp"
#include "model/archive_format.hpp"

namespace cfck::model {
namespace {

using interop::InflatedMember;
using interop::NpyArray;
using interop::ZipMember;

constexpr std::string_view kSuffix = ".npy";
// For decompressed parts of members.
constexpr std::uint64_t kCacheBytes = std::uint64_t{64} << 20;
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
               const DecodeOptions& options)
      : StoredArchive(std::move(source), format.name, options) {}

  Result<void> list_array() {
    CFCK_TRY_ASSIGN(NpyArray array, interop::read_npy(source()));
    const std::uint64_t at = array.data_bytes;
    CFCK_TRY(add_array(std::string(kOnlyName), std::move(array), nullptr, at));
    return finish_list();
  }

  Result<void> list_members() {
    CFCK_TRY_ASSIGN(members_, interop::read_zip_directory(source()));
    for (const ZipMember& member : members_) {
      if (auto added = add_member(member); !added) {
        Error error = std::move(added).error();
        if (error.record.empty()) error.record = member.name;
        return error;
      }
    }
    return finish_list();
  }

 private:
  Result<void> add_member(const ZipMember& member) {
    if (!member.name.ends_with(kSuffix)) {
      return unsupported(
          "this member of the zip file is no array of numpy; take it out of the file first");
    }
    std::string name = member.name.substr(0, member.name.size() - kSuffix.size());
    if (member.stored) {
      const interop::SourcePart part(source(), member.offset_bytes, member.n_bytes);
      CFCK_TRY_ASSIGN(NpyArray array, interop::read_npy(part));
      const std::uint64_t at = member.offset_bytes + array.data_bytes;
      return add_array(std::move(name), std::move(array), nullptr, at);
    }
    inflated_.push_back(std::make_unique<InflatedMember>(source(), member, cache_));
    const InflatedMember& inflated = *inflated_.back();
    CFCK_TRY_ASSIGN(NpyArray array, interop::read_npy(inflated));
    const std::uint64_t at = array.data_bytes;
    return add_array(std::move(name), std::move(array), &inflated, at);
  }

  Result<void> add_array(std::string name, NpyArray array, const ByteSource* from,
                         std::uint64_t offset_bytes) {
    auto strides = array.fortran_order ? column_major_strides(array.shape)
                                       : format::contiguous_strides(array.shape);
    return add({std::move(name), array.dtype, std::move(array.shape), std::move(strides), from,
                offset_bytes, array.big_endian});
  }

  interop::BlockCache cache_{kCacheBytes};
  std::vector<std::unique_ptr<InflatedMember>> inflated_;
};

Result<std::unique_ptr<TensorArchive>> open_npy(std::unique_ptr<ByteSource> source,
                                                const ArchiveOptions& options) {
  auto archive = std::make_unique<NumpyArchive>(std::move(source), npy_format(), options.decode);
  CFCK_TRY(archive->list_array());
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

Result<std::unique_ptr<TensorArchive>> open_npz(std::unique_ptr<ByteSource> source,
                                                const ArchiveOptions& options) {
  auto archive = std::make_unique<NumpyArchive>(std::move(source), npz_format(), options.decode);
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
