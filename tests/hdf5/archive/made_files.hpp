// HDF5 files in memory, made with libhdf5 itself.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace cfck::test {

// Returns the bytes of a file that `fill` wrote.
std::vector<std::byte> made_file(const std::function<void(hid_t file)>& fill);

// Writes 0, 1, 2, ... of F32, contiguous, or in chunks (shuffled and deflated) where these are
// given.
void put_floats(hid_t file, const std::string& name, const std::vector<hsize_t>& shape,
                const std::vector<hsize_t>& chunk = {});
hid_t put_group(hid_t file, const std::string& name);  // returns the open group
void put_text_attribute(hid_t object, const std::string& name, const std::string& text);

// A file with one thing of each kind.
std::vector<std::byte> sample_file();

}  // namespace cfck::test
