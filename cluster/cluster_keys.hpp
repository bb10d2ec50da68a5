// cluster/cluster_keys.hpp - every key of the cluster file and of its catalog, one row each: type,
// range, default, meaning, and whether all nodes of a run must have the same value.
// The file is read with these rows (cluster_config.cpp, device_catalog.cpp). The settings that
// nodes compare, `rubato settings` and the tables of docs/cluster-file.md are derived from them.
// The keys of [optimizer] and [sync.MODEL] are declared in server/ and sync/ in the same form. To
// add a key: a field in the options struct, a row here, and its use. Pure. Threads: any.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/option_row.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/device_catalog.hpp"

namespace rubato::cluster {

// --- The rows, for reading ----------------------------------------------------------------------

inline constexpr std::string_view kTopSection = "top";  // keys that stand before all sections
inline constexpr std::string_view kWorkersSection = "workers";
inline constexpr std::string_view kChurnSection = "churn";
inline constexpr std::string_view kBoxesSection = "boxes";

// The keys that a file has once. `of` is the section.
const std::vector<OptionRow<ClusterConfig>>& cluster_rows();
// A group of [[workers]]; it also has the rows of power, links and codecs.
const std::vector<OptionRow<WorkerGroup>>& group_rows();
// What a device of [[workers]] or the catalog draws.
const std::vector<OptionRow<PowerModel>>& power_rows();
// An event of [[churn]].
const std::vector<OptionRow<ChurnEvent>>& churn_rows();
// The key of [boxes] that places this node. Lifetime: of `node`. kBoxForm: what it must be.
inline constexpr std::string_view kBoxForm =
    "must be where ssh finds the box, such as \"pi@192.168.1.11\", or \"localhost\"";
OptionRow<NodeBox> box_row(std::string_view node);
// A link of [[workers]], [servers] or the catalog.
const std::vector<OptionRow<LinkModel>>& link_rows();
// [wire] and, where a group has its own, [[workers]].
const std::vector<OptionRow<WireCodecs>>& codec_rows();
// [[devices]] and [[links]] of the catalog; they also have the rows of power and of links.
const std::vector<OptionRow<CatalogDevice>>& catalog_device_rows();
const std::vector<OptionRow<CatalogLink>>& catalog_link_rows();

// --- All keys as text ---------------------------------------------------------------------------

struct Key {
  std::string name;  // "training.batch"; in a list of sections "step_seconds"
  std::string valid;
  std::string fallback;  // the default
  std::string meaning;
  std::string model;    // the only sync model that uses it; empty: all
  bool shared = false;  // all nodes of a run must have the same value
  // The value as nodes compare it. Empty for keys of [[workers]] and the catalog.
  std::function<std::string(const ClusterConfig&)> value = {};
};

struct KeySection {
  std::string name;   // "workers"; names its table in docs/cluster-file.md
  std::string title;  // "[[workers]]"
  std::vector<Key> keys;
};

// Every section, in the order of shared_settings().
std::vector<KeySection> key_sections();

// The table of a section in Markdown, between the comments that mark its place in
// docs/cluster-file.md.
std::string markdown_table(const KeySection& section);

}  // namespace rubato::cluster
