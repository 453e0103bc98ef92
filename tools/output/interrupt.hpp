// Handling of Ctrl-C and other signals: work stops at the next chunk, and half-written files are
// removed.
#pragma once

namespace cfck::tools {

// From now on SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGXCPU are only noted. A second one ends the
// process at once.
void catch_interrupts();

// Returns the number of the signal that arrived, or 0.
int interrupt_signal();

}  // namespace cfck::tools
