// Files whose chunks have fewer bytes than they should: none of them may show what was in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "hdf5/archive/include/cfck/hdf5.hpp"
#include "tests/hdf5/archive/made_files.hpp"

namespace cfck::test {
namespace {

constexpr int kFiles = 1000;
constexpr hsize_t kChunkElems = 480;
constexpr hsize_t kElems = 3 * kChunkElems;  // the second chunk is the short one
constexpr H5Z_filter_t kOwnFilter = 300;
constexpr unsigned kAllFilters = ~0U;
constexpr char kPerturbed = '\x27';  // of memory that is free

// The filters of a file; those whose bit is set in `left_out` are left out.
struct Chain {
  const char* name;
  std::vector<void (*)(hid_t properties, int level)> filters;
};

void shuffle(hid_t properties, int) { H5Pset_shuffle(properties); }
void deflate(hid_t properties, int level) {
  H5Pset_deflate(properties, static_cast<unsigned>(level % 10));
}
void checksum(hid_t properties, int) { H5Pset_fletcher32(properties); }
void scale(hid_t properties, int) {
  H5Pset_scaleoffset(properties, H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT);
}
void scale_digits(hid_t properties, int level) {
  H5Pset_scaleoffset(properties, H5Z_SO_FLOAT_DSCALE, level % 4);
}
void n_bit(hid_t properties, int) { H5Pset_nbit(properties); }
void own(hid_t properties, int) {
  H5Pset_filter(properties, kOwnFilter, H5Z_FLAG_MANDATORY, 0, nullptr);
}

const std::vector<Chain>& chains() {
  static const std::vector<Chain> kChains = {
      {"none", {}},
      {"deflate", {&deflate}},
      {"shuffle", {&shuffle}},
      {"fletcher32", {&checksum}},
      {"shuffle, deflate", {&shuffle, &deflate}},
      {"shuffle, deflate, fletcher32", {&shuffle, &deflate, &checksum}},
      {"fletcher32, deflate", {&checksum, &deflate}},
      {"nbit, deflate", {&n_bit, &deflate}},
      {"scaleoffset", {&scale}},
      {"scaleoffset, deflate", {&scale, &deflate}},
      {"scaleoffset of digits", {&scale_digits}},
      {"own", {&own}},
      {"own, deflate", {&own, &deflate}},
  };
  return kChains;
}

bool is_of_integers(const Chain& chain) {
  return !chain.filters.empty() && chain.filters[0] == &scale;
}
bool is_of_floats(const Chain& chain) {
  return !chain.filters.empty() && chain.filters[0] == &scale_digits;
}

hid_t type_of(const Chain& chain, int i) {
  const hid_t integers[] = {H5T_STD_U8LE, H5T_STD_I16LE, H5T_STD_I32BE, H5T_STD_U64LE};
  const hid_t floats[] = {H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_IEEE_F64BE};
  if (is_of_integers(chain) || (!is_of_floats(chain) && i % 2 == 0)) return integers[i / 2 % 4];
  return floats[i / 2 % 3];
}

hid_t made_dataset(hid_t file, const char* name, hid_t type, const Chain& chain, int level,
                   unsigned left_out, hsize_t n_elems, hsize_t chunk_elems) {
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 1, &chunk_elems);
  for (std::size_t i = 0; i < chain.filters.size(); ++i) {
    if ((left_out >> i & 1U) == 0) chain.filters[i](properties, level);
  }
  const hid_t space = H5Screate_simple(1, &n_elems, nullptr);
  const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  EXPECT_GE(dataset, 0) << chain.name;
  H5Sclose(space);
  H5Pclose(properties);
  return dataset;
}

void write(hid_t dataset, std::uint32_t seed, hsize_t n_elems) {
  std::mt19937 random(seed);
  std::vector<int> values(n_elems);
  for (int& value : values) value = static_cast<int>(random() % 100);
  EXPECT_GE(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
}

// The bytes that a chunk with fewer elements has after the filters that are not left out.
std::vector<std::byte> encoded(hid_t type, const Chain& chain, int level, unsigned left_out,
                               std::uint32_t seed, hsize_t n_elems) {
  std::vector<std::byte> bytes;
  (void)made_file([&](hid_t file) {
    const hid_t dataset = made_dataset(file, "c", type, chain, level, left_out, n_elems, n_elems);
    write(dataset, seed, n_elems);
    H5Dflush(dataset);
    const hsize_t place = 0;
    hsize_t n_bytes = 0;
    std::uint32_t mask = 0;
    EXPECT_GE(H5Dget_chunk_storage_size(dataset, &place, &n_bytes), 0);
    bytes.resize(n_bytes);
    EXPECT_GE(H5Dread_chunk(dataset, H5P_DEFAULT, &place, &mask, bytes.data()), 0);
    EXPECT_EQ(mask, 0U);
    H5Dclose(dataset);
  });
  return bytes;
}

struct Case {
  std::string what;
  std::vector<std::byte> file;
  std::vector<std::byte> honest;  // the elements, if nothing was missing
};

// The file with this number: each filter, level and mask, cut before the filters or behind them.
Case made_case(int i) {
  std::mt19937 random(static_cast<std::uint32_t>(i));
  const Chain& chain = chains()[static_cast<std::size_t>(i) % chains().size()];
  const int n = i / static_cast<int>(chains().size());
  const unsigned masks[] = {0, kAllFilters, 1, 2, 4};
  const unsigned mask = masks[n % 5];
  const bool is_cut_behind = n / 5 % 2 != 0;
  const bool is_honest = n % 11 == 10;
  const hid_t type = type_of(chain, n);
  const std::uint32_t seed = random();
  const hsize_t n_left =
      is_honest || is_cut_behind ? kChunkElems : 1 + random() % (kChunkElems - 1);
  std::vector<std::byte> chunk = encoded(type, chain, n, mask, seed, n_left);
  if (is_cut_behind && !is_honest) chunk.resize(1 + random() % (chunk.size() - 1));
  const std::vector<std::byte> whole = encoded(type, chain, n, mask, seed, kChunkElems);
  Case made;
  made.what = std::string(chain.name) + ", mask " + std::to_string(mask) + ", number " +
              std::to_string(i) + (is_cut_behind ? ", cut behind" : "");
  const auto file_with = [&](const std::vector<std::byte>& second, bool reads) {
    return made_file([&](hid_t file) {
      hid_t dataset = made_dataset(file, "w", type, chain, n, 0, kElems, kChunkElems);
      write(dataset, seed + 1, kElems);
      const hsize_t place = kChunkElems;
      const auto all = static_cast<std::uint32_t>((1U << chain.filters.size()) - 1);
      EXPECT_GE(
          H5Dwrite_chunk(dataset, H5P_DEFAULT, mask & all, &place, second.size(), second.data()),
          0);
      if (reads) {
        // The dataset still knows of the chunk as it was before.
        H5Dclose(dataset);
        dataset = H5Dopen2(file, "w", H5P_DEFAULT);
        const hid_t native = H5Tcopy(type);
        H5Tset_order(native, H5T_ORDER_LE);
        made.honest.resize(kElems * H5Tget_size(native));
        EXPECT_GE(H5Dread(dataset, native, H5S_ALL, H5S_ALL, H5P_DEFAULT, made.honest.data()), 0);
        H5Tclose(native);
      }
      H5Dclose(dataset);
    });
  };
  (void)file_with(whole, true);
  made.file = file_with(chunk, false);
  // Without filters the file has all bytes of a chunk, however few were written to it last.
  if (chain.filters.empty()) made.honest.clear();
  return made;
}

// Leaves bytes in memory that is free again.
void poison() {
  std::vector<std::string> secrets;
  for (int i = 0; i < 500; ++i) {
    secrets.emplace_back();
    while (secrets.back().size() < 20U * static_cast<unsigned>(i))
      secrets.back() += "SECRET-TOKEN-";
  }
}

// Whether bytes are those that memory had, of this process or of the one that reads.
bool has_memory(ByteView bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const std::string& of_memory :
       {std::string("SECRET"), std::string(16, kPerturbed), std::string(16, ~kPerturbed)}) {
    if (text.find(of_memory) != std::string_view::npos) return true;
  }
  return false;
}

class Poisoned : public ::testing::Test {
 protected:
  // Memory of the process that reads is not zero, but this, when it gets it.
  Poisoned() {
    ::setenv("MALLOC_PERTURB_", std::to_string(kPerturbed).c_str(), 1);
    H5PLprepend(CFCK_READER_FOLDER "/../hdf5/plugin");
  }
  ~Poisoned() override { ::unsetenv("MALLOC_PERTURB_"); }
};

TEST_F(Poisoned, ShortChunksOfEachFilterShowNothing) {
  int n_refused = 0;
  for (int i = 0; i < kFiles; ++i) {
    Case made = made_case(i);
    if (i % 50 == 0) poison();
    const auto archive = hdf5::open(std::make_unique<OwnedMemorySource>(std::move(made.file)));
    ASSERT_TRUE(archive.has_value()) << made.what << ": " << archive.error().to_string();
    const auto read = (*archive)->read("w");
    if (!read) {
      ASSERT_EQ(read.error().code, ErrorCode::kCorrupt)
          << made.what << ": " << read.error().to_string();
      ++n_refused;
      continue;
    }
    ASSERT_FALSE(has_memory(read->bytes())) << made.what;
    if (made.honest.empty()) continue;
    // scaleoffset does not need the last byte of what it wrote.
    ASSERT_TRUE(std::equal(read->bytes().begin(), read->bytes().end(), made.honest.begin(),
                           made.honest.end()))
        << made.what;
  }
  EXPECT_GT(n_refused, kFiles * 8 / 10);
}

}  // namespace
}  // namespace cfck::test
