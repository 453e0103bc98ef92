#include "hdf5/library/library.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "base/forks/forks.hpp"
#include "base/text.hpp"
#include "hdf5/library/plugin_folders.hpp"

namespace cfck::hdf5 {
namespace {

// Never destroyed: other static objects may close files after main(). A fork waits for the thread
// that is in libhdf5, whose state a child could not use otherwise.
std::recursive_mutex& library_mutex() {
  static constinit MadeOnce<std::recursive_mutex*> made;
  return *made.get([] {
    auto* const mutex = new std::recursive_mutex;
    // The child's thread is not the owner of what it locked as a thread of the parent.
    (void)::pthread_atfork([] { library_mutex().lock(); }, [] { library_mutex().unlock(); },
                           [] { ::new (&library_mutex()) std::recursive_mutex; });
    return mutex;
  });
}

struct Reason {
  std::string text;
  bool is_memory = false;
};

herr_t take_innermost(unsigned depth, const H5E_error2_t* error, void* data) {
  auto& reason = *static_cast<Reason*>(data);
  if (depth == 0 && error->desc != nullptr) reason.text = error->desc;
  if (depth == 0)
    reason.is_memory = error->min_num == H5E_NOSPACE || error->min_num == H5E_CANTALLOC;
  return 0;
}

struct Links {
  std::vector<Link> all;
  std::size_t max_links = 0;
  bool too_many = false;
};

template <class Info>
herr_t add_link(hid_t, const char* name, const Info* info, void* data) {
  auto& links = *static_cast<Links*>(data);
  links.too_many = links.all.size() >= links.max_links;
  if (links.too_many) return 1;
  try {
    links.all.push_back({name, info->type});
  } catch (...) {
    return -1;  // no exception may pass through C
  }
  return 0;
}

}  // namespace

Library::Library() {
  library_mutex().lock();
  H5open();
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  add_plugin_folders();
  H5Eclear2(H5E_DEFAULT);
}

Library::~Library() {
  H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
  library_mutex().unlock();
}

Error library_error(std::string what) {
  Reason reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, &take_innermost, &reason);
  H5Eclear2(H5E_DEFAULT);
  if (!reason.text.empty()) what += ": HDF5 says '" + escaped(reason.text) + "'";
  if (reason.is_memory) {
    return limit_exceeded(std::move(what) +
                          "; the file asks for more memory than it may have, or than there is");
  }
  return corrupt(std::move(what));
}

Result<Handle> checked(hid_t id, const char* what) {
  if (id < 0) return library_error(what);
  return Handle(id);
}

Result<void> checked_status(herr_t status, const char* what) {
  if (status < 0) return library_error(what);
  return {};
}

Result<ObjectInfo> object_info(hid_t object) {
  ObjectInfo found;
  constexpr unsigned kFields = H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS;
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info{};
  CFCK_TRY(checked_status(H5Oget_info3(object, &info, kFields), "an object cannot be read"));
  static_assert(sizeof(info.token) == sizeof(found.address));
  std::memcpy(found.address.data(), &info.token, sizeof(info.token));
#else
  H5O_info_t info{};
  CFCK_TRY(checked_status(H5Oget_info2(object, &info, kFields), "an object cannot be read"));
  std::memcpy(found.address.data(), &info.addr, sizeof(info.addr));
#endif
  found.type = info.type;
  found.n_links = info.rc;
  found.n_attributes = info.num_attrs;
  return found;
}

Result<std::vector<Link>> links_of(hid_t group, bool by_creation, std::size_t max_links) {
  Links links;
  links.max_links = max_links;
  const H5_index_t index = by_creation ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
#if H5_VERSION_GE(1, 12, 0)
  const herr_t status =
      H5Literate2(group, index, H5_ITER_INC, nullptr, &add_link<H5L_info2_t>, &links);
#else
  const herr_t status =
      H5Literate(group, index, H5_ITER_INC, nullptr, &add_link<H5L_info_t>, &links);
#endif
  if (links.too_many) {
    return limit_exceeded("the file has more objects than the " + std::to_string(max_links) +
                          " that are read here");
  }
  CFCK_TRY(checked_status(status, "a group cannot be listed"));
  return std::move(links.all);
}

Result<std::string> soft_target(hid_t group, const std::string& name) {
#if H5_VERSION_GE(1, 12, 0)
  H5L_info2_t info{};
  const herr_t status = H5Lget_info2(group, name.c_str(), &info, H5P_DEFAULT);
#else
  H5L_info_t info{};
  const herr_t status = H5Lget_info(group, name.c_str(), &info, H5P_DEFAULT);
#endif
  CFCK_TRY(checked_status(status, "a link cannot be read"));
  constexpr std::size_t kMaxTargetBytes = 65536;
  if (info.u.val_size > kMaxTargetBytes) return corrupt("a link has a target above 64 KiB");
  std::string target(info.u.val_size + 1, '\0');
  CFCK_TRY(
      checked_status(H5Lget_val(group, name.c_str(), target.data(), target.size() - 1, H5P_DEFAULT),
                     "a link cannot be read"));
  target.resize(std::strlen(target.c_str()));
  return target;
}

}  // namespace cfck::hdf5
