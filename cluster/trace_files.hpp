// cluster/trace_files.hpp - values over time from files; the name's end says the form.
//   .csv       columns by header: seconds, then any of mbps (both ways), up_mbps, down_mbps, speed,
//              available. The first row is at 0, and the last value holds for ever. A line that
//              begins with # is a comment.
//   .up .down  mahimahi: each line is the millisecond at which 1500 bytes may pass. The file
//              repeats after its last line. Read as the mean rate of each 0.1 s.
//   .json      spot instances: {"metadata": {"gap_seconds": G}, "data": [...]}, a number each G
//              seconds: 0 the instance is there, 1 it is taken away. The last one holds for ever.
// Sources of the forms: Netravali et al., Mahimahi, USENIX ATC 2015; Wu et al., Can't Be Late, NSDI
// 2024 (its published traces).
// Errors: BadInput, one line: file, line, what is wrong, what is valid.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "cluster/value_trace.hpp"

namespace rubato::cluster {

// `file`: names the text in errors, and its form.
[[nodiscard]] Result<NodeTrace> parse_trace(std::string_view text, const std::string& file);
[[nodiscard]] Result<NodeTrace> read_trace(const std::string& file);

// `to` gets what `from` has. Returns: what both have ("speed"); empty: all is well.
std::string join_traces(const NodeTrace& from, NodeTrace& to);

// A CSV file of one column that read_trace() reads. The values are in the column's unit.
std::string trace_csv(const ValueTrace& trace, std::string_view column);

}  // namespace rubato::cluster
