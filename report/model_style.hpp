// report/model_style.hpp - the colour, mark and dash of each sync model. They are the same in every
// report, study and picture, whatever else is shown there. Pure. Errors: none.
// A model keeps its style as long as models are only added at the end of the factory's list.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rubato::report {

struct ModelStyle {
  std::string light;    // colour on white paper, "#rrggbb"
  std::string dark;     // the same on a dark page
  std::string mark;     // SVG path around (0, 0), five units to each side
  bool hollow = false;  // the mark is an outline
  std::string dash;     // SVG stroke-dasharray; empty: a solid line
  bool operator==(const ModelStyle&) const = default;
};

// How many models have a style of their own.
std::size_t model_style_count();

// The style of a model. A name that the factory does not know is a grey circle.
ModelStyle model_style(std::string_view sync);

// Styles of entries that may name a model more than once: each further entry of a model has a
// lighter shade, another mark and another dash.
std::vector<ModelStyle> entry_styles(const std::vector<std::string>& models);

}  // namespace rubato::report
