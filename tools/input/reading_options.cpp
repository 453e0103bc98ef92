#include "tools/input/reading_options.hpp"

#include <utility>

#include "model/archive_base.hpp"
#include "model/error_path.hpp"

namespace cfck::tools {
namespace {

DecodeOptions without_base(const ReadingOptions& reading) {
  DecodeOptions options;
  options.limits = reading.limits;
  options.base_dirs = reading.base_dirs;
  return options;
}

}  // namespace

Result<std::shared_ptr<const Base>> ReadingOptions::open_base(const std::string& path) const {
  auto found = model::open_base(path, {.decode = without_base(*this)});
  if (!found) return model::with_path(std::move(found).error(), path);
  return found;
}

Result<DecodeOptions> ReadingOptions::decode() const {
  DecodeOptions options = without_base(*this);
  options.base = opened;
  if (!base.empty() && opened == nullptr) {
    CFCK_TRY_ASSIGN(options.base, open_base(base));
  }
  return options;
}

}  // namespace cfck::tools
