// Ctrl-C, SIGTERM and SIGHUP (unless that is ignored, as with nohup): the first is counted and
// noticed by the command's own loop, which ends in order; the second ends the process at once with
// code 130, or is counted, too. What comes within a tenth of a second of the first is one with it,
// and a SIGHUP is never the second: a terminal that closes sends two.
//
// Thread: any. The handler makes async-signal-safe calls only.

#pragma once

namespace dedloc::peer {

enum class SecondInterrupt { is_counted, ends_at_once };
void catch_interrupts(SecondInterrupt second = SecondInterrupt::ends_at_once);
// Until catch_interrupts(): the first signal ends the process with 130 and these words on standard
// error; for commands that have nothing yet to end in order. `words` outlive the process.
void end_when_interrupted(const char* words);
int interrupts();  // since catch_interrupts()

}  // namespace dedloc::peer
