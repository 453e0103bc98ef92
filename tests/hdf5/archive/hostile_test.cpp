// Damaged and hostile HDF5 files: an error that says what is wrong, or the values.
#include <gtest/gtest.h>

#include <cstring>

#include "hdf5/archive/include/cfck/hdf5.hpp"
#include "tests/hdf5/archive/made_files.hpp"

namespace cfck::test {
namespace {

Result<std::unique_ptr<TensorArchive>> opened(std::vector<std::byte> bytes) {
  ArchiveOptions options;
  options.decode.limits.max_decoded_bytes = 1 << 20;
  return hdf5::open(std::make_unique<OwnedMemorySource>(std::move(bytes)), options);
}

// Reads all it can; true if nothing failed.
bool reads(std::vector<std::byte> bytes) {
  const auto archive = opened(std::move(bytes));
  if (!archive) {
    EXPECT_FALSE(archive.error().message.empty());
    return false;
  }
  bool all = true;
  for (const ArchiveTensor& tensor : (*archive)->tensors()) {
    const auto read = (*archive)->read(tensor);
    EXPECT_TRUE(read || !read.error().message.empty());
    all = all && read.has_value();
  }
  return all;
}

TEST(HostileHdf5, EveryPrefixIsRefused) {
  const auto whole = sample_file();
  EXPECT_TRUE(reads(whole));
  for (std::size_t n_bytes = 0; n_bytes < whole.size(); n_bytes += n_bytes < 4096 ? 7 : 61) {
    ASSERT_FALSE(reads({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n_bytes)}))
        << n_bytes;
  }
}

TEST(HostileHdf5, ChangedBytesNeverCrash) {
  const auto whole = sample_file();
  std::size_t n_refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (whole[at] == std::byte{0} && at % 5 != 0) continue;
    constexpr int kChanges[] = {0x01, 0x80, 0xff};
    auto bytes = whole;
    bytes[at] ^= static_cast<std::byte>(kChanges[at % 3]);
    n_refused += reads(std::move(bytes)) ? 0 : 1;
  }
  EXPECT_GT(n_refused, 100U);
}

// Replaces a number that the file has exactly once.
void replace(std::vector<std::byte>& bytes, std::uint64_t from, std::uint64_t to) {
  std::size_t n_found = 0;
  for (std::size_t at = 0; at + 8 <= bytes.size(); ++at) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, 8);
    if (value != from) continue;
    std::memcpy(bytes.data() + at, &to, 8);
    ++n_found;
  }
  ASSERT_GE(n_found, 1U);
}

TEST(HostileHdf5, ClaimsBeyondTheFileAreRefused) {
  constexpr std::uint64_t kLength = 1013;
  const auto honest = made_file([](hid_t file) { put_floats(file, "w", {kLength}); });
  for (const std::uint64_t claim :
       {std::uint64_t{1014}, std::uint64_t{1} << 40, std::uint64_t{1} << 61, ~std::uint64_t{0}}) {
    auto bytes = honest;
    replace(bytes, kLength, claim);
    const auto archive = opened(std::move(bytes));
    if (!archive) continue;
    const auto read = (*archive)->read("w");
    ASSERT_FALSE(read.has_value()) << claim;
  }
}

TEST(HostileHdf5, HugeChunkedClaimsTakeNoMemory) {
  auto bytes = made_file([](hid_t file) {
    const hsize_t shape[] = {std::uint64_t{1} << 45};
    const hsize_t chunk[] = {16};
    const hid_t space = H5Screate_simple(1, shape, nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 1, chunk);
    const hid_t dataset =
        H5Dcreate2(file, "w", H5T_IEEE_F64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Dclose(dataset);
    H5Pclose(properties);
    H5Sclose(space);
  });
  const auto archive = opened(std::move(bytes));
  ASSERT_TRUE(archive.has_value()) << archive.error().to_string();
  EXPECT_EQ((*archive)->read("w").error().code, ErrorCode::kLimitExceeded);
  std::vector<std::byte> part(80);
  EXPECT_TRUE((*archive)->read_elements(*(*archive)->find("w"), 1 << 20, 10, part));
  EXPECT_EQ(part, std::vector<std::byte>(80));
}

TEST(HostileHdf5, LinksToOtherFilesAreNamed) {
  auto bytes = made_file([](hid_t file) {
    put_floats(file, "w", {3});
    H5Lcreate_external("/etc/passwd", "/x", file, "away", H5P_DEFAULT, H5P_DEFAULT);
  });
  const auto archive = opened(std::move(bytes));
  ASSERT_FALSE(archive.has_value());
  EXPECT_EQ(archive.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(archive.error().record, "away");
}

TEST(HostileHdf5, DeepGroupsAndManyLinksEnd) {
  auto bytes = made_file([](hid_t file) {
    hid_t group = H5Gopen2(file, "/", H5P_DEFAULT);
    for (int depth = 0; depth < 3000; ++depth) {
      const hid_t inner = put_group(group, "g");
      H5Lcreate_hard(file, "/", inner, "root", H5P_DEFAULT, H5P_DEFAULT);
      H5Gclose(group);
      group = inner;
    }
    put_floats(group, "w", {3});
    H5Gclose(group);
  });
  const auto archive = opened(std::move(bytes));
  ASSERT_TRUE(archive.has_value()) << archive.error().to_string();
  ASSERT_EQ((*archive)->tensors().size(), 1U);
  EXPECT_TRUE((*archive)->read((*archive)->tensors()[0]).has_value());
}

// A file of 1 MiB, whose strings would take 4 GiB.
TEST(HostileHdf5, ManyStringsThatAreOneAreRefused) {
  constexpr std::size_t kStrings = 4000;
  constexpr std::size_t kReferenceBytes = 16;
  const std::string text(1 << 20, 'x');
  haddr_t offset = 0;
  auto bytes = made_file([&](hid_t file) {
    const hsize_t shape[] = {kStrings};
    const hid_t space = H5Screate_simple(1, shape, nullptr);
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    const hid_t dataset = H5Dcreate2(file, "s", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    std::vector<const char*> texts(kStrings, nullptr);
    texts[0] = text.c_str();
    H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data());
    offset = H5Dget_offset(dataset);
    H5Dclose(dataset);
    H5Tclose(type);
    H5Sclose(space);
  });
  for (std::size_t i = 1; i < kStrings; ++i) {
    std::memcpy(bytes.data() + offset + i * kReferenceBytes, bytes.data() + offset,
                kReferenceBytes);
  }
  const auto archive = opened(std::move(bytes));
  ASSERT_FALSE(archive.has_value());
  EXPECT_EQ(archive.error().code, ErrorCode::kLimitExceeded);
  EXPECT_NE(archive.error().message.find("64 MiB"), std::string::npos) << archive.error().message;
}

TEST(HostileHdf5, LongPathsOfManyObjectsAreRefused) {
  auto bytes = made_file([](hid_t file) {
    hid_t group = H5Gopen2(file, "/", H5P_DEFAULT);
    for (int depth = 0; depth < 30; ++depth) {
      const hid_t inner = put_group(group, std::string(2000, 'n'));
      H5Gclose(group);
      group = inner;
    }
    for (int i = 0; i < 2000; ++i) {
      H5Lcreate_soft("x", group, std::to_string(i).c_str(), H5P_DEFAULT, H5P_DEFAULT);
    }
    H5Gclose(group);
  });
  const auto archive = opened(std::move(bytes));
  ASSERT_FALSE(archive.has_value());
  EXPECT_EQ(archive.error().code, ErrorCode::kLimitExceeded);
  EXPECT_NE(archive.error().message.find("paths"), std::string::npos) << archive.error().message;
}

TEST(HostileHdf5, MissingFiltersAreNamed) {
  auto bytes = made_file([](hid_t file) { put_floats(file, "w", {64}, {16}); });
  // The deflate filter has the number 1; the message of filters begins with version and count.
  const unsigned char kMessage[] = {1, 0, 8, 0};  // deflate, and the length of its name
  bool changed = false;
  for (std::size_t at = 0; at + 16 <= bytes.size() && !changed; ++at) {
    changed = std::memcmp(bytes.data() + at, kMessage, 4) == 0 &&
              std::memcmp(bytes.data() + at + 8, "deflate", 7) == 0;
    if (changed) bytes[at + 1] = std::byte{0x7d};
  }
  ASSERT_TRUE(changed);
  const auto archive = opened(std::move(bytes));
  ASSERT_TRUE(archive.has_value()) << archive.error().to_string();
  const auto read = (*archive)->read("w");
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(read.error().message.find("32001"), std::string::npos) << read.error().message;
}

}  // namespace
}  // namespace cfck::test
