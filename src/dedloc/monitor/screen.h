// Screen: a RunView on standard output, redrawn in place on a terminal, as plain lines elsewhere.
//
// In place: the cursor goes up to the first line of the last picture, every line is written over
// and cleared to its end, in one write, so nothing flickers; what was printed before stays above.
// A terminal whose size changed is cleared once; one that is too small for a picture gets the plain
// lines. Colours unless NO_COLOR is set or TERM is dumb.
//
// A terminal that takes nothing (ssh while the lid is closed, text selected in a console) must not
// stop who trains: pictures are left out until it takes the rest of the last one, and lines wait.
// While there is a picture, log lines that would go to the same terminal are said above it, and the
// key `?` shows what the picture means (legend.h).
//
// A disk that is full costs the lines that it does not take, and those only.
//
// Thread: one. Errors: none; a closed pipe makes the screen silent.

#pragma once
#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

#include "dedloc/monitor/keys.h"
#include "dedloc/monitor/terminal_view.h"

namespace dedloc::monitor {

// How long who shows a view waits before the next picture.
inline constexpr auto frame_time = std::chrono::milliseconds(250);
// Lines that wait for a terminal that takes nothing; the oldest give way.
inline constexpr std::size_t waiting_lines_max = 256;
// How long a terminal that takes nothing is waited for where no picture comes after: a program's
// last words.
inline constexpr auto last_words_timeout = std::chrono::seconds(1);

struct ScreenOptions {
    bool in_place = false;
    bool colored = false;
    Charset charset;
    bool silent = false;     // --json without a terminal view: say nothing
    bool takes_log = false;  // standard error is a terminal, too
    int keys = -1;           // the terminal at which a person types; -1: none
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
    // Leaves the last picture where it is; what is said from now on comes below it. Nothing waits
    // for us any more: who reads a pipe slowly gets all of it.
    void release();
    // The program's result, a line after all that was said: waits for whoever reads it as long as
    // it takes, and comes though the screen is silent.
    void print(std::string_view line);

    const ScreenOptions& options() const { return options_; }

  private:
    bool write(std::string_view bytes = {});
    enum class Wait { brief, endless };
    void write_last_words(Wait wait);
    void keep_line(std::string line);
    std::string kept_lines(std::string_view line_end);
    void draw(std::string_view begin);
    void drop_unwritten(int why);
    void leave_picture();
    void look_at_keys();

    int descriptor_;
    int own_descriptor_;  // of the same terminal; there a write never waits. -1: none
    ScreenOptions options_;
    PlainProgress progress_;
    Keys keys_;
    bool shows_legend_ = false;
    std::vector<Line> picture_;
    std::size_t width_ = 0;
    std::size_t height_ = 0;
    bool cursor_hidden_ = false;
    bool has_log_ = false;
    bool broken_;            // nobody will ever read it
    bool full_ = false;      // told
    bool mid_line_ = false;  // what was written last does not end a line
    bool torn_ = false;      // and nothing will
    std::string unwritten_;  // the terminal takes no more now
    std::mutex lines_mutex_;
    std::deque<std::string> lines_;  // said or logged, not shown yet
};

}  // namespace dedloc::monitor
