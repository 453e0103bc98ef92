// Files beside the model of a folder that have tensors of its training: optimizer.pt, for one.
#pragma once

#include <string>
#include <vector>

#include "cfck/options.hpp"
#include "cfck/status.hpp"
#include "model/folder/model_folder.hpp"
#include "tools/convert/convert.hpp"

namespace cfck::tools {

// For a conversion to .cfck: takes the files of PyTorch with tensors that are beside a model out of
// `contents.other_files`, and returns their names. Those that cannot be read, and those without
// tensors, stay and are copied.
std::vector<std::string> take_training_state(model::FolderContents& contents,
                                             const ConvertOptions& options);

// For a conversion from .cfck: only .cfck files hold the containers of a training state, so that
// its files become `contents.other_files`, which are copied.
void keep_training_state(model::FolderContents& contents, const ConvertOptions& options);

// Returns the options without what loses values: training goes on only from what it was.
EncodeOptions lossless_options(const EncodeOptions& options);

}  // namespace cfck::tools
