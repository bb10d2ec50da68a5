#include "base/path_part.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.hpp"

namespace rubato {
namespace {

constexpr std::array<std::string_view, 8> kPathWords{
    "computing", "uplink", "downlink", "latency", "applying", "timers", "absence", "communicating"};
constexpr std::size_t kNodesNamed = 3;     // of one kind
constexpr double kLeastShareNamed = 0.01;  // of a kind, or of a node

struct PathKind {
  PathPart::What what;
  double share = 0;
  std::vector<const PathPart*> parts;
};

std::string kind_text(const PathKind& kind) {
  const std::string share = percent_text(kind.share);
  if (kind.parts.size() == 1)
    return fmt::format("{} {}", path_name(kind.parts.front()->node, kind.what), share);
  std::vector<std::string> nodes;
  for (const PathPart* part : kind.parts)
    if (nodes.size() < kNodesNamed && part->share >= kLeastShareNamed && !part->node.empty())
      nodes.push_back(fmt::format("{} {}", part->node, percent_text(part->share)));
  const std::size_t others = kind.parts.size() - nodes.size();
  if (nodes.empty()) return fmt::format("{} {} ({} nodes)", path_word(kind.what), share, others);
  if (others > 0) nodes.push_back(fmt::format("{} more", others));
  return fmt::format("{} {} ({})", path_word(kind.what), share, fmt::join(nodes, ", "));
}

}  // namespace

std::string_view path_word(PathPart::What what) {
  return kPathWords[static_cast<std::size_t>(what)];
}

std::optional<PathPart::What> path_what(std::string_view word) {
  const auto found = std::ranges::find(kPathWords, word);
  if (found == kPathWords.end()) return std::nullopt;
  return static_cast<PathPart::What>(found - kPathWords.begin());
}

std::string path_name(const std::string& node, PathPart::What what) {
  if (node.empty()) return std::string(path_word(what));
  return fmt::format("{}'s {}", node, path_word(what));
}

std::vector<PathPart> mean_path(const std::vector<const std::vector<PathPart>*>& paths) {
  std::map<std::pair<std::string, PathPart::What>, double> shares;
  for (const auto* path : paths)
    for (const PathPart& part : *path)
      shares[{part.node, part.what}] += part.share / static_cast<double>(paths.size());
  std::vector<PathPart> mean;
  for (const auto& [part, share] : shares) mean.push_back({part.first, part.second, share});
  std::ranges::stable_sort(mean, std::ranges::greater(), &PathPart::share);
  return mean;
}

std::string path_text(const std::vector<PathPart>& path) {
  std::vector<PathKind> kinds;
  for (const PathPart& part : path) {
    auto kind = std::ranges::find(kinds, part.what, &PathKind::what);
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {part.what, 0, {}});
    kind->share += part.share;
    kind->parts.push_back(&part);
  }
  std::ranges::stable_sort(kinds, std::ranges::greater(), &PathKind::share);
  std::vector<std::string> texts;
  for (const PathKind& kind : kinds)
    if (kind.share >= kLeastShareNamed || texts.empty()) texts.push_back(kind_text(kind));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace rubato
