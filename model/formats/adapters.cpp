#include "model/formats/adapters.hpp"

#include <dlfcn.h>

#include <map>

#include "base/forks/forks.hpp"
#include "base/modules/modules.hpp"
#include "base/text.hpp"
#include "cfck/version.hpp"

namespace cfck::model {
namespace {

Result<const ArchiveAdapter*> adapter_in(const Module& module) {
  const auto entry = reinterpret_cast<AdapterEntry>(::dlsym(module.handle, kAdapterEntry));
  const char* own = "unknown";
  const ArchiveAdapter* const adapter =
      entry == nullptr ? nullptr : entry(adapter_build().c_str(), &own);
  if (adapter != nullptr) return adapter;
  return unsupported("'" + escaped(module.path) + "' is of another build of cfck (" + escaped(own) +
                     ") than this one (" + adapter_build() + "); install both from the same build");
}

}  // namespace

const std::string& adapter_build() {
  static constinit MadeOnce<std::string> made;
  return made.get([] {
    std::string build = "cfck ";
    build.append(library_version())
        .append(", compiler ")
        .append(__VERSION__)
        .append(", interface ");
    build.append(std::to_string(kAdapterInterface)).append(", sizes");
    for (const std::size_t size :
         {sizeof(ArchiveTensor), sizeof(ArchiveFile), sizeof(ArchiveOptions), sizeof(EncodeOptions),
          sizeof(ArchiveSummary), sizeof(TensorSource), sizeof(TensorView), sizeof(VerifyReport),
          sizeof(Error), sizeof(ArchiveAdapter)}) {
      build.append(" ").append(std::to_string(size));
    }
    return build;
  });
}

Result<const ArchiveAdapter*> load_adapter(std::string_view name) {
  using Loaded = std::map<std::string, const ArchiveAdapter*, std::less<>>;
  static constinit MadeOnce<PerProcess<Loaded>> adapters;
  const auto loaded = adapters.get([] { return PerProcess<Loaded>(); }).lock();
  if (const auto found = loaded->find(name); found != loaded->end()) return found->second;
  CFCK_TRY_ASSIGN(const Module module, open_module("cfck_archive_" + std::string(name) + ".so"));
  CFCK_TRY_ASSIGN(const ArchiveAdapter* const adapter, adapter_in(module));
  loaded->emplace(name, adapter);
  return adapter;
}

}  // namespace cfck::model
