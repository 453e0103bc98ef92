// The files that stand for a model, opened as one archive.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cfck/archive.hpp"
#include "cfck/status.hpp"
#include "model/folder/model_files.hpp"

namespace cfck::model {

struct OpenedModel {
  std::unique_ptr<TensorArchive> archive;
  ModelFiles files;
  std::vector<const TensorArchive*> parts;  // of each of files.paths; they live in `archive`

  // True if the model has the tensor, one of `archive`, under its name. Names that only metadata
  // give count where the index has them.
  bool lists(const ArchiveTensor& tensor) const;
};

using OpenArchive = std::function<Result<std::unique_ptr<TensorArchive>>(const std::string& path)>;

// Finds the files of the model, opens each, and begins again where somebody replaces them
// meanwhile. Errors: those of model_files(), of `open`, with the path of the file, and of
// tensors_of_model(); kIo for a folder that is replaced again and again.
Result<OpenedModel> open_model(const std::string& path, const OpenArchive& open,
                               const FindOptions& find = {});

}  // namespace cfck::model
