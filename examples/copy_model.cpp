// Reads the tensors of any model (.cfck, safetensors, a folder of shards), and writes them as one
// .cfck file, with names, ties and metadata.
//
//   copy_model IN OUT.cfck
#include <cfck/cfck.hpp>
#include <cstdio>
#include <memory>
#include <string>

namespace {

cfck::Result<void> list(const cfck::TensorArchive& archive) {
  for (const cfck::ArchiveTensor& tensor : archive.tensors()) {
    if (tensor.hidden) continue;  // memory behind views, without a name
    std::printf("%s: %llu values\n", tensor.name.c_str(),
                static_cast<unsigned long long>(tensor.n_elems));
  }
  return {};
}

cfck::Result<void> copy(const cfck::TensorArchive& archive, const std::string& path) {
  // The file at `path` appears when commit() has returned, whole; without it nothing is left.
  CFCK_TRY_ASSIGN(const auto file, cfck::AtomicFile::create(path));
  CFCK_TRY_ASSIGN(const auto writer, cfck::ArchiveWriter::create("cfck", *file));
  CFCK_TRY(writer->add_archive(archive));
  CFCK_TRY(writer->finish());
  return file->commit();
}

cfck::Result<void> run(const std::string& in, const std::string& out) {
  CFCK_TRY_ASSIGN(const auto archive, cfck::TensorArchive::open(in));
  CFCK_TRY(list(*archive));
  return copy(*archive, out);
}

}  // namespace

int main(int n_arguments, char** arguments) {
  if (n_arguments != 3) {
    std::fprintf(stderr, "usage: copy_model IN OUT.cfck\n");
    return 2;
  }
  if (const auto done = run(arguments[1], arguments[2]); !done) {
    std::fprintf(stderr, "copy_model: %s\n", done.error().to_string().c_str());
    return 1;
  }
  return 0;
}
