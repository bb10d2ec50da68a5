// base/terminal.hpp - what a stream can show: whether people look at it, in colour, and how wide.
// Reads the environment: TERM, NO_COLOR, COLUMNS. Errors: none. Threads: any.
#pragma once

#include <cstddef>
#include <cstdio>
#include <limits>

namespace rubato {

inline constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();

// A terminal on which a line can be drawn over: TERM is there, and is not "dumb".
bool can_draw(std::FILE* stream);

// A terminal that can_draw(), and NO_COLOR is empty (https://no-color.org).
bool wants_colour(std::FILE* stream);

// Those of the terminal; 80 where it does not say. Requires: it is one.
std::size_t terminal_columns(std::FILE* stream);

// Columns that a line of text may have: COLUMNS where it is set, else those of the terminal.
// Returns: kAnyWidth for a file or a pipe.
std::size_t text_columns(std::FILE* stream);

}  // namespace rubato
