// cli/compose/yaml.hpp - texts and lists of a YAML file, as base/quote.hpp writes its words.
#pragma once

#include <string>
#include <vector>

namespace rubato::cli {

// $ begins a variable in files of Compose and in arguments of Kubernetes: two of them are one.
std::string without_variables(const std::string& text);

// `text` as a value that begins here: a block whose lines are `indent` columns in. Where a reader
// of YAML could take a character for the end of a line or refuse it: yaml_text().
std::string block(const std::string& text, int indent);

// `text`, with each line `indent` columns in.
std::string indented(const std::string& text, int indent);

// ["a", "b"], on lines of at most 100 columns that begin `indent` columns in. The first line
// begins where the caller is.
std::string flow_list(const std::vector<std::string>& words, int indent);

}  // namespace rubato::cli
