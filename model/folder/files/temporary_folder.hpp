// A folder that is filled before it gets its name.
#pragma once

#include <memory>
#include <string>

#include "cfck/status.hpp"

namespace cfck::model {

// A new folder beside `target`, ".NAME.cfck-tmp-PID-N", that is open to this user alone. The
// destructor removes the folder of this name with all its contents. A killed process leaves the
// folder; the next TemporaryFolder in that place removes it.
class TemporaryFolder {
 public:
  // `target` is an absolute path. Errors: kIo.
  static Result<std::unique_ptr<TemporaryFolder>> create(const std::string& target);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // Gives the folder, whose contents are complete, the permissions of the folder `like`; where
  // there is none, those that the umask allows.
  void open_up(const std::string& like) noexcept;

  // Removes the folder of this name now, with all its contents.
  void remove() noexcept;

 private:
  TemporaryFolder() = default;
  // Locks the folder. Returns false if another process took it for a leftover.
  bool hold();

  std::string path_;     // empty: there is no folder yet
  int descriptor_ = -1;  // holds the lock that marks the folder as in use
  unsigned mode_ = 0;    // that a new folder gets
};

// Creates the folders on the way from `folder` to the file `name` in it that are not there yet,
// with the permissions of those on the way from the folder `like`. Error: kIo.
Result<void> make_parents_like(const std::string& folder, const std::string& name,
                               const std::string& like);

}  // namespace cfck::model
