#include "report/study/svg_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>

#include "base/check.hpp"
#include "base/quote.hpp"

namespace rubato::report {
namespace {

constexpr double kPanelWidth = 520;
constexpr double kPanelHeight = 340;
constexpr double kLegendRow = 20;
constexpr double kLegendColumn = 160;
constexpr std::size_t kPanelsPerRow = 2;
constexpr double kLeft = 64;  // of the plot inside its panel
constexpr double kRight = 14;
constexpr double kTop = 52;
constexpr double kBottom = 52;

// A view of the style. With a bare "none" both arms would become a string that dies here.
std::string_view dash_of(const ModelStyle& style) {
  return style.dash.empty() ? std::string_view("none") : style.dash;
}

std::string tick_text(double value) {
  if (value >= 1e9) return fmt::format("{:.4g} G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.4g} M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.4g} k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

class Drawing {
 public:
  void line(double x1, double y1, double x2, double y2, const char* colour, double width = 1) {
    add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="{}"/>)",
        x1, y1, x2, y2, colour, width);
  }
  void text(double x, double y, const std::string& words, const char* anchor,
            const char* style = "") {
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}>{}</text>)", x, y, anchor, style,
        html_text(words));
  }
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
    out_ += '\n';
  }
  // The mark of a series around (x, y).
  void mark(double x, double y, const ModelStyle& style) {
    add(R"-(<g transform="translate({:.1f},{:.1f})">)-"
        R"(<path d="{}" fill="{}" stroke="{}" stroke-width="1.4"/></g>)",
        x, y, style.mark, style.hollow ? "#ffffff" : style.light, style.light);
  }
  const std::string& str() const { return out_; }

 private:
  std::string out_;
};

// Where values lie on the paper.
struct Scale {
  double from = 0, to = 0;  // values
  double begin = 0, end = 0;
  bool logarithmic = false;

  double at(double value) const {
    const double part =
        logarithmic ? std::log(value / from) / std::log(to / from) : (value - from) / (to - from);
    return begin + part * (end - begin);
  }
};

struct Panel {
  const SvgChart& chart;
  double left = 0, top = 0;
  Drawing& out;
  Scale y{};

  double x0() const { return left + kLeft; }
  double x1() const { return left + kPanelWidth - kRight; }
  double y0() const { return top + kPanelHeight - kBottom; }
  double y1() const { return top + kTop; }

  bool x_is_logarithmic() const;
  void frame();
  void lines();
  void bars();
  void mark(double x, const SvgMark& mark, const char* colour, std::size_t series);
};

bool Panel::x_is_logarithmic() const {
  if (chart.numbers.empty()) return false;
  const auto [least, most] = std::ranges::minmax(chart.numbers);
  return least > 0 && most > 20 * least;
}

void Panel::frame() {
  double smallest = std::numeric_limits<double>::infinity();
  double largest = 0;
  for (const SvgSeries& series : chart.series) {
    for (const auto& mark : series.marks) {
      if (!mark) continue;
      for (const double value : {mark->value, mark->low, mark->high}) {
        if (!std::isfinite(value)) continue;
        largest = std::max(largest, value);
        if (value > 0) smallest = std::min(smallest, value);
      }
    }
  }
  const bool logarithmic = chart.y_logarithmic && smallest < largest;
  const auto ticks = axis_ticks(smallest, largest, logarithmic);
  y = {ticks.front(), ticks.back(), y0(), y1(), logarithmic};
  for (const double tick : ticks) {
    out.line(x0(), y.at(tick), x1(), y.at(tick), "#e3e6ea");
    out.text(x0() - 6, y.at(tick) + 4, tick_text(tick), "end");
  }
  out.line(x0(), y0(), x1(), y0(), "#8a929c");
  out.text(left + kLeft, top + 20, chart.title, "start", R"( font-weight="600" font-size="14")");
  out.text(left + kLeft, top + 38, chart.y_title, "start", R"( fill="#59636f")");
  out.text((x0() + x1()) / 2, y0() + 40,
           chart.x_title + (x_is_logarithmic() ? ", logarithmic" : ""), "middle",
           R"( fill="#59636f")");
}

void Panel::mark(double x, const SvgMark& mark, const char* colour, std::size_t series) {
  const double beyond = y1();
  const double high = std::isfinite(mark.high) ? y.at(mark.high) : beyond;
  if (std::isfinite(mark.low) && mark.high > mark.low) {
    out.line(x, y.at(mark.low), x, high, colour, 1.5);
    for (const double end : {y.at(mark.low), high}) out.line(x - 3, end, x + 3, end, colour, 1.5);
  }
  if (std::isfinite(mark.value)) {
    if (!mark.note.empty())
      out.text(x, y.at(mark.value) - 7, mark.note, "middle", R"( font-size="10")");
    return;
  }
  const double place = beyond + 4 + 13 * static_cast<double>(series % 4);
  out.add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle" fill="{}" font-weight="700">)"
          "\u2715 {}</text>",
          x, place + 4, colour, html_text(mark.note));
}

void Panel::lines() {
  const auto [least, most] = std::ranges::minmax(chart.numbers);
  const Scale x{least, most > least ? most : least + 1, x0() + 18, x1() - 18, x_is_logarithmic()};
  double last = -1e9;
  for (std::size_t i = 0; i < chart.labels.size(); ++i) {
    const double place = x.at(chart.numbers[i]);
    out.line(place, y0(), place, y0() + 4, "#8a929c");
    if (place - last > 26) out.text(place, y0() + 18, chart.labels[i], "middle");
    if (place - last > 26) last = place;
  }
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const ModelStyle& style = chart.series[s].style;
    const char* colour = style.light.c_str();
    std::string path;
    for (std::size_t i = 0; i < chart.labels.size(); ++i) {
      const auto& mark = chart.series[s].marks[i];
      if (!mark) continue;
      const double place = x.at(chart.numbers[i]);
      this->mark(place, *mark, colour, s);
      if (!std::isfinite(mark->value)) continue;
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", place, y.at(mark->value));
    }
    out.add(R"(<path d="{}" fill="none" stroke="{}" stroke-width="2" stroke-dasharray="{}"/>)",
            path, colour, dash_of(style));
    for (std::size_t i = 0; i < chart.labels.size(); ++i) {
      const auto& mark = chart.series[s].marks[i];
      if (mark && std::isfinite(mark->value))
        out.mark(x.at(chart.numbers[i]), y.at(mark->value), style);
    }
  }
}

void Panel::bars() {
  const double group = (x1() - x0()) / static_cast<double>(chart.labels.size());
  const double bar = std::min(30.0, 0.84 * group / static_cast<double>(chart.series.size()));
  for (std::size_t i = 0; i < chart.labels.size(); ++i) {
    const double middle = x0() + (static_cast<double>(i) + 0.5) * group;
    out.text(middle, y0() + 18, chart.labels[i], "middle");
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
      const auto& mark = chart.series[s].marks[i];
      if (!mark) continue;
      const ModelStyle& style = chart.series[s].style;
      const double begin =
          middle + bar * (static_cast<double>(s) - static_cast<double>(chart.series.size()) / 2);
      if (std::isfinite(mark->value)) {
        const double height = std::max(1.0, y0() - y.at(std::max(mark->value, y.from)));
        out.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"/>)",
                begin + 1, y0() - height, bar - 2, height, style.light);
        out.mark(begin + bar / 2, y0() + 26, style);
      }
      this->mark(begin + bar / 2, *mark,
                 std::isfinite(mark->value) ? "#1b222c" : style.light.c_str(), s);
    }
  }
}

double legend_height(std::size_t series, double width) {
  const auto columns = static_cast<std::size_t>((width - 2 * kRight) / kLegendColumn);
  return kLegendRow * std::ceil(static_cast<double>(series) / static_cast<double>(columns)) + 12;
}

void draw_legend(const std::vector<SvgSeries>& series, bool lines, double width, Drawing& out) {
  const auto columns = static_cast<std::size_t>((width - 2 * kRight) / kLegendColumn);
  for (std::size_t s = 0; s < series.size(); ++s) {
    const double x = kRight + kLegendColumn * static_cast<double>(s % columns);
    const std::size_t row = s / columns;
    const double y = 18 + kLegendRow * static_cast<double>(row);
    const ModelStyle& style = series[s].style;
    if (lines) {
      out.add(
          R"(<path d="M{:.1f} {:.1f}h30" stroke="{}" stroke-width="2.5" stroke-dasharray="{}"/>)",
          x, y - 4, style.light, dash_of(style));
      out.mark(x + 15, y - 4, style);
    } else {
      out.add(R"(<rect x="{:.1f}" y="{:.1f}" width="14" height="11" fill="{}"/>)", x, y - 10,
              style.light);
      out.mark(x + 23, y - 4, style);
    }
    out.text(x + 36, y, series[s].name, "start");
  }
}

}  // namespace

std::vector<double> axis_ticks(double smallest, double largest, bool logarithmic) {
  std::vector<double> ticks;
  if (logarithmic) {
    // 1, 2 and 5 times the powers of ten, or the powers alone where those are many.
    const int first = static_cast<int>(std::floor(std::log10(smallest)));
    const int last = static_cast<int>(std::ceil(std::log10(largest)));
    const bool fine = last - first <= 3;
    for (int power = first; power <= last; ++power)
      for (const double factor : {1.0, 2.0, 5.0})
        if (fine || factor == 1.0) ticks.push_back(factor * std::pow(10.0, power));
    while (ticks.size() > 2 && ticks[1] <= smallest) ticks.erase(ticks.begin());
    while (ticks.size() > 2 && ticks[ticks.size() - 2] >= largest) ticks.pop_back();
    return ticks;
  }
  if (!(largest > 0)) return {0, 1};
  const double power = std::pow(10.0, std::floor(std::log10(largest / 5)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (5 * factor * power >= largest) step = factor * power;
  for (int i = 0; ticks.empty() || ticks.back() < largest; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string svg_figure(const std::vector<SvgChart>& charts) {
  RUBATO_CHECK(!charts.empty(), "a figure needs a chart");
  const std::size_t columns = std::min(charts.size(), kPanelsPerRow);
  const std::size_t rows = (charts.size() + columns - 1) / columns;
  const double width = kPanelWidth * static_cast<double>(columns);
  const double top = legend_height(charts.front().series.size(), width);
  const double height = top + kPanelHeight * static_cast<double>(rows);
  Drawing out;
  out.add(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
          R"(viewBox="0 0 {0:.0f} {1:.0f}" font-family="system-ui, sans-serif" font-size="12" )"
          R"(fill="#1b222c">)",
          width, height);
  out.add(R"(<rect width="100%" height="100%" fill="#ffffff"/>)");
  const bool lines = !charts.front().numbers.empty();
  draw_legend(charts.front().series, lines, width, out);
  for (std::size_t i = 0; i < charts.size(); ++i) {
    const std::size_t column = i % columns, row = i / columns;
    Panel panel{charts[i], kPanelWidth * static_cast<double>(column),
                top + kPanelHeight * static_cast<double>(row), out};
    panel.frame();
    if (charts[i].numbers.empty()) {
      panel.bars();
    } else {
      panel.lines();
    }
  }
  return out.str() + "</svg>\n";
}

}  // namespace rubato::report
