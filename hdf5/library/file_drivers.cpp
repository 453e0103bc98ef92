#include "hdf5/library/file_drivers.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "base/run_guarded.hpp"

namespace cfck::hdf5 {
namespace {

constexpr haddr_t kMaxAddress = (haddr_t{1} << 62) - 1;

// One open file, of either kind. libhdf5 knows it by its first member.
struct OpenFile {
  H5FD_t base = {};
  SourceFile* source = nullptr;
  MemoryFile* memory = nullptr;
  haddr_t end_of_addresses = 0;
};

// What the access properties carry; libhdf5 copies it.
struct Place {
  SourceFile* source = nullptr;
  MemoryFile* memory = nullptr;
};

OpenFile* as_open(H5FD_t* file) { return reinterpret_cast<OpenFile*>(file); }
const OpenFile* as_open(const H5FD_t* file) { return reinterpret_cast<const OpenFile*>(file); }

// The name is that of cfck's own call, or one that a file asks for: it is not looked at.
H5FD_t* open_place(const char*, unsigned, hid_t properties, haddr_t) {
  const auto* const place = static_cast<const Place*>(H5Pget_driver_info(properties));
  if (place == nullptr) return nullptr;
  auto* const file = new (std::nothrow) OpenFile;
  if (file == nullptr) return nullptr;
  file->source = place->source;
  file->memory = place->memory;
  return &file->base;
}

herr_t close_file(H5FD_t* file) {
  delete as_open(file);
  return 0;
}

// No two open files are the same one.
int compare_files(const H5FD_t* a, const H5FD_t* b) { return a == b ? 0 : (a < b ? -1 : 1); }

// The bytes do not change while they are read, so that files which were written for readers beside
// the writer can be read without it.
herr_t query_features(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = H5FD_FEAT_SUPPORTS_SWMR_IO;
  return 0;
}

haddr_t end_of_addresses(const H5FD_t* file, H5FD_mem_t) { return as_open(file)->end_of_addresses; }

herr_t set_end_of_addresses(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  as_open(file)->end_of_addresses = end;
  return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t) {
  const OpenFile& open = *as_open(file);
  return open.source != nullptr ? open.source->source->size() : open.memory->end_bytes;
}

herr_t read_bytes(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t offset_bytes, std::size_t n_bytes,
                  void* out) {
  OpenFile& open = *as_open(file);
  const MutableBytes bytes(static_cast<std::byte*>(out), n_bytes);
  if (open.memory != nullptr) {
    open.memory->read(offset_bytes, bytes);
    return 0;
  }
  const std::uint64_t size = open.source->source->size();
  if (offset_bytes > size || n_bytes > size - offset_bytes) return -1;
  auto done = run_guarded([&] { return open.source->source->read_at(offset_bytes, bytes); });
  if (done) return 0;
  if (!open.source->error) open.source->error = std::move(done).error();
  return -1;
}

herr_t write_bytes(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t offset_bytes, std::size_t n_bytes,
                   const void* bytes) {
  MemoryFile* const memory = as_open(file)->memory;
  if (memory == nullptr) return -1;
  try {
    memory->write(offset_bytes, ByteView(static_cast<const std::byte*>(bytes), n_bytes));
  } catch (const std::bad_alloc&) {
    return -1;
  }
  return 0;
}

herr_t truncate_file(H5FD_t* file, hid_t, hbool_t) {
  OpenFile& open = *as_open(file);
  if (open.memory != nullptr) open.memory->end_bytes = open.end_of_addresses;
  return 0;
}

// Returns the driver, registered once for the process; negative where that fails.
hid_t driver() {
  static const H5FD_class_t kClass = [] {
    H5FD_class_t made{};
#if H5_VERSION_GE(1, 13, 0)
    made.version = H5FD_CLASS_VERSION;
    made.value = static_cast<H5FD_class_value_t>(600);
#endif
    made.name = "cfck";
    made.maxaddr = kMaxAddress;
    made.fc_degree = H5F_CLOSE_STRONG;
    made.fapl_size = sizeof(Place);
    made.open = &open_place;
    made.close = &close_file;
    made.cmp = &compare_files;
    made.query = &query_features;
    made.get_eoa = &end_of_addresses;
    made.set_eoa = &set_end_of_addresses;
    made.get_eof = &end_of_file;
    made.read = &read_bytes;
    made.write = &write_bytes;
    made.truncate = &truncate_file;
    const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
    std::copy(std::begin(map), std::end(map), made.fl_map);
    return made;
  }();
  static const hid_t kDriver = H5FDregister(&kClass);
  return kDriver;
}

Result<Handle> access_to(const Place& place) {
  CFCK_TRY_ASSIGN(Handle properties,
                  checked(H5Pcreate(H5P_FILE_ACCESS), "libhdf5 has no access properties"));
  CFCK_TRY(checked_status(driver(), "libhdf5 refused the driver of cfck"));
  CFCK_TRY(checked_status(H5Pset_driver(properties.get(), driver(), &place),
                          "libhdf5 refused the driver of cfck"));
  CFCK_TRY(checked_status(H5Pset_fclose_degree(properties.get(), H5F_CLOSE_STRONG),
                          "libhdf5 refused access properties"));
  return properties;
}

}  // namespace

void MemoryFile::write(std::uint64_t offset_bytes, ByteView bytes) {
  end_bytes = std::max(end_bytes, offset_bytes + bytes.size());
  while (!bytes.empty()) {
    std::vector<std::byte>& page = pages_[offset_bytes / kPageBytes];
    page.resize(kPageBytes);
    const std::uint64_t at = offset_bytes % kPageBytes;
    const std::size_t n_bytes = std::min<std::uint64_t>(bytes.size(), kPageBytes - at);
    std::memcpy(page.data() + at, bytes.data(), n_bytes);
    bytes = bytes.subspan(n_bytes);
    offset_bytes += n_bytes;
  }
}

void MemoryFile::read(std::uint64_t offset_bytes, MutableBytes out) const {
  while (!out.empty()) {
    const std::uint64_t at = offset_bytes % kPageBytes;
    const std::size_t n_bytes = std::min<std::uint64_t>(out.size(), kPageBytes - at);
    const auto page = pages_.find(offset_bytes / kPageBytes);
    if (page == pages_.end()) {
      std::memset(out.data(), 0, n_bytes);
    } else {
      std::memcpy(out.data(), page->second.data() + at, n_bytes);
    }
    out = out.subspan(n_bytes);
    offset_bytes += n_bytes;
  }
}

Result<Handle> open_source(SourceFile& file) {
  CFCK_TRY_ASSIGN(const Handle access, access_to({&file, nullptr}));
  // The name is for messages of libhdf5 only.
  hid_t opened = H5Fopen("cfck", H5F_ACC_RDONLY, access.get());
  if (opened >= 0) return Handle(opened);
  if (file.error) return copy_of(*file.error);
  Error refused = library_error("not an HDF5 file, or a damaged one; download it again");
  if (refused.message.find("h5clear") == std::string::npos) return refused;
  // Its writer has marked it as open. It can be read if it was written for readers beside the
  // writer.
  CFCK_TRY(checked_status(H5Pset_metadata_read_attempts(access.get(), 1),
                          "libhdf5 refused access properties"));
  opened = H5Fopen("cfck", H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, access.get());
  if (opened >= 0) return Handle(opened);
  if (file.error) return copy_of(*file.error);
  H5Eclear2(H5E_DEFAULT);
  return corrupt(
      "the program that wrote this file has not closed it: it still writes, or was killed. Wait "
      "for "
      "it; or make a copy of the file, remove the mark from that with `h5clear -s`, and check what "
      "is in it");
}

Result<Handle> create_in_memory(MemoryFile& file, hid_t properties, bool large_attributes) {
  CFCK_TRY_ASSIGN(const Handle access, access_to({nullptr, &file}));
  const H5F_libver_t oldest = large_attributes ? H5F_LIBVER_V18 : H5F_LIBVER_EARLIEST;
  CFCK_TRY(checked_status(H5Pset_libver_bounds(access.get(), oldest, H5F_LIBVER_LATEST),
                          "libhdf5 refused access properties"));
  return checked(H5Fcreate("cfck", H5F_ACC_TRUNC, properties, access.get()),
                 "the HDF5 file cannot be created");
}

}  // namespace cfck::hdf5
