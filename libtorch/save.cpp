#include "libtorch/save.hpp"

#include "cfck/checkpoint.hpp"
#include "libtorch/errors.hpp"

namespace cfck::libtorch {

Result<WriteSummary> write_file(const std::vector<NamedTensor>& tensors,
                                const std::string& skeleton, const std::string& path,
                                const SaveOptions& options) {
  CFCK_TRY_ASSIGN(const Prepared prepared, prepare(tensors));
  EncodeOptions encode = options.encode;
  for (const NamedTensor& named : tensors) {
    if (!named.is_parameter) encode.exempt.push_back(named.name);
  }
  if (!options.replace_base) {
    CFCK_TRY(check_no_dependents(path, "choose another name, or set SaveOptions::replace_base"));
  }
  AtomicFile::Options how;
  how.replace_existing = options.replace_existing;
  CFCK_TRY_ASSIGN(const auto file, AtomicFile::create(path, how));
  CFCK_TRY_ASSIGN(Writer writer, Writer::create(*file, encode));
  for (const auto& [key, value] : options.metadata) CFCK_TRY(writer.set_metadata(key, value));
  if (!skeleton.empty()) {
    CFCK_TRY(writer.attach(kCheckpointAttachment, std::as_bytes(std::span(skeleton))));
  }
  CFCK_TRY(writer.add_tensors(prepared.tensors));
  CFCK_TRY_ASSIGN(WriteSummary summary, writer.finish());
  CFCK_TRY(file->commit());
  return summary;
}

Result<WriteSummary> save(const torch::nn::Module& module, const std::string& path,
                          const SaveOptions& options) {
  return run_with_torch([&] { return write_file(tensors_of(module), {}, path, options); });
}

Result<WriteSummary> save(const Tensors& tensors, const std::string& path,
                          const SaveOptions& options) {
  return run_with_torch([&] {
    std::vector<NamedTensor> named;
    for (const auto& item : tensors) named.push_back({item.key(), item.value(), true});
    return write_file(named, {}, path, options);
  });
}

Result<WriteSummary> save(const std::map<std::string, at::Tensor>& tensors, const std::string& path,
                          const SaveOptions& options) {
  return run_with_torch([&] {
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : tensors) named.push_back({name, tensor, true});
    return write_file(named, {}, path, options);
  });
}

}  // namespace cfck::libtorch
