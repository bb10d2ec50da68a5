// cluster/file_kind.hpp - when a file is not what a command takes: what it is, and which command
// takes it.
// Pure, but for a look at whether the path is a directory. Errors: none.
#pragma once

#include <string>
#include <string_view>

namespace rubato::cluster {

enum class Wanted { Cluster, Study };

// "study.toml: is a study; run rubato study study.toml". Empty: it may well be what is wanted, and
// the reader's own message is better. `text`: the content of `path`.
std::string other_kind(const std::string& path, std::string_view text, Wanted wanted);

}  // namespace rubato::cluster
