// cli/compose/yaml.hpp - the words of a YAML file.
#pragma once

#include <string>
#include <vector>

namespace rubato::cli {

// In double quotes, as JSON writes it.
std::string quoted(const std::string& text);

// ["a", "b"], on lines of at most 100 columns that begin `indent` columns in. The first line
// begins where the caller is.
std::string flow_list(const std::vector<std::string>& words, int indent);

}  // namespace rubato::cli
