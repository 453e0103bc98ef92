// Where the filter plug-in of cfck is, for libhdf5 to find it.
#pragma once

#include <string>
#include <vector>

namespace cfck::hdf5 {

// Returns the folders that may have the plug-in and exist, for code in the folder `own`: of a build
// and an installed tree ../hdf5/plugin, of a Python environment
// ../python3.X/site-packages/cfck/hdf5_plugin.
std::vector<std::string> plugin_folders(const std::string& own);

// Adds those of the module, or the program, that has this function to the folders of libhdf5,
// behind those that it knows and that exist; once. Needs a Library.
void add_plugin_folders() noexcept;

}  // namespace cfck::hdf5
