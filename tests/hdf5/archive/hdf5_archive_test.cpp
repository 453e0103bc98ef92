// HDF5 files as archives: what is listed, and every way to read it.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "hdf5/archive/include/cfck/hdf5.hpp"
#include "tests/hdf5/archive/made_files.hpp"

namespace cfck::test {
namespace {

std::unique_ptr<TensorArchive> opened(std::vector<std::byte> bytes,
                                      const ArchiveOptions& options = {}) {
  auto archive = hdf5::open(std::make_unique<OwnedMemorySource>(std::move(bytes)), options);
  EXPECT_TRUE(archive.has_value()) << archive.error().to_string();
  return archive ? std::move(*archive) : nullptr;
}

std::vector<float> floats(ByteView bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<float> counting(std::size_t n, float first = 0) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(Hdf5Archive, ListsDatasetsByPath) {
  const auto archive = opened(sample_file());
  ASSERT_NE(archive, nullptr);
  ASSERT_EQ(archive->tensors().size(), 4U);
  const ArchiveTensor* const plain = archive->find("layers/plain");
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->dtype, DType::kF32);
  EXPECT_EQ(plain->shape, (Shape{6, 7}));
  EXPECT_TRUE(plain->offset_bytes.has_value());
  const ArchiveTensor* const packed = archive->find("layers/packed");
  ASSERT_NE(packed, nullptr);
  EXPECT_FALSE(packed->offset_bytes.has_value());
  EXPECT_EQ(packed->chunk_elems, 32U);
  const ArchiveTensor* const tied = archive->find("tied");
  ASSERT_NE(tied, nullptr);
  EXPECT_EQ(tied->sharing, Sharing::kMemory);
  EXPECT_EQ(tied->base, plain->index);
  EXPECT_EQ(archive->metadata().at("title"), "a model");
  EXPECT_EQ(archive->files().front().format, "hdf5");
}

TEST(Hdf5Archive, NotesNameAttributesThatAreLeftOut) {
  EXPECT_TRUE(opened(sample_file())->notes().empty());
  const auto archive = opened(made_file([](hid_t file) {
    put_floats(file, "w", {2});
    const hid_t dataset = H5Dopen2(file, "w", H5P_DEFAULT);
    hobj_ref_t reference{};
    H5Rcreate(&reference, file, "w", H5R_OBJECT, -1);
    const hid_t space = H5Screate(H5S_SCALAR);
    for (const char* name : {"a", "b", "c", "d", "e\n", "f", "g"}) {
      const hid_t attribute =
          H5Acreate2(dataset, name, H5T_STD_REF_OBJ, space, H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(attribute, H5T_STD_REF_OBJ, &reference);
      H5Aclose(attribute);
    }
    H5Sclose(space);
    H5Dclose(dataset);
  }));
  ASSERT_NE(archive, nullptr);
  ASSERT_EQ(archive->notes().size(), 1U);
  EXPECT_EQ(archive->notes().front(),
            "7 attributes cannot be kept, since the types are references, sequences of varying "
            "length or the like: 'a' of 'w', 'b' of 'w', 'c' of 'w', 'd' of 'w', 'e\\n' of 'w' "
            "and 2 more");
}

TEST(Hdf5Archive, ReadsWholePartsAndBoxes) {
  const auto archive = opened(sample_file());
  ASSERT_NE(archive, nullptr);
  for (const auto& [name, rows, columns] :
       {std::tuple("layers/plain", 6, 7), std::tuple("layers/packed", 13, 9), {"tied", 6, 7}}) {
    SCOPED_TRACE(name);
    const ArchiveTensor& tensor = *archive->find(name);
    const auto n_elems = static_cast<std::size_t>(rows * columns);
    auto whole = archive->read(tensor);
    ASSERT_TRUE(whole.has_value()) << whole.error().to_string();
    EXPECT_EQ(floats(whole->bytes()), counting(n_elems));
    std::vector<std::byte> part((n_elems - 5) * 4);
    ASSERT_TRUE(archive->read_elements(tensor, 3, n_elems - 5, part));
    EXPECT_EQ(floats(part), counting(n_elems - 5, 3));
    const std::uint64_t starts[] = {2, 1};
    const std::uint64_t stops[] = {4, 4};
    std::vector<std::byte> box(2 * 3 * 4);
    ASSERT_TRUE(archive->read_slice(tensor, starts, stops, box));
    const auto first = static_cast<float>(2 * columns + 1);
    const auto step = static_cast<float>(columns);
    EXPECT_EQ(floats(box), (std::vector<float>{first, first + 1, first + 2, first + step,
                                               first + step + 1, first + step + 2}));
    const std::uint64_t beyond[] = {7, 100};
    EXPECT_EQ(archive->read_slice(tensor, starts, beyond, box).error().code,
              ErrorCode::kInvalidArgument);
  }
  auto big = archive->read("big");
  ASSERT_TRUE(big.has_value());
  std::int64_t value = 0;
  std::memcpy(&value, big->bytes().data(), sizeof(value));
  EXPECT_EQ(value, -5);
}

TEST(Hdf5Archive, ProgressCountsAndCancels) {
  const auto archive = opened(sample_file());
  ASSERT_NE(archive, nullptr);
  std::vector<std::vector<std::byte>> memory;
  std::vector<ArchiveRead> reads;
  std::uint64_t total_bytes = 0;
  for (const ArchiveTensor& tensor : archive->tensors()) {
    memory.emplace_back(tensor.n_bytes);
    reads.push_back({&tensor, memory.back()});
    total_bytes += tensor.n_bytes;
  }
  std::uint64_t last = 0;
  ASSERT_TRUE(archive->read_many(reads, [&](std::uint64_t done_bytes, std::string_view) {
    EXPECT_GE(done_bytes, last);
    last = done_bytes;
    return true;
  }));
  EXPECT_EQ(last, total_bytes);
  const auto stopped =
      archive->read_many(reads, [](std::uint64_t, std::string_view) { return false; });
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

TEST(Hdf5Archive, LimitsAreKept) {
  ArchiveOptions options;
  options.decode.limits.max_decoded_bytes = 100;
  const auto archive = opened(sample_file(), options);
  ASSERT_NE(archive, nullptr);
  EXPECT_EQ(archive->read("layers/plain").error().code, ErrorCode::kLimitExceeded);
  EXPECT_EQ(archive->read("layers/packed").error().code, ErrorCode::kLimitExceeded);
  EXPECT_TRUE(archive->read("big").has_value());
}

TEST(Hdf5Archive, ErrorsOfTheSourceArriveAsTheyAre) {
  // Fails to read behind the first half, as a disk might.
  class Failing final : public ByteSource {
   public:
    explicit Failing(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
    std::uint64_t size() const override { return bytes_.size(); }
    Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
      if (offset_bytes + out.size() > bytes_.size() / 4) return io_error("the disk is gone");
      return MemorySource(bytes_).read_at(offset_bytes, out);
    }

   private:
    std::vector<std::byte> bytes_;
  };
  const auto archive = hdf5::open(std::make_unique<Failing>(sample_file()));
  ASSERT_FALSE(archive.has_value());
  EXPECT_EQ(archive.error().code, ErrorCode::kIo);
  EXPECT_EQ(archive.error().message, "the disk is gone");
}

TEST(Hdf5Archive, TheProgramsOwnErrorPrintingComesBack) {
  H5E_auto2_t before = nullptr;
  H5E_auto2_t after = nullptr;
  void* data = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &before, &data);
  EXPECT_FALSE(hdf5::open(std::make_unique<OwnedMemorySource>(std::vector<std::byte>(1000))));
  H5Eget_auto2(H5E_DEFAULT, &after, &data);
  EXPECT_NE(before, nullptr);
  EXPECT_EQ(before, after);
}

TEST(Hdf5Archive, TensorsOfOthersAreRefused) {
  const auto one = opened(sample_file());
  const auto other = opened(sample_file());
  ASSERT_TRUE(one && other);
  std::vector<std::byte> out(one->find("big")->n_bytes);
  EXPECT_EQ(one->read(*other->find("big"), out).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace cfck::test
