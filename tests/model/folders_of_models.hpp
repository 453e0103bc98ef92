// Folders of models, for tests of how they are read.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cfck/archive.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::test {

// A temporary folder, removed with all that is in it.
class Folder {
 public:
  Folder();
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// Write a file, and the folders that it is in.
void write_bytes(const std::string& path, std::span<const std::byte> bytes);
void write_text(const std::string& path, const std::string& text);

// F32 tensors of 6 by 100 values, one for each name; `tied` are second names.
struct Model {
  std::vector<std::string> names;
  std::map<std::string, std::string> tied;
};

// The values of the tensor of this name.
Bytes values_of(const std::string& name);

// The file of a model in a format.
using MakeFile = Bytes (*)(const Model& model);
Bytes cfck_bytes(const Model& model);
Bytes safetensors_bytes(const Model& model);

Bytes read_whole(const TensorArchive& archive, const ArchiveTensor& tensor);

}  // namespace cfck::test
