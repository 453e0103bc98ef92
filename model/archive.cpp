#include "cfck/archive.hpp"

#include <string>
#include <utility>

#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "model/formats/archive_format.hpp"
#include "model/formats/article.hpp"

namespace cfck {
namespace {

Error no_source() { return invalid_argument("the source of an archive is nullptr"); }

}  // namespace

TensorArchive::~TensorArchive() = default;

Result<std::unique_ptr<TensorArchive>> TensorArchive::open(std::unique_ptr<ByteSource> source,
                                                           const ArchiveOptions& options) {
  return run_guarded([&]() -> Result<std::unique_ptr<TensorArchive>> {
    if (source == nullptr) return no_source();
    CFCK_TRY_ASSIGN(const model::ArchiveFormat* format, model::format_of(*source));
    return format->open(std::move(source), options);
  });
}

Result<std::unique_ptr<TensorArchive>> TensorArchive::open_as(std::string_view format,
                                                              std::unique_ptr<ByteSource> source,
                                                              const ArchiveOptions& options) {
  return run_guarded([&]() -> Result<std::unique_ptr<TensorArchive>> {
    if (source == nullptr) return no_source();
    if (const auto* known = model::find_format(format)) {
      return known->open(std::move(source), options);
    }
    return unsupported("files of the format '" + escaped(format) + "' cannot be read");
  });
}

Result<std::string_view> TensorArchive::format_of(const ByteSource& source) {
  return run_guarded([&]() -> Result<std::string_view> {
    CFCK_TRY_ASSIGN(const std::string head, model::head_of(source));
    const model::ArchiveFormat* const format = model::recognised(head);
    return format == nullptr ? std::string_view() : format->name;
  });
}

Result<void> TensorArchive::read(const ArchiveTensor& tensor, MutableBytes out) const {
  const ArchiveRead read{&tensor, out};
  return read_many({&read, 1});
}

Result<OwnedTensor> TensorArchive::read(const ArchiveTensor& tensor) const {
  return run_guarded([&]() -> Result<OwnedTensor> {
    CFCK_TRY(check_decoded_bytes(tensor, 0));  // one of this archive: `index` is one of its list
    const ArchiveTensor& own = tensors()[tensor.index];
    CFCK_TRY(check_decoded_bytes(own, own.n_bytes));
    CFCK_TRY_ASSIGN(OwnedTensor owned, OwnedTensor::allocate(own.dtype, own.shape));
    CFCK_TRY(read(own, owned.bytes()));
    return owned;
  });
}

Result<OwnedTensor> TensorArchive::read(std::string_view name) const {
  return run_guarded([&]() -> Result<OwnedTensor> {
    const ArchiveTensor* const tensor = find(name);
    if (tensor == nullptr) {
      return not_found("the archive has no tensor '" + escaped(name) + "'")
          .in_record(std::string(name));
    }
    return read(*tensor);
  });
}

Result<VerifyReport> TensorArchive::verify(VerifyLevel, const ReadProgress&) const {
  return run_guarded([&] {
    const std::string format =
        files().empty() ? "such a" : model::with_article(files().front().format);
    return Result<VerifyReport>(unsupported(format +
                                            " file has no checksums to verify; convert it to .cfck "
                                            "to get them"));
  });
}

}  // namespace cfck
