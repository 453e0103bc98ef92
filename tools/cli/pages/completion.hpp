// Scripts that complete command lines.
#pragma once

#include <string>
#include <string_view>

#include "cfck/status.hpp"

namespace cfck::tools {

// `shell` is bash, zsh or fish. Error: kInvalidArgument.
Result<std::string> completion_script(std::string_view shell);

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace cfck::tools
