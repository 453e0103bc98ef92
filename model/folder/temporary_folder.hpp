// A folder that is filled before it gets its name.
#pragma once

#include <memory>
#include <string>

#include "cfck/status.hpp"

namespace cfck::model {

// A new folder beside `target`, ".NAME.cfck-tmp-PID-N". The destructor removes what has this
// name then, with all it has. A killed process leaves the folder; the next TemporaryFolder
// in the same place removes it.
class TemporaryFolder {
 public:
  // `target` is an absolute path. Errors: kIo.
  static Result<std::unique_ptr<TemporaryFolder>> create(const std::string& target);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  TemporaryFolder() = default;
  // False if another process took the folder for a leftover.
  bool hold();

  std::string path_;     // empty: there is no folder yet
  int descriptor_ = -1;  // has the lock that says that the folder is in use
};

}  // namespace cfck::model
