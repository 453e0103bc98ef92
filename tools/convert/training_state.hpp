// Files of a folder that hold the state of a training: beside its model, or with it in one file.
#pragma once

#include <string>
#include <vector>

#include "cfck/options.hpp"
#include "cfck/status.hpp"
#include "model/folder/model_folder.hpp"
#include "tools/convert/convert.hpp"

namespace cfck::tools {

// Files of PyTorch with tensors that have no name of a model. Paths relative to the folder, sorted.
struct TrainingFiles {
  // Each is a checkpoint by itself, since no model is beside it: those of Lightning, for one.
  std::vector<std::string> checkpoints;
  std::vector<std::string> states;  // beside a model: optimizer.pt, for one
};

// For a conversion to .cfck: takes these files out of `contents.other_files`. Those that cannot be
// read, and those without tensors, stay and are copied.
TrainingFiles take_training_files(model::FolderContents& contents, const ConvertOptions& options);

// Returns `name` with the suffix of `to` in place of its own.
std::string converted_training_file(const std::string& name, const model::ArchiveFormat& to);

// For a conversion from .cfck: only .cfck files hold the containers of a training state, so that
// its files become `contents.other_files`, which are copied.
void keep_training_state(model::FolderContents& contents, const ConvertOptions& options);

// Returns the options without what loses values: training goes on only from what it was.
EncodeOptions lossless_options(const EncodeOptions& options);

}  // namespace cfck::tools
