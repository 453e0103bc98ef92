// Writes the tensors of any model as an HDF5 file, opens that, and lists it. Slashes in names make
// groups; cfck::hdf5 links libhdf5, so that nothing is loaded while the program runs.
//
//   to_hdf5 IN OUT.h5
#include <cfck/cfck.hpp>
#include <cfck/hdf5.hpp>
#include <cstdio>
#include <memory>
#include <string>

namespace {

cfck::Result<void> write(const cfck::TensorArchive& archive, const std::string& path) {
  // The file at `path` appears when commit() has returned, whole; without it nothing is left.
  CFCK_TRY_ASSIGN(const auto file, cfck::AtomicFile::create(path));
  CFCK_TRY_ASSIGN(const auto writer, cfck::hdf5::create(*file));
  CFCK_TRY(writer->add_archive(archive));
  CFCK_TRY(writer->finish());
  return file->commit();
}

cfck::Result<void> run(const std::string& in, const std::string& out) {
  CFCK_TRY_ASSIGN(const auto archive, cfck::TensorArchive::open(in));
  CFCK_TRY(write(*archive, out));
  CFCK_TRY_ASSIGN(const auto written, cfck::hdf5::open(out));
  for (const cfck::ArchiveTensor& tensor : written->tensors()) {
    CFCK_TRY_ASSIGN(const auto values, written->read(tensor));
    std::printf("%s: %llu values, %zu bytes\n", tensor.name.c_str(),
                static_cast<unsigned long long>(tensor.n_elems), values.bytes().size());
  }
  return {};
}

}  // namespace

int main(int n_arguments, char** arguments) {
  if (n_arguments != 3) {
    std::fprintf(stderr, "usage: to_hdf5 IN OUT.h5\n");
    return 2;
  }
  if (const auto done = run(arguments[1], arguments[2]); !done) {
    std::fprintf(stderr, "to_hdf5: %s\n", done.error().to_string().c_str());
    return 1;
  }
  return 0;
}
