#include "tests/hdf5/archive/made_files.hpp"

#include <numeric>
#include <stdexcept>

namespace cfck::test {
namespace {

hid_t must(hid_t id) {
  if (id < 0) throw std::runtime_error("libhdf5 failed");
  return id;
}

}  // namespace

std::vector<std::byte> made_file(const std::function<void(hid_t file)>& fill) {
  const hid_t access = must(H5Pcreate(H5P_FILE_ACCESS));
  must(H5Pset_fapl_core(access, 1 << 16, false));
  const hid_t file = must(H5Fcreate("made", H5F_ACC_TRUNC, H5P_DEFAULT, access));
  fill(file);
  must(H5Fflush(file, H5F_SCOPE_GLOBAL));
  std::vector<std::byte> bytes(static_cast<std::size_t>(H5Fget_file_image(file, nullptr, 0)));
  must(static_cast<hid_t>(H5Fget_file_image(file, bytes.data(), bytes.size())));
  H5Fclose(file);
  H5Pclose(access);
  return bytes;
}

void put_floats(hid_t file, const std::string& name, const std::vector<hsize_t>& shape,
                const std::vector<hsize_t>& chunk) {
  hsize_t n_elems = 1;
  for (const hsize_t size : shape) n_elems *= size;
  std::vector<float> values(n_elems);
  std::iota(values.begin(), values.end(), 0.0F);
  const hid_t space = must(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  const hid_t properties = must(H5Pcreate(H5P_DATASET_CREATE));
  if (!chunk.empty()) {
    must(H5Pset_chunk(properties, static_cast<int>(chunk.size()), chunk.data()));
    must(H5Pset_shuffle(properties));
    must(H5Pset_deflate(properties, 4));
  }
  const hid_t dataset = must(
      H5Dcreate2(file, name.c_str(), H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
  must(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  H5Dclose(dataset);
  H5Pclose(properties);
  H5Sclose(space);
}

hid_t put_group(hid_t file, const std::string& name) {
  return must(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
}

void put_text_attribute(hid_t object, const std::string& name, const std::string& text) {
  const hid_t type = must(H5Tcopy(H5T_C_S1));
  must(H5Tset_size(type, H5T_VARIABLE));
  const hid_t space = must(H5Screate(H5S_SCALAR));
  const hid_t attribute =
      must(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
  const char* const pointer = text.c_str();
  must(H5Awrite(attribute, type, &pointer));
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

std::vector<std::byte> sample_file() {
  return made_file([](hid_t file) {
    put_text_attribute(file, "title", "a model");
    const hid_t group = put_group(file, "layers");
    put_text_attribute(group, "name", "dense");
    put_floats(group, "plain", {6, 7});
    put_floats(group, "packed", {13, 9}, {4, 9});
    must(H5Lcreate_hard(group, "plain", file, "tied", H5P_DEFAULT, H5P_DEFAULT));
    must(H5Lcreate_soft("/layers/plain", file, "soft", H5P_DEFAULT, H5P_DEFAULT));
    const hid_t space = must(H5Screate(H5S_SCALAR));
    const hid_t dataset =
        must(H5Dcreate2(file, "big", H5T_STD_I64BE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const long long value = -5;
    must(H5Dwrite(dataset, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value));
    H5Dclose(dataset);
    H5Sclose(space);
    H5Gclose(group);
  });
}

}  // namespace cfck::test
