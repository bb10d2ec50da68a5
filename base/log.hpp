// base/log.hpp - one line to standard error with the time of day and a level. Any thread.
// A line for which a reader has left no room is left out: nobody waits for it. The next line says
// how many were.
#pragma once

#include <cstdio>
#include <string_view>

namespace rubato {

void log_info(std::string_view line);
void log_warning(std::string_view line);
// Info lines are dropped when quiet. Set once, before threads start.
void set_log_quiet(bool quiet);
// For those who write lines themselves. Returns: whether a line can be written without waiting for
// a reader. If not, it counts as left out.
bool room_for_line(std::FILE* stream);

}  // namespace rubato
