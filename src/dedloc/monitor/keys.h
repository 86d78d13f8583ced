// Keys: what a person types at a terminal, letter by letter: without Enter, and without the letters
// in the picture that is drawn there.
//
// The terminal's echo and its editing of lines are off from the first take() to close(); Ctrl-C and
// Ctrl-Z stay signals. A process in the background reads nothing and changes nothing: the keys are
// those of who is in the foreground, and the system would stop it.
//
// Errors: none; what is no terminal has no keys. Thread: one; give_terminal_back() any.

#pragma once
#include <string>

namespace dedloc::monitor {

class Keys {
  public:
    explicit Keys(int descriptor) : descriptor_(descriptor) {}  // -1: none
    ~Keys() { close(); }
    Keys(const Keys&) = delete;
    Keys& operator=(const Keys&) = delete;

    // The keys that were typed since the last call; it never waits.
    std::string take();
    // The terminal is as it was; a later take() begins anew.
    void close();
    bool are_there() const;

  private:
    bool begin();

    int descriptor_;
};

// The same as close(), for who ends at once: makes async-signal-safe calls only.
void give_terminal_back();

}  // namespace dedloc::monitor
