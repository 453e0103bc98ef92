#include "tools/input/reading_options.hpp"

#include <utility>

#include "model/archive_base.hpp"
#include "model/error_path.hpp"

namespace cfck::tools {

Result<DecodeOptions> ReadingOptions::decode() const {
  DecodeOptions options;
  options.limits = limits;
  options.base_dirs = base_dirs;
  if (base.empty()) return options;
  auto opened = model::open_base(base, {.decode = options});
  if (!opened) return model::with_path(std::move(opened).error(), base);
  options.base = *std::move(opened);
  return options;
}

}  // namespace cfck::tools
