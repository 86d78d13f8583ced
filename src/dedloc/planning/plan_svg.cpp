#include "dedloc/planning/plan_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "dedloc/base/columns.h"
#include "dedloc/monitor/svg.h"
#include "dedloc/planner/explanation.h"
#include "dedloc/planning/plan_classes.h"

namespace dedloc::planning {
namespace {

using planner::LoadPlan;

constexpr double page_width = 1000;
constexpr double margin = 24;
constexpr double box_width = 14;
constexpr double left_x = 250;
constexpr double middle_x = page_width / 2 - box_width / 2;
constexpr double right_x = page_width - left_x - box_width;
constexpr double bar_width = 70;
constexpr double line_height = 15;  // of the page's sentences
// Letters that have room: beside the bars, on the boxes of the middle, in a line of the page.
constexpr std::size_t side_letters = 26;
constexpr std::size_t middle_letters = 60;
constexpr std::size_t line_letters = 150;

// Long texts lose their middle: names are told apart by their ends ("desk-12", "desk ×8").
std::string shortened(const std::string& text, std::size_t letters_max) {
    // Where they begin: the rest of a letter of UTF-8 is 10xxxxxx.
    std::vector<std::size_t> letters;
    for (std::size_t i = 0; i < text.size(); ++i)
        if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) letters.push_back(i);
    if (letters.size() <= letters_max) return text;
    const std::size_t first = letters_max / 2;
    const std::size_t last = letters_max - 1 - first;
    return text.substr(0, letters[first]) + "…" + text.substr(letters[letters.size() - last]);
}

// One colour a section of the file, the same in all three columns.
std::string_view colour(std::size_t group) {
    static constexpr std::array<std::string_view, 8> colours = {
        "#2f6db5", "#d98a1f", "#3a9a5b", "#8a5bb0", "#b5563c", "#3aa0a8", "#a88f2a", "#c05c92"};
    return colours[group % colours.size()];
}

struct Box {
    std::string label{};
    std::string note{};
    std::size_t group = 0;
    double value = 0;  // elements that pass through
    double busy = 0;   // of the link, for the bar
    double y = 0;
    double height = 0;
    double used_in = 0;  // height taken by ribbons so far
    double used_out = 0;
    std::size_t index = 0;  // of the class
};

class Drawing {
  public:
    Drawing(const PlanFile& file, const LoadPlan& plan) : file_(file), plan_(plan) {
        classes_ = plan.peers.size() <= plan_boxes_max ? single_peers(file, plan)
                                                       : peer_classes(file, plan, plan_boxes_max);
        for (const PeerClass& one : classes_) groups_.push_back(group_of(one));
    }

    std::string draw() {
        collect();
        const double rows = static_cast<double>(
            std::max({senders_.size(), owners_.size(), receivers_.size(), std::size_t{6}}));
        const double height = std::clamp(rows * 26, 240.0, 40.0 * 26);
        // How high the page is follows from its first lines.
        const std::vector<std::string> lines = lines_of_sentences();
        top_ = margin + 62 + 12 + line_height * static_cast<double>(lines.size());
        const double bottom = top_ + height + 34;
        svg_.emplace(page_width, bottom + 20 + margin, 11);
        header(lines);
        for (auto* column : {&senders_, &owners_, &receivers_}) place(*column, height);
        ribbons();
        boxes(senders_, left_x, false);
        boxes(owners_, middle_x, true);
        boxes(receivers_, right_x, false);
        column_titles();
        legend(bottom);
        return std::move(*svg_).finish();
    }

  private:
    std::size_t group_of(const PeerClass& one) {
        const std::string& name = file_.groups[one.peers.front()];
        const auto found = std::find(group_names_.begin(), group_names_.end(), name);
        if (found == group_names_.end()) group_names_.push_back(name);
        return static_cast<std::size_t>(std::find(group_names_.begin(), group_names_.end(), name) -
                                        group_names_.begin());
    }

    void write(double x,
               double y,
               std::string_view anchor,
               std::string_view style,
               std::string_view words) {
        svg_->text(x, y, anchor, words, style);
    }

    // The sentences, broken where a line is full.
    std::vector<std::string> lines_of_sentences() const {
        std::vector<std::string> lines;
        for (const std::string& sentence : plan_.sentences) {
            std::string line;
            std::size_t at = 0;
            while (at <= sentence.size()) {
                const std::size_t end = std::min(sentence.find(' ', at), sentence.size());
                const std::string word = sentence.substr(at, end - at);
                if (line.size() + word.size() > line_letters && !line.empty())
                    lines.push_back(std::exchange(line, "   "));
                line += (line.empty() ? "" : " ") + word;
                at = end + 1;
            }
            lines.push_back(std::move(line));
        }
        return lines;
    }

    // Title and sentences.
    void header(const std::vector<std::string>& lines) {
        write(margin,
              margin + 14,
              "start",
              R"(font-size="18" font-weight="bold")",
              fmt::format("{}: {}", file_.name, planner::duration_text(plan_.split.seconds)));
        write(margin,
              margin + 32,
              "start",
              R"(fill="#555555")",
              fmt::format("{}{}{} elements in {}, {}",
                          shortened(file_.about, line_letters - 50),
                          file_.about.empty() ? "" : " · ",
                          file_.question.elements_count,
                          file_.codec,
                          bytes_text(static_cast<double>(file_.question.elements_count) *
                                     file_.question.element_bytes)));
        double y = margin + 52;
        for (const std::string& line : lines) {
            write(margin, y, "start", "", line);
            y += line_height;
        }
    }

    void collect() {
        const auto total = static_cast<double>(file_.question.elements_count);
        const double bits = file_.question.element_bytes * 8;
        for (std::size_t i = 0; i < classes_.size(); ++i) {
            const PeerClass& one = classes_[i];
            const planner::PeerRates& rates = plan_.peers[one.peers.front()];
            const std::string up = one.rest ? "" : planner::rate_text(rates.upload_per_s * bits);
            const std::string down =
                one.rest ? "" : planner::rate_text(rates.download_per_s * bits);
            Box box{.label = one.label, .group = groups_[i], .index = i};
            if (one.contributors > 0) {
                box.value = one.contributors;
                box.note = up;
                box.busy = one.busy_up;
                senders_.push_back(box);
            }
            if (one.part_elements > 0) {
                box.value = one.part_elements;
                box.note = percent_text(one.part_elements / total);
                // A peer's links have no bar on the left if it sends averages only.
                if (one.contributors == 0)
                    box.note += fmt::format(", links {:.0f} % busy",
                                            std::max(one.busy_up, one.busy_down) * 100);
                owners_.push_back(box);
            }
            if (one.receivers > 0) {
                box.value = one.receivers;
                box.note = down;
                box.busy = one.busy_down;
                receivers_.push_back(box);
            }
        }
    }

    void place(std::vector<Box>& column, double height) {
        double sum = 0;
        for (const Box& box : column) sum += box.value;
        const double gap =
            column.size() > 1
                ? std::min(10.0, height * 0.35 / static_cast<double>(column.size() - 1))
                : 0;
        const double room = height - gap * static_cast<double>(column.size() - 1);
        double y = top_;
        for (Box& box : column) {
            box.y = y;
            box.height = room * box.value / sum;
            y += box.height + gap;
        }
    }

    // From the right edge of one box to the left edge of the other.
    void ribbon(double x1,
                double y1,
                double h1,
                double x2,
                double y2,
                double h2,
                std::string_view fill,
                double opacity) {
        const double bend = (x2 - x1) / 2;
        svg_->add(
            "<path d=\"M{0:.1f},{1:.2f} C{2:.1f},{1:.2f} {3:.1f},{4:.2f} {5:.1f},{4:.2f} "
            "L{5:.1f},{6:.2f} C{3:.1f},{6:.2f} {2:.1f},{7:.2f} {0:.1f},{7:.2f} Z\" "
            "fill=\"{8}\" fill-opacity=\"{9:.2f}\"/>",
            x1,
            y1,
            x1 + bend,
            x2 - bend,
            y2,
            x2,
            y2 + h2,
            y1 + h1,
            fill,
            opacity);
    }

    void ribbons() {
        double parts = 0;
        for (const Box& owner : owners_) parts += owner.value;
        double contributors = 0;
        for (const Box& box : senders_) contributors += box.value;
        double receivers = 0;
        for (const Box& box : receivers_) receivers += box.value;
        const auto alone = [&](const Box& a, const Box& b) {
            return a.index == b.index && classes_[a.index].peers.size() == 1;
        };
        constexpr double pale = 0.10;
        constexpr double strong = 0.38;
        // A bar's width is what `from` gives to all of the next column, and so for `to`.
        const auto flow =
            [&](Box& from, double x1, double given, Box& to, double x2, double taken) {
                const double out = from.height * to.value / taken;
                const double in = to.height * from.value / given;
                ribbon(x1 + box_width,
                       from.y + from.used_out,
                       out,
                       x2,
                       to.y + to.used_in,
                       in,
                       colour(from.group),
                       alone(from, to) ? pale : strong);
                from.used_out += out;
                to.used_in += in;
            };
        for (Box& owner : owners_) {
            for (Box& sender : senders_) flow(sender, left_x, contributors, owner, middle_x, parts);
            for (Box& receiver : receivers_)
                flow(owner, middle_x, parts, receiver, right_x, receivers);
        }
    }

    // The name as far as its note leaves room.
    static std::string labelled(const Box& box, std::size_t letters_max) {
        if (box.note.empty()) return shortened(box.label, letters_max);
        const std::string note = " · " + box.note;
        constexpr std::size_t label_letters_min = 9;
        const std::size_t room = letters_max - std::min(letters_max, base::columns(note));
        return shortened(box.label, std::max(room, label_letters_min)) + note;
    }

    void boxes(const std::vector<Box>& column, double x, bool middle) {
        const bool left = x < middle_x;
        for (const Box& box : column) {
            const double height = std::max(box.height, 1.0);
            constexpr double full = 0.999;
            svg_->rect(x, box.y, box_width, height, colour(box.group));
            const double y = box.y + height / 2 + 4;
            if (middle) {
                if (height < 9 && column.size() > 24) continue;
                write(
                    x + box_width / 2,
                    box.y + height / 2 + 4,
                    "middle",
                    R"(font-weight="bold" stroke="#ffffff" stroke-width="3" paint-order="stroke")",
                    labelled(box, middle_letters));
                continue;
            }
            const double edge = left ? x - 8 : x + box_width + 8;
            const double bar_x = left ? edge - bar_width : edge;
            const double bar_height = std::clamp(height - 4, 3.0, 9.0);
            svg_->rect(bar_x, y - 4 - bar_height / 2, bar_width, bar_height, "#e4e4e4");
            const double filled = bar_width * std::clamp(box.busy, 0.0, 1.0);
            svg_->rect(left ? edge - filled : edge,
                       y - 4 - bar_height / 2,
                       filled,
                       bar_height,
                       box.busy >= full ? "#c62828" : "#8d8d8d");
            write(left ? bar_x - 8 : bar_x + bar_width + 8,
                  y,
                  left ? "end" : "start",
                  "",
                  labelled(box, side_letters));
        }
    }

    void column_titles() {
        const double y = top_ - 12;
        constexpr std::string_view style = R"(font-weight="bold" fill="#333333")";
        write(left_x + box_width, y, "end", style, "gradients, and how busy uploads are");
        write(page_width / 2, y, "middle", style, "who reduces how much");
        write(right_x, y, "start", style, "averages, and how busy downloads are");
    }

    void legend(double y) {
        write(
            margin,
            y,
            "start",
            R"(fill="#555555")",
            "Widths are bytes. Colours: from left to middle the sender's, from middle to right the "
            "owner's. Pale: stays on the machine. Red: full for the whole round.");
    }

    const PlanFile& file_;
    const LoadPlan& plan_;
    std::vector<PeerClass> classes_;
    std::vector<std::size_t> groups_;  // one a class
    std::vector<std::string> group_names_;
    std::vector<Box> senders_, owners_, receivers_;
    double top_ = 0;
    std::optional<monitor::Svg> svg_;
};

}  // namespace

std::string plan_svg(const PlanFile& file, const LoadPlan& plan) {
    return Drawing(file, plan).draw();
}

}  // namespace dedloc::planning
