// The arguments about files that are stored against others.
#include "tools/cli/arguments.hpp"
#include "tools/cli/help_formatter.hpp"

namespace cfck::tools {

void add_base_dirs(CLI::App& app, ReadingOptions& reading) {
  set_group(app, kBasesGroup);
  app.add_option("--base-dir", reading.base_dirs,
                 "Look for the base that a .cfck file names in this folder, too; may be repeated")
      ->option_text("FOLDER")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_reading(CLI::App& app, ReadingOptions& reading) {
  set_group(app, kBasesGroup);
  app.add_option("--base", reading.base,
                 "What a .cfck file is stored against, whatever it names: a file or folder of any "
                 "of these formats")
      ->option_text("FILE");
  add_base_dirs(app, reading);
  add_limits(app, reading.limits);
}

void add_replace_base(CLI::App& app, bool& replace_base) {
  app.add_flag("--replace-base", replace_base,
               "With --force: also replace a file that others beside it are stored against, which "
               "then cannot be read any more");
}

}  // namespace cfck::tools
