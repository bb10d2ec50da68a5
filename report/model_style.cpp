#include "report/model_style.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>

#include "sync/factory.hpp"

namespace rubato::report {
namespace {

struct Colours {
  const char* light;
  const char* dark;
};

// By place in the factory's list. Distances in OKLab: 0.09 and more on white, 0.08 on the dark
// page. Contrast is 3 or more on either.
constexpr std::array<Colours, 26> kColours{{
    {"#c75000", "#ff9350"}, {"#a34584", "#e5a0cd"}, {"#008562", "#33cb9d"}, {"#9a7400", "#eac54f"},
    {"#4d5560", "#c9ced5"}, {"#7f4f24", "#cf9f78"}, {"#2a8f9e", "#7cdfe4"}, {"#005400", "#78fa50"},
    {"#0072b2", "#5bb8f5"}, {"#b478d8", "#f03cd2"}, {"#480078", "#8282aa"}, {"#54a800", "#00a000"},
    {"#542400", "#be7800"}, {"#900030", "#fa326e"}, {"#1848e4", "#9696f0"}, {"#fc5478", "#fa5a28"},
    {"#b48484", "#c86e78"}, {"#003c78", "#96aab4"}, {"#d830b4", "#be64be"}, {"#600cc0", "#dc82fa"},
    {"#4890fc", "#008cf0"}, {"#9c3ce4", "#c846fa"}, {"#840084", "#fa6eb4"}, {"#0c00b4", "#8c6efa"},
    {"#00003c", "#6c8454"}, {"#240000", "#fcfcc0"},
}};

// Each twice: filled, then as an outline.
constexpr std::array<const char*, 13> kMarks{
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",                                           // circle
    "M-3.6-3.6h7.2v7.2h-7.2z",                                                      // square
    "M0-5L5 0 0 5-5 0z",                                                            // diamond
    "M0-5L4.6 3.6h-9.2z",                                                           // triangle up
    "M0 5L4.6-3.6h-9.2z",                                                           // down
    "M-1.6-5h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4z",                    // plus
    "M5 0L-3.6 4.6v-9.2z",                                                          // right
    "M-5 0L3.6 4.6v-9.2z",                                                          // left
    "M-5-2.8L-2.8-5 0-2.2 2.8-5 5-2.8 2.2 0 5 2.8 2.8 5 0 2.2-2.8 5-5 2.8-2.2 0z",  // cross
    "M0-5L1.2-1.6 4.8-1.5 1.9.6 2.9 4 0 2-2.9 4-1.9.6-4.8-1.5-1.2-1.6z",            // star
    "M-4-4.5h8L-4 4.5h8z",                                                          // hourglass
    "M-5 0L-2.5-4.3h5L5 0 2.5 4.3h-5z",                                             // hexagon
    "M0-5L4.8-1.5 2.9 4h-5.8L-4.8-1.5z",                                            // pentagon
};
static_assert(kColours.size() == 2 * kMarks.size());

constexpr std::array<const char*, 8> kDashes{"7 4",  "2 3", "11 3 2 3", "",
                                             "14 5", "5 2", "2 2 7 2",  "9 2"};
const ModelStyle kUnknown{"#59636f", "#a3adb9", kMarks[0], false, ""};

ModelStyle style_of_place(std::size_t place) {
  const auto& [light, dark] = kColours[place % kColours.size()];
  return {light, dark, kMarks[place % kMarks.size()], place % kColours.size() >= kMarks.size(),
          kDashes[place % kDashes.size()]};
}

// `colour` with a share of `other`, 0 to 255, in each channel.
std::string mixed(const std::string& colour, int other, double share) {
  const auto whole = std::strtoul(colour.c_str() + 1, nullptr, 16);
  std::string text = "#";
  for (const int shift : {16, 8, 0}) {
    const auto channel = static_cast<double>((whole >> shift) & 0xff);
    text += fmt::format("{:02x}", std::lround(channel + share * (other - channel)));
  }
  return text;
}

std::size_t place_of(std::string_view sync) {
  const auto all = sync::models();
  const auto row = std::ranges::find(all, sync, &sync::ModelInfo::name);
  return static_cast<std::size_t>(row - all.begin());
}

}  // namespace

std::size_t model_style_count() {
  return kColours.size();
}

ModelStyle model_style(std::string_view sync) {
  return sync::find_model(sync) ? style_of_place(place_of(sync)) : kUnknown;
}

std::vector<ModelStyle> entry_styles(const std::vector<std::string>& models) {
  std::map<std::string, std::size_t> all;
  for (const std::string& model : models) ++all[model];
  std::map<std::string, std::size_t> before;
  std::vector<ModelStyle> styles;
  for (const std::string& model : models) {
    ModelStyle style = model_style(model);
    const std::size_t index = before[model]++;
    if (index > 0) {
      const double share = 0.65 * static_cast<double>(index) / static_cast<double>(all[model] - 1);
      style.light = mixed(style.light, 255, share);
      style.dark = mixed(style.dark, 25, share);
      style.mark = kMarks[(place_of(model) + index) % kMarks.size()];
      style.hollow = index % 2 == 1;
      style.dash = kDashes[(place_of(model) + index) % kDashes.size()];
    }
    styles.push_back(std::move(style));
  }
  return styles;
}

}  // namespace rubato::report
