// cli/text.hpp - numbers as people read them, in ASCII, so that columns align; and fields of CSV
// files.
#pragma once

#include <string>
#include <string_view>

#include "base/task.hpp"

namespace rubato::cli {

// 7.31 s, 42.5 s, 6 min 10 s, 1 h 02 min. Requires: not negative, finite.
std::string duration_text(double seconds);

// 52310.4 -> "52,310"
std::string count_text(double count);

// 123456789 -> "123 MB"; decimal units, three digits.
std::string bytes_text(double bytes);

// 0.448 -> "44.8 %"
std::string percent_text(double share);

// "83.1 %" of an accuracy, "0.8312" of an R^2.
std::string figure_text(const Figure& figure, double value);

// The same of a target, as the user wrote it: "90 %", "0.9".
std::string figure_target_text(const Figure& figure, double target);

// 0.4480, 12.345; "diverged" for NaN and anything of a million or more.
std::string loss_text(double loss);

// A field of a CSV file, quoted where it must be (RFC 4180).
std::string csv_field(const std::string& text);

}  // namespace rubato::cli
