// base/text.hpp - numbers as people read them, in ASCII, so that columns align; text in lines of a
// terminal's width.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/task.hpp"

namespace rubato {

// 7.31 s, 42.5 s, 6 min 10 s, 1 h 02 min. Requires: not negative, finite.
std::string duration_text(double seconds);
// The same; `missed` for infinity: a time that never comes.
std::string duration_or(double seconds, const char* missed = "not reached");

// "about 25 s left", "about 4 min left", "about 1 h 20 min left"; "time left unknown".
std::string left_text(std::optional<double> seconds);

// 52310.4 -> "52,310"
std::string count_text(double count);

// 2304, "step" -> "2,304 steps"
std::string count_of(double count, std::string_view noun);

// 123456789 -> "123 MB"; decimal units, three digits.
std::string bytes_text(double bytes);

// 0.448 -> "44.8 %"
std::string percent_text(double share);

// "83.1 %" of an accuracy, "0.8312" of an R^2.
std::string figure_text(const Figure& figure, double value);

// A target of that figure, as the user wrote it: "90 %", "0.9".
std::string figure_target_text(const Figure& figure, double target);
// "loss 0.45, accuracy 90 %, F1 0.8": the targets that there are; empty: none.
std::string targets_text(const std::optional<double>& loss, const std::optional<double>& accuracy,
                         const ClassTargets& classes, Task task);

// 0.4480, 12.345; "diverged" for NaN and anything of a million or more.
std::string loss_text(double loss);

// How many characters the UTF-8 `text` has.
std::size_t characters(std::string_view text);

// Lines of at most `width` characters; a word that is longer is broken. Requires: width > 0.
std::vector<std::string> broken(std::string_view text, std::size_t width);

// Paragraphs, their lines ended at spaces so that each has at most `width` characters. Longer words
// stay whole, so that a path can be copied. `indent`: spaces before all lines but the first of a
// paragraph.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent = 0);

}  // namespace rubato
