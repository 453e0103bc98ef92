#include "tools/cli/pages/completion.hpp"

#include "base/text.hpp"

namespace cfck::tools {

Result<std::string> completion_script(std::string_view shell) {
  if (shell == "bash") return bash_completion();
  if (shell == "zsh") return zsh_completion();
  if (shell == "fish") return fish_completion();
  return invalid_argument("there is no completion for the shell '" + escaped(shell) +
                          "'; there is one for bash, zsh and fish");
}

}  // namespace cfck::tools
