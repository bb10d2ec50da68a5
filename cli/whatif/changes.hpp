// cli/whatif/changes.hpp - the questions of `rubato whatif`: each is one change of a described
// cluster, asked on the command line or thought of here.
// Pure. Errors: BadInput, one line that names the change. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/result.hpp"
#include "cli/variant_runs.hpp"
#include "cluster/cluster_config.hpp"

namespace rubato::cli::whatif {

// A cluster as it is, under its sync model: what changes are set beside.
struct Base {
  cluster::ClusterSource source;
  std::vector<Setting> settings = {};  // hold in every variant
  cluster::ClusterChange fitted = {};  // holds in every variant; may be empty
  std::string traces_at = {};          // as of cluster::parse_cluster()
  std::string sync;
  Variant variant = {};
};

// Reads it. `name`: of its variant.
[[nodiscard]] Result<void> read_base(Base& base, const std::string& name);

struct Change {
  std::string name;       // as a row: "without phone-2"
  std::string sync = {};  // empty: that of the base
  std::vector<Setting> settings = {};
  cluster::ClusterChange edit = {};  // may be empty
};

// The options of the command line: each is one change.
struct Asked {
  std::vector<std::string> set = {};  // each "KEY=VALUE", or several of them, comma-separated
  std::vector<std::string> sync = {};
  int add = 0;
  std::string like = {};  // of `add`
  std::vector<std::string> without = {};
  std::vector<std::string> links = {};  // each "NODE=LINK", a row of the catalog
  std::vector<std::string> codecs = {};
};
[[nodiscard]] Result<std::vector<Change>> asked_changes(const Base& base, const Asked& asked);

// Every single change that can be made of the cluster: each worker out, each link twice as fast,
// each codec, each sync model, twice the servers, no links. Of equal workers one stands for all.
std::vector<Change> single_changes(const Base& base);

// The variant that a change makes. BadInput where that is no cluster, or changes nothing.
[[nodiscard]] Result<Variant> apply(const Base& base, const Change& change);

}  // namespace rubato::cli::whatif
