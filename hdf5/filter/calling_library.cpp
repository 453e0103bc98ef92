#include "hdf5/filter/calling_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "base/forks/forks.hpp"
#include "cfck/version.hpp"

namespace cfck::hdf5 {
namespace {

constexpr Id kDefaultStack = 0;  // H5E_DEFAULT

template <class Pointer>
void look_up(void* library, const char* name, Pointer& pointer) {
  pointer = reinterpret_cast<Pointer>(dlsym(library, name));
}

Hdf5Functions functions_of(void* library) {
  Hdf5Functions found{};
#define CFCK_LOOK_UP(name) look_up(library, #name, found.name)
  CFCK_LOOK_UP(H5Tget_class);
  CFCK_LOOK_UP(H5Tget_size);
  CFCK_LOOK_UP(H5Tget_order);
  CFCK_LOOK_UP(H5Tget_sign);
  CFCK_LOOK_UP(H5Tget_precision);
  CFCK_LOOK_UP(H5Tget_fields);
  CFCK_LOOK_UP(H5Tget_ebias);
  CFCK_LOOK_UP(H5Tget_super);
  CFCK_LOOK_UP(H5Tget_nmembers);
  CFCK_LOOK_UP(H5Tget_member_type);
  CFCK_LOOK_UP(H5Tclose);
  CFCK_LOOK_UP(H5Pget_chunk);
  CFCK_LOOK_UP(H5Pget_filter_by_id2);
  CFCK_LOOK_UP(H5Pget_filter2);
  CFCK_LOOK_UP(H5Pmodify_filter);
  CFCK_LOOK_UP(H5Pfill_value_defined);
  CFCK_LOOK_UP(H5Pget_fill_value);
  CFCK_LOOK_UP(H5Epush2);
  CFCK_LOOK_UP(H5Eget_num);
  CFCK_LOOK_UP(H5Ecreate_stack);
  CFCK_LOOK_UP(H5Eset_current_stack);
  CFCK_LOOK_UP(H5allocate_memory);
  CFCK_LOOK_UP(H5free_memory);
  CFCK_LOOK_UP(H5E_ERR_CLS_g);
  CFCK_LOOK_UP(H5E_PLINE_g);
  CFCK_LOOK_UP(H5E_CANTFILTER_g);
#undef CFCK_LOOK_UP
  return found;
}

// The library by the name of its file. A program that has libhdf5 inside shows its functions, if at
// all, to everybody.
Hdf5Functions functions_around(void* address) {
  Dl_info info{};
  void* library = nullptr;
  if (dladdr(address, &info) != 0 && info.dli_fname != nullptr) {
    library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);  // held for good
  }
  return functions_of(library != nullptr ? library : RTLD_DEFAULT);
}

// What was found, by return address: libhdf5 calls from a handful of places.
using Known = std::map<void*, std::unique_ptr<const Hdf5Functions>>;

PerProcess<Known>& known() {
  // Never destroyed: a library may call while the process ends.
  static constinit MadeOnce<PerProcess<Known>> all;
  return all.get([] { return PerProcess<Known>(); });
}

}  // namespace

bool Hdf5Functions::can_describe() const noexcept {
  return H5Tget_class != nullptr && H5Tget_size != nullptr && H5Tget_order != nullptr &&
         H5Tget_sign != nullptr && H5Tget_precision != nullptr && H5Tget_fields != nullptr &&
         H5Tget_ebias != nullptr && H5Tget_super != nullptr && H5Tget_nmembers != nullptr &&
         H5Tget_member_type != nullptr && H5Tclose != nullptr && H5Pget_chunk != nullptr &&
         H5Pget_filter_by_id2 != nullptr && H5Pget_filter2 != nullptr &&
         H5Pmodify_filter != nullptr && H5Pfill_value_defined != nullptr &&
         H5Pget_fill_value != nullptr;
}

void Hdf5Functions::push(const char* function, const Error& error) const noexcept {
  if (H5Epush2 == nullptr || H5E_ERR_CLS_g == nullptr || H5E_PLINE_g == nullptr ||
      H5E_CANTFILTER_g == nullptr) {
    return;
  }
  const std::string text = error.to_string();
  const auto push_to = [&](Id stack) {
    H5Epush2(stack, "libcfck_hdf5", function, 0, *H5E_ERR_CLS_g, *H5E_PLINE_g, *H5E_CANTFILTER_g,
             "cfck: %s", text.c_str());
  };
  const bool can_replace =
      H5Eget_num != nullptr && H5Ecreate_stack != nullptr && H5Eset_current_stack != nullptr;
  const std::ptrdiff_t n_before = can_replace ? H5Eget_num(kDefaultStack) : 0;
  push_to(kDefaultStack);
  if (!can_replace || H5Eget_num(kDefaultStack) != n_before) {
    return;
  }
  // HDF5 2.0 pauses its stack while a filter decodes: it takes no single errors, and says nothing
  // of that, but it takes a whole stack.
  const Id stack = H5Ecreate_stack();
  if (stack >= 0) {
    push_to(stack);
    H5Eset_current_stack(stack);  // closes it too
  }
}

void* Hdf5Functions::allocate(std::size_t n_bytes) const noexcept {
  return H5allocate_memory != nullptr ? H5allocate_memory(n_bytes, false) : std::malloc(n_bytes);
}

void Hdf5Functions::release(void* memory) const noexcept {
  if (H5free_memory != nullptr) {
    H5free_memory(memory);
  } else {
    std::free(memory);
  }
}

const Hdf5Functions& calling_library(void* return_address) noexcept {
  static constexpr Hdf5Functions kNone{};
  try {
    {
      const auto all = known().lock();
      const auto at = all->find(return_address);
      if (at != all->end()) {
        return *at->second;
      }
    }
    auto found = std::make_unique<const Hdf5Functions>(functions_around(return_address));
    return *known().lock()->try_emplace(return_address, std::move(found)).first->second;
  } catch (...) {
    return kNone;
  }
}

}  // namespace cfck::hdf5
