// The plug-in in a libhdf5: parts of a chunk in any order, without a cache or with one, with
// files that are closed in between.
#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <random>

#include "tests/hdf5/filter/written_values.hpp"

namespace cfck::hdf5 {
namespace {

class Hdf5FilterPlugin : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    H5PLprepend(CFCK_PLUGIN_FOLDER);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() /
            ("cfck_plugin_test_" + std::to_string(getpid()) + ".h5");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::filesystem::path path_;
};

hid_t type_of(DType dtype) {
  if (dtype != DType::kF16) {
    return H5Tcopy(dtype == DType::kF64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE);
  }
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(type, 15, 10, 5, 0, 10);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, 15);
  return type;
}

std::vector<unsigned> words_of(const FilterRequest& request) {
  std::vector<unsigned> words(kUserValues);
  words[0] = kValuesVersion;
  words[1] = static_cast<unsigned>(request.mode);
  std::memcpy(&words[2], &request.value, sizeof(double));
  words[4] =
      static_cast<unsigned>(request.options.codec) | (request.is_written_once ? 1u << 31 : 0u);
  std::memcpy(&words[7], &request.max_abs_error, sizeof(double));
  return words;
}

// A file with one dataset of one chunk.
class File {
 public:
  File(std::string path, DType dtype, const FilterRequest& request, double fill)
      : path_(std::move(path)), dtype_(dtype), type_(type_of(dtype)) {
    const hsize_t sides[] = {kRows, kColumns};
    const hid_t space = H5Screate_simple(2, sides, nullptr);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(creation, 2, sides);
    const std::vector<unsigned> words = words_of(request);
    H5Pset_filter(creation, kFilterId, H5Z_FLAG_OPTIONAL, words.size(), words.data());
    const std::vector<std::byte> bits = bytes_of(dtype, {fill});
    H5Pset_fill_value(creation, type_, bits.data());
    file_ = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    dataset_ = H5Dcreate2(file_, "x", type_, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Pclose(creation);
    H5Sclose(space);
  }
  ~File() {
    close();
    H5Tclose(type_);
  }
  bool exists() const { return dataset_ >= 0; }

  void reopen(bool has_cache) {
    close();
    const hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
    if (!has_cache) {
      H5Pset_chunk_cache(access, 0, 0, 1);  // a chunk is encoded by each write
    }
    file_ = H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    dataset_ = H5Dopen2(file_, "x", access);
    H5Pclose(access);
  }
  void flush() { H5Fflush(file_, H5F_SCOPE_GLOBAL); }
  bool write(const Part& part) {
    const hsize_t start[] = {part.first_row, part.first_column};
    const hsize_t count[] = {part.n_rows, part.n_columns};
    const hid_t there = H5Dget_space(dataset_);
    H5Sselect_hyperslab(there, H5S_SELECT_SET, start, nullptr, count, nullptr);
    const hid_t here = H5Screate_simple(2, count, nullptr);
    const std::vector<std::byte> bytes = bytes_of(dtype_, part.values);
    const bool is_written = H5Dwrite(dataset_, type_, here, there, H5P_DEFAULT, bytes.data()) >= 0;
    H5Sclose(here);
    H5Sclose(there);
    return is_written;
  }
  std::vector<double> read() const {
    std::vector<std::byte> bytes = bytes_of(dtype_, std::vector<double>(kRows * kColumns));
    EXPECT_GE(H5Dread(dataset_, type_, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), 0);
    return values_of(dtype_, bytes);
  }

 private:
  void close() {
    if (dataset_ >= 0) {
      EXPECT_GE(H5Dclose(dataset_), 0);
    }
    EXPECT_GE(H5Fclose(file_), 0);
  }

  const std::string path_;
  const DType dtype_;
  const hid_t type_;
  hid_t file_ = H5I_INVALID_HID;
  hid_t dataset_ = H5I_INVALID_HID;
};

FilterRequest request_of(Mode mode, double value, CodecChoice codec = CodecChoice::kAuto) {
  FilterRequest request;
  request.mode = mode;
  request.value = value;
  request.options.codec = codec;
  return request;
}

TEST_F(Hdf5FilterPlugin, PromisesAreKeptInAnyOrderOfWrites) {
  std::mt19937_64 random(1);
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16}) {
    for (const FilterRequest& request :
         {request_of(Mode::kMaxAbsError, 1e-2), request_of(Mode::kMaxRelError, 1e-2),
          request_of(Mode::kMaxAbsError, 0.3, CodecChoice::kDirect), request_of(Mode::kNmse, 1e-3),
          request_of(Mode::kBitsPerWeight, 4)}) {
      const double fill = random() % 2 == 0 ? 0 : -999;
      WrittenValues written(dtype, request, fill);
      File file(path_, dtype, request, fill);
      ASSERT_TRUE(file.exists());
      file.reopen(false);
      for (int round = 0; round < 16; ++round) {
        const Part part = written.random_part(random);
        written.write(part);
        ASSERT_TRUE(file.write(part));
        if (random() % 4 == 0) {
          file.flush();
        }
        if (random() % 4 == 0) {
          file.reopen(random() % 2 == 0);
        }
        ASSERT_EQ(written.problem_of(file.read()), "")
            << dtype_name(dtype) << ", mode " << static_cast<int>(request.mode) << ", round "
            << round;
      }
    }
  }
}

TEST_F(Hdf5FilterPlugin, CodecSpectralNeedsChunksThatAreWrittenOnce) {
  FilterRequest request = request_of(Mode::kMaxAbsError, 1e-2, CodecChoice::kSpectral);
  EXPECT_FALSE(File(path_, DType::kF32, request, 0).exists());
  request.is_written_once = true;
  File file(path_, DType::kF32, request, 0);
  ASSERT_TRUE(file.exists());
  std::mt19937_64 random(1);
  WrittenValues written(DType::kF32, request, 0);
  const Part part = written.rows(random, 0, kRows);
  written.write(part);
  ASSERT_TRUE(file.write(part));
  file.reopen(true);
  EXPECT_EQ(written.problem_of(file.read()), "");
}

}  // namespace
}  // namespace cfck::hdf5
