// Which file of a folder stands for the model in it.
#pragma once

#include <optional>
#include <string>

#include "cfck/status.hpp"

namespace cfck::model {

// Returns the path of the file, or of the index of shards, to load from a folder that may hold
// several. Names that model libraries use come first ("model", "adapter_model", ...), then the same
// with a variant ("model.fp16.safetensors"), then any other; of one name the first of formats.inc,
// and the index of shards before a single file. Errors: kNotFound if there is none;
// kInvalidArgument, with their names, where this leaves several; kIo.
Result<std::string> find_model(const std::string& folder);

// Likewise, but returns nullopt where no file has a name or an index that says so, and all are of
// one format: they may be parts of one model.
Result<std::optional<std::string>> find_named_model(const std::string& folder);

}  // namespace cfck::model
