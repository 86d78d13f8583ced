// Svg: a picture that is written element by element, on white.
//
//   Svg svg(640, 480);
//   svg.line(20, 40, 620, 40, "stroke=\"#ddd\"");
//   svg.text(20, 30, "start", "time < 3 s");         // words are escaped
//   return std::move(svg).finish();
//
// Thread: one.

#pragma once
#include <fmt/format.h>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace dedloc::monitor {

struct SvgPoint {
    double x = 0;
    double y = 0;
};

class Svg {
  public:
    Svg(double width,
        double height,
        double font_size = 12,
        std::string_view font = "DejaVu Sans, Helvetica, Arial, sans-serif");

    // `style` is attributes: fill="#555" font-weight="bold".
    void text(double x,
              double y,
              std::string_view anchor,
              std::string_view words,
              std::string_view style = {});
    void line(double x1, double y1, double x2, double y2, std::string_view style);
    void rect(double x, double y, double width, double height, std::string_view fill);
    void polyline(std::span<const SvgPoint> points, std::string_view style);
    void circle(const SvgPoint& centre, double radius, std::string_view fill);
    // Any other element, as it is.
    template <typename... Args>
    void add(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
        body_ += '\n';
    }

    std::string finish() &&;

  private:
    std::string body_;
};

}  // namespace dedloc::monitor
