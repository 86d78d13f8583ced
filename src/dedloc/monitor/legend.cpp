#include "dedloc/monitor/legend.h"

#include <algorithm>
#include <utility>

#include "dedloc/monitor/terminal_view.h"

namespace dedloc::monitor {
namespace {

struct Entry {
    const char* term;
    Ink ink;  // as the view shows it
    const char* words;
};

constexpr std::size_t term_columns = 11;
constexpr std::size_t words_lines_max = 4;

constexpr Entry lines_told[] = {
    {"first line",
     Ink::bold,
     "the run and its hash; peers here; how many states, where there are several; your part of "
     "what all compute; time so far, and to the end"},
    {"step", Ink::cyan, "the newest; bar: samples of the next one; how fast they arrive"},
    {"loss", Ink::cyan, "of the newest step: the mean of all, or (yours); accuracy"},
    {"limit", Ink::dim, "whose line limits rounds, by the newest plan of this peer"},
    {"slowest", Ink::dim, "where others plan: the slowest line, as measured by its peer"},
    {"protected", Ink::plain, "a robust run: peers at work, newcomers, checks made here"},
    {"banned", Ink::red, "who is kept out, for what, and by which evidence"},
    {"experts", Ink::plain, "of a mixture: who serves how many, calls, how long they wait"},
};

constexpr Entry columns_told[] = {
    {"peer", Ink::green, "* is you; people are called as their invitation says"},
    {"role", Ink::plain, "trainer computes; aggregator adds up; observer only looks"},
    {"speed", Ink::plain, "samples a second that it computes, as it says"},
    {"step", Ink::plain, "of the state that it has"},
    {"doing", Ink::plain, "computing: how much of what its speed lets expect"},
    {"averaging", Ink::cyan, "a round is under way"},
    {"yellow", Ink::yellow, "not at work yet or left out: downloading the state, a slow line"},
    {"red", Ink::red, "lost without a word, or banned"},
    {"state", Ink::green, "its hash; = the same as most have at that step"},
    {"differs", Ink::red, "another state than most have: it repairs itself, or is wrong"},
};

void put_entry(std::vector<Line>& lines, const Entry& entry, std::size_t width) {
    const std::size_t margin = 2 + term_columns + 2;
    std::string term = entry.term;
    for (std::string& words : wrapped(entry.words, width - margin, words_lines_max)) {
        lines.push_back({{"  "},
                         {base::left_in(std::exchange(term, {}), term_columns + 2), entry.ink},
                         {std::move(words)}});
    }
}

}  // namespace

std::vector<Line> legend(std::size_t width, std::size_t height) {
    width = std::clamp(width, view_width_min, view_width_max);
    std::vector<Line> lines{{{"what is shown", Ink::bold}}};
    put_right(lines.front(), "any key: back to the run", width, Ink::dim);
    for (const Entry& entry : lines_told) put_entry(lines, entry, width);
    lines.push_back({{"columns", Ink::bold}});
    for (const Entry& entry : columns_told) put_entry(lines, entry, width);
    lines.push_back({{"below", Ink::bold},
                     {": what happened, and when: "},
                     {"good", Ink::green},
                     {", "},
                     {"trouble", Ink::red},
                     {"; Ctrl-C: leave in order"}});
    if (lines.size() > height) lines.resize(height);
    for (Line& line : lines) line = cut_line(line, width);
    return lines;
}

}  // namespace dedloc::monitor
