#include "cluster/file_kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>

#include "base/config.hpp"
#include "base/quote.hpp"
#include "base/shipped.hpp"

namespace rubato::cluster {
namespace {

namespace fs = std::filesystem;

bool has_any(const ConfigTable& table, std::initializer_list<std::string_view> keys) {
  return std::ranges::any_of(keys, [&](std::string_view key) { return table.has(key); });
}

}  // namespace

std::string other_kind(const std::string& path, std::string_view text, Wanted wanted) {
  const bool study = wanted == Wanted::Study;
  const char* const name = study ? "study file" : "cluster file";
  const std::string examples = (shipped_directory() / (study ? "studies/" : "clusters/")).string();
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    return fmt::format("{}: is a directory; name a {}, or copy an example from {}", path, name,
                       examples);
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    return fmt::format("{}: is empty; write a {}, or copy an example from {}", path, name,
                       examples);
  const std::string extension = fs::path(path).extension().string();
  constexpr std::array<std::string_view, 8> kData = {".csv",      ".npy", ".npz", ".libsvm",
                                                     ".svmlight", ".txt", ".gz",  ".tsv"};
  const auto document = Config::parse(text, path);
  if (!document && std::ranges::find(kData, extension) != kData.end())
    return fmt::format("{}: is no {}; a cluster file names the data: dataset.path = {}", path, name,
                       toml_text(fs::path(path).filename().string()));
  if (!document) return {};
  const ConfigTable root = document->root();
  if (has_any(root, {"public_key", "secret_key"}))
    return fmt::format("{}: is the key of a node, no {}", path, name);
  const bool of_study = has_any(root, {"cluster", "contenders", "grid", "question", "cases"});
  const bool of_cluster = has_any(root, {"workers", "model", "dataset", "stop", "training"});
  if (!study && of_study && !of_cluster)
    return fmt::format("{}: is a study, not a cluster file; run rubato study {}", path,
                       shell_word(path));
  if (study && of_cluster && !root.has("cluster"))
    return fmt::format(
        "{}: is a cluster file, not a study; run rubato compare {}, or write a study with "
        "cluster = {}",
        path, shell_word(path), toml_text(fs::path(path).filename().string()));
  return {};
}

}  // namespace rubato::cluster
