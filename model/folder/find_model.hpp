// Which file of a folder stands for the model in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/status.hpp"
#include "model/formats/archive_format.hpp"

namespace cfck::model {

// Returns the path of the file, or of the index of shards, to load from a folder that may hold
// several. Names that model libraries use come first ("model", "adapter_model", ...), then the same
// with a variant ("model.fp16.safetensors"), then any other; of one name the first of formats.inc,
// and the index of shards before a single file. Files of model_formats(), such as
// pytorch_model.bin, count where there is nothing else. Errors: kNotFound if there is none;
// kInvalidArgument, with their names, where this leaves several; kIo.
Result<std::string> find_model(const std::string& folder);

// Likewise, but returns nullopt where no file has a name or an index that says so, and all are of
// one format: they may be parts of one model.
Result<std::optional<std::string>> find_named_model(const std::string& folder);

// True if a file of the folder may be a model, or a shard of one, by its name and its format. False
// where all its files of tensors are those of model_formats() with other names, such as
// epoch=3.ckpt. Error: kIo.
Result<bool> has_model(const std::string& folder);

// Returns the paths of the models that `path` stands for: itself, unless it is a folder of several.
// These are the models in the folders of a pipeline (diffusers writes model_index.json beside
// them), in the folders of any other folder, whether it has a model of its own (checkpoint-500/ of
// transformers, 2_Dense/ of sentence-transformers) or not, and files of tensors whose names are
// neither those of shards nor those that libraries give to models: each is a checkpoint by itself.
// The variants of a model ("model.fp16.safetensors"), or other files that are called like models,
// come after its folder. Sorted by their paths. Errors: kIo, kUnsupported for folders that are
// nested too deeply.
Result<std::vector<std::string>> all_models(const std::string& path);

// Returns the error for a folder without a model of its own where folders in it have some: with
// their names, and that one of them is to be given. Nullopt where there are none.
std::optional<Error> models_below(const std::string& folder);

// Returns the paths of the files that all_models() passes over though their names are those of
// tensors of folders: beside a file with the name of a model, files with names of their own, and
// the same model in another format. Sorted. Errors: those of all_models().
Result<std::vector<std::string>> files_left_out(const std::string& path);

// Returns the paths of the models and files with tensors that the folder has beside its own model,
// or below it. Empty for a file, and for a folder without a model of its own. Sorted. Errors: those
// of all_models().
Result<std::vector<std::string>> beside_model(const std::string& folder);

// Returns the folders of a pipeline that its model_index.json names, and that have a config.json
// but no weights. Errors: those of all_models().
Result<std::vector<std::string>> folders_without_weights(const std::string& path);

// True for the name of a file that may belong to a model of this format without an index: any of
// its suffix in the formats of folders, and names of model libraries in model_formats().
bool may_be_model(std::string_view name, const ArchiveFormat& format);
// True for the name of a file that may be a shard, and is no model by itself.
bool may_be_shard(std::string_view name, const ArchiveFormat& format);

}  // namespace cfck::model
