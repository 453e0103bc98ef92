#include "tools/convert/patch_check.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "cfck/archive.hpp"
#include "cfck/base.hpp"
#include "cfck/reader.hpp"
#include "model/formats/archive_format.hpp"
#include "model/formats/article.hpp"

namespace cfck::tools {
namespace {

class Comparison {
 public:
  Comparison(const Reader& patch, const Base& before, const std::string& path)
      : patch_(patch), before_(before), path_(path) {}

  // Errors: those of check_patch().
  Result<void> run() const {
    bool has_all_new_values = true;
    const Record* other = nullptr;  // the first that was made for other values
    std::size_t n_others = 0;
    for (const Record& record : patch_.records()) {
      if (record.hidden) continue;
      CFCK_TRY_ASSIGN(const bool is_new, is_digest(record, record.digest));
      has_all_new_values = has_all_new_values && is_new;
      if (!record.base_digest) continue;
      CFCK_TRY_ASSIGN(const bool fits, is_digest(record, *record.base_digest));
      if (fits) continue;
      if (n_others++ == 0) other = &record;
    }
    if (other == nullptr) return {};
    if (has_all_new_values) {
      return exists_already("'" + escaped(path_) +
                            "' has the values of this patch already; nothing was written");
    }
    return missing_base(
               fmt::format("the patch was not made for '{}': {} {} other values, dtypes or shapes "
                           "there, or {} missing; nothing was written",
                           escaped(path_), n_others, n_others == 1 ? "tensor has" : "tensors have",
                           n_others == 1 ? "is" : "are"))
        .in_record(other->name);
  }

  // True if the patch has a tensor of the same name, dtype and shape for each of the model, and no
  // others.
  bool has_same_tensors(std::size_t n_of_model) const {
    std::size_t n_found = 0;
    for (const Record& record : patch_.records()) {
      if (record.hidden) continue;
      const BaseTensor* const tensor = before_.find(record.name);
      if (tensor == nullptr || !is_same_type(*tensor, record)) return false;
      ++n_found;
    }
    return n_found == n_of_model;
  }

 private:
  static bool is_same_type(const BaseTensor& tensor, const Record& record) {
    return tensor.dtype == record.dtype && tensor.shape == record.shape;
  }

  Result<bool> is_digest(const Record& record, const Digest& expected) const {
    const BaseTensor* const tensor = before_.find(record.name);
    if (tensor == nullptr || !is_same_type(*tensor, record)) return false;
    CFCK_TRY_ASSIGN(const Digest digest, before_.digest(*tensor));
    return digest == expected;
  }

  const Reader& patch_;
  const Base& before_;
  const std::string& path_;
};

// Without names that only metadata give.
Result<std::vector<std::string>> names_of_model(const ReadingOptions& reading) {
  ArchiveOptions options;
  options.decode.limits = reading.limits;
  options.decode.base_dirs = reading.base_dirs;
  CFCK_TRY_ASSIGN(const auto archive, TensorArchive::open(reading.base, options));
  std::vector<std::string> names;
  for (const ArchiveTensor& tensor : archive->tensors()) {
    if (!tensor.hidden && !tensor.named_by_metadata) names.push_back(tensor.name);
  }
  return names;
}

Error no_patch(const std::string& what) {
  return invalid_argument(what + "; cfck convert writes such a file in another format");
}

}  // namespace

Result<PatchCheck> check_patch(const ReadingOptions& reading, const std::string& patch) {
  ArchiveOptions options;
  CFCK_TRY_ASSIGN(options.decode, reading.decode());
  CFCK_TRY_ASSIGN(const auto archive, model::open_archive_file(patch, options));
  const ArchiveFile& file = archive->files().front();
  if (file.reader == nullptr) {
    return no_patch(
        fmt::format("this is {} file, but a patch is a .cfck file, as cfck patch writes it, and "
                    "comes after OLD",
                    model::with_article(file.format)));
  }
  CFCK_TRY_ASSIGN(const std::vector<std::string> names, names_of_model(reading));
  const Comparison comparison(*file.reader, *reading.opened, reading.base);
  CFCK_TRY(comparison.run());
  if (!file.reader->needs_base() && !comparison.has_same_tensors(names.size())) {
    return no_patch("this is no patch of '" + escaped(reading.base) +
                    "': it is stored against nothing, and has other tensors");
  }
  PatchCheck check;
  CFCK_TRY_ASSIGN(const Listing listing, list_tensors(patch, {.limits = reading.limits}));
  for (const TensorRow& row : listing.rows) check.totals.add(row);
  for (const std::string& name : names) {
    if (archive->find(name) == nullptr) check.missing.push_back(name);
  }
  return check;
}

}  // namespace cfck::tools
