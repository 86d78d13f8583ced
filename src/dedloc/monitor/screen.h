// Screen: a RunView on standard output, redrawn in place on a terminal, as plain lines elsewhere.
//
// In place: the cursor goes up to the first line of the last picture, every line is written over
// and cleared to its end, in one write, so nothing flickers; what was printed before stays above.
// A terminal whose size changed is cleared once. Colours unless NO_COLOR is set or TERM is dumb.
//
// Thread: one. Errors: none; a closed pipe makes the screen silent.

#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "dedloc/monitor/terminal_view.h"

namespace dedloc::monitor {

// How long who shows a view waits before the next picture.
inline constexpr auto frame_time = std::chrono::milliseconds(250);

struct ScreenOptions {
    bool in_place = false;
    bool colored = false;
    Look look;
    bool silent = false;  // --json without a terminal view: say nothing
};

// From the terminal behind `descriptor` and the environment (NO_COLOR, TERM, LC_ALL, LC_CTYPE,
// LANG); `plain` is the user's --plain.
ScreenOptions screen_options_for(int descriptor, bool plain);

class Screen {
  public:
    Screen(int descriptor, ScreenOptions options);
    ~Screen();  // shows the cursor again
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;

    void show(const RunView& view);
    // A line that stays: above the picture on a terminal.
    void say(std::string_view line);
    // Leaves the last picture where it is; what is said from now on comes below it.
    void release();

    const ScreenOptions& options() const { return options_; }

  private:
    void write(std::string_view bytes);
    std::string erase_picture();

    int descriptor_;
    ScreenOptions options_;
    PlainProgress progress_;
    std::vector<Line> picture_;
    std::size_t width_ = 0;
    std::size_t height_ = 0;
    bool cursor_hidden_ = false;
    bool broken_ = false;
};

}  // namespace dedloc::monitor
