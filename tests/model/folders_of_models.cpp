#include "tests/model/folders_of_models.hpp"

#include <unistd.h>

#include <fstream>
#include <functional>

#include "cfck/cfck.hpp"

namespace cfck::test {

Folder::Folder() {
  static int counter = 0;
  path_ = std::filesystem::temp_directory_path() /
          ("cfck-models-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
  std::filesystem::create_directories(path_);
}

void write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void write_text(const std::string& path, const std::string& text) {
  write_bytes(path, std::as_bytes(std::span(text)));
}

Bytes values_of(const std::string& name) {
  return weights(std::hash<std::string>()(name) % 1000 + 1, 600);
}

Bytes cfck_bytes(const Model& model) {
  std::vector<Bytes> values;  // must live until the file is finished
  for (const std::string& name : model.names) values.push_back(values_of(name));
  return write_file([&](Writer& writer) {
    expect_ok(writer.set_metadata("made by", "a test"));
    for (std::size_t i = 0; i < values.size(); ++i) {
      expect_ok(writer.add(model.names[i], TensorView{DType::kF32, {6, 100}, values[i]}));
    }
    for (const auto& [name, base] : model.tied) EXPECT_TRUE(take(writer.tie(name, base)));
  });
}

Bytes safetensors_bytes(const Model& model) {
  const Bytes file = cfck_bytes(model);
  const MemorySource source(file);
  const Reader reader = take(Reader::open(source));
  MemorySink sink;
  expect_ok(write_safetensors(reader, sink));
  return sink.take();
}

Bytes read_whole(const TensorArchive& archive, const ArchiveTensor& tensor) {
  Bytes out(tensor.n_bytes);
  expect_ok(archive.read(tensor, out));
  return out;
}

}  // namespace cfck::test
