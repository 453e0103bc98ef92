// A folder that is filled before it gets its name.
#pragma once

#include <memory>
#include <string>

#include "cfck/status.hpp"

namespace cfck::model {

// A new folder beside `target`, ".NAME.cfck-tmp-PID-N". The destructor removes the folder of this
// name with all its contents. A killed process leaves the folder; the next TemporaryFolder in that
// place removes it.
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
  // Locks the folder. Returns false if another process took it for a leftover.
  bool hold();

  std::string path_;     // empty: there is no folder yet
  int descriptor_ = -1;  // holds the lock that marks the folder as in use
};

}  // namespace cfck::model
