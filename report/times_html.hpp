// report/times_html.hpp - one cluster's times to a target under several changes, models or sizes,
// as a self-contained web page: a table, and a bar with its interval for each row that has a time.
// Errors: none. Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rubato::report {

struct TimesRow {
  enum class Kind {
    Change,     // what is asked
    Reference,  // what the others stand beside
    Bound,
  };
  std::string name = {};
  Kind kind = Kind::Change;
  double time = 0;          // seconds; infinite: never
  double low = 0;           // ends of its interval; equal: it has none
  double high = 0;          // infinite: never
  std::size_t reached = 0;  // runs that reached the target, of `runs`
  std::size_t runs = 0;
  std::vector<std::string> cells = {};  // of the table, the name left out
};

struct TimesPage {
  std::string title;     // "What if"
  std::string cluster;   // its name
  std::string headline;  // one sentence
  std::vector<std::string> facts;
  bool targeted = true;             // without a target rows have no times
  std::vector<std::string> header;  // of the table, that of the names included
  std::vector<TimesRow> rows;
  std::vector<std::string> notes;  // a paragraph each
  std::string command;             // makes the page again
};

std::string times_html(const TimesPage& page);

}  // namespace rubato::report
