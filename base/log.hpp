// base/log.hpp - one line to standard error with the time of day and a level. Any thread.
#pragma once

#include <string_view>

namespace rubato {

void log_info(std::string_view line);
void log_warning(std::string_view line);
// Info lines are dropped when quiet. Set once, before threads start.
void set_log_quiet(bool quiet);

}  // namespace rubato
