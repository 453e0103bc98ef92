#include "tools/convert/copy.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/files/access.hpp"
#include "cfck/io.hpp"
#include "tools/output/interrupt.hpp"

namespace cfck::tools {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

}  // namespace

Result<void> copy_file(const std::string& from, const std::string& to) {
  CFCK_TRY_ASSIGN(const auto source, open_file(from));
  FilesLike files(system_files(), from);
  CFCK_TRY_ASSIGN(const auto file, AtomicFile::create(to, {}, files));
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kCopyBytes, source->size()));
  for (std::uint64_t done = 0; done < source->size();) {
    const auto n_bytes = std::min<std::uint64_t>(buffer.size(), source->size() - done);
    const auto part = std::span(buffer).first(n_bytes);
    CFCK_TRY(source->read_at(done, part));
    CFCK_TRY(file->write(part));
    done += n_bytes;
    if (interrupt_signal() != 0) return cancelled();
  }
  return file->commit();
}

}  // namespace cfck::tools
