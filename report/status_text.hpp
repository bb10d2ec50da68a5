// report/status_text.hpp - what a scheduler says of its run (Scheduler::status()) as people read
// it: shared by `rubato status` and the live page. The text comes from another process: what is
// missing or of another kind is 0 or empty, and texts are as printable() shows them. Errors: none.
// Threads: pure functions.
#pragma once

#include <string>

#include "base/json_fwd.hpp"

namespace rubato::report {

double number_of(const OrderedJson& object, const char* key);
bool has_number(const OrderedJson& object, const char* key);
std::string text_of(const OrderedJson& object, const char* key);

// "training (adsp) since 3 min 20 s, 2,304 steps, 225 commits, loss 0.4611 (target 0.4500)".
std::string run_line(const OrderedJson& status);
// ", lowest recall 0.4000 (target 0.9), F1 0.6100", where a run has them; or of those with a
// target.
std::string class_figures_text(const OrderedJson& status, bool only_targets);
// Of a worker's row: "rate 4", "8 steps"; "-" for a worker that no tuner directs.
std::string directive_text(const OrderedJson& worker);

}  // namespace rubato::report
