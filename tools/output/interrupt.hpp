// Ctrl-C and the like: the work stops at the next chunk, and what was half
// written is removed.
#pragma once

namespace cfck::tools {

// From now on SIGINT, SIGTERM and SIGHUP are only noted. A second one ends the
// process at once.
void catch_interrupts();

// The number of the signal that arrived, or 0.
int interrupt_signal();

}  // namespace cfck::tools
