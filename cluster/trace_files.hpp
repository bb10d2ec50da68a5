// cluster/trace_files.hpp - values over time from files. What a file holds says its form:
//   columns    a row at each change, cells separated by ; or tabs or , or blanks. A header names
//              the columns: a time, then bandwidth each way or both ways in a unit, speed,
//              available. `seconds` counts from the start of training and begins at 0; another time
//              counts from its first row. Without a header: the time in seconds, and Mb/s. The last
//              value holds for ever.
//   one number mahimahi: each line is the millisecond at which 1500 bytes may pass. The file
//   a line     repeats after its last line. Read as the mean rate of each 0.1 s.
//   JSON       spot instances: {"metadata": {"gap_seconds": G}, "data": [...]}, a number each G
//              seconds: 0 the instance is there, 1 it is taken away. The last one holds for ever.
// The name of a file without a header says the way of its rates: lte.up, 4g-downlink.pps. A line
// that begins with #, % or // is a comment.
// Sources of the forms: Netravali et al., Mahimahi, USENIX ATC 2015; Wu et al., Can't Be Late, NSDI
// 2024 (its published traces).
// Errors: BadInput, one line: file, line, what is wrong, what is valid.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "cluster/value_trace.hpp"

namespace rubato::cluster {

// `file`: names the text in errors, and the way where there is no header.
[[nodiscard]] Result<NodeTrace> parse_trace(std::string_view text, const std::string& file);
[[nodiscard]] Result<NodeTrace> read_trace(const std::string& file);

// `to` gets what `from` has. Returns: what both have ("speed"); empty: all is well.
std::string join_traces(const NodeTrace& from, NodeTrace& to);

// A CSV file of one column that read_trace() reads. The values are in the column's unit.
std::string trace_csv(const ValueTrace& trace, std::string_view column);

}  // namespace rubato::cluster
