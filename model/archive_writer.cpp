#include "cfck/archive_writer.hpp"

#include <string>
#include <utility>

#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "model/archive_format.hpp"

namespace cfck {

ArchiveWriter::~ArchiveWriter() = default;

Result<std::unique_ptr<ArchiveWriter>> ArchiveWriter::create(std::string_view format,
                                                             ByteSink& sink,
                                                             const EncodeOptions& options) {
  return run_guarded([&]() -> Result<std::unique_ptr<ArchiveWriter>> {
    if (const auto* known = model::find_format(format)) return known->create(sink, options);
    return unsupported("files of the format '" + escaped(format) + "' cannot be written");
  });
}

Result<std::vector<ArchiveSummary>> ArchiveWriter::finish_together(
    std::span<ArchiveWriter* const> writers) {
  return run_guarded([&]() -> Result<std::vector<ArchiveSummary>> {
    std::vector<ArchiveSummary> summaries(writers.size());
    std::vector<Writer*> encoders;
    for (ArchiveWriter* writer : writers) {
      if (Writer* const encoder = writer->encoder()) encoders.push_back(encoder);
    }
    CFCK_TRY_ASSIGN(std::vector<WriteSummary> encoded, cfck::finish_together(encoders));
    auto next = encoded.begin();
    for (std::size_t i = 0; i < writers.size(); ++i) {
      if (writers[i]->encoder() != nullptr) {
        static_cast<WriteSummary&>(summaries[i]) = std::move(*next++);
      } else {
        CFCK_TRY_ASSIGN(summaries[i], writers[i]->finish());
      }
    }
    return summaries;
  });
}

}  // namespace cfck
