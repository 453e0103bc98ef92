#include "tools/input/reading_options.hpp"

#include <utility>

#include "model/archive_base.hpp"
#include "model/error_path.hpp"

namespace cfck::tools {

Result<DecodeOptions> ReadingOptions::decode() const {
  DecodeOptions options;
  options.limits = limits;
  options.base_dirs = base_dirs;
  options.base = opened;
  if (base.empty() || opened != nullptr) return options;
  auto found = model::open_base(base, {.decode = options});
  if (!found) return model::with_path(std::move(found).error(), base);
  options.base = *std::move(found);
  return options;
}

}  // namespace cfck::tools
