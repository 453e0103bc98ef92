// The command line of the programs: `cfck COMMAND`, and the names that stand for
// one command.
#pragma once

namespace cfck::tools {

// Parses and runs. Returns the exit code; throws only what CLI11 and the standard
// library throw for lack of memory.
int run_command_line(int argc, char** argv);

}  // namespace cfck::tools
