// cluster/cluster_changes.hpp - a described cluster with one thing changed: who is in it, and what
// its links can do. For questions of the kind "what if".
// Pure. Units: as in cluster/cluster_config.hpp. A node is a worker, a group of workers, or
// "servers". Errors: BadInput, one line: a node that the file does not have, with the nearest that
// it has; a change that would leave the cluster as it is, or without workers. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"

namespace rubato::cluster {

// What the name of all servers together is here.
inline constexpr const char* kServersNode = "servers";

// Every worker that the groups make is a group of its own, by the worker's name. Changes still know
// the name of its group. [[churn]] stays right: it names workers, and `like` follows.
void split_groups(ClusterConfig& config);

// The worker, or all workers of the group, are not there, and neither are their events of
// [[churn]].
[[nodiscard]] Result<void> remove_workers(ClusterConfig& config, const std::string& name);

// `count` more workers with the device, link, codecs, trace and availability of `like`, a worker or
// group. They are called LIKE-more-0 and so on. BadInput also where each worker has data of its
// own: nobody knows those of the new ones.
[[nodiscard]] Result<void> add_workers(ClusterConfig& config, int count, const std::string& like);

// The link of a node. BadInput also where its bandwidth follows a trace.
[[nodiscard]] Result<void> set_link(ClusterConfig& config, const std::string& node,
                                    const LinkModel& link);

// Whether a node has a link that takes any time.
bool has_link(const LinkModel& link, const NodeTrace* trace);

// Its bandwidth is `factor` times as much, and its latency 1 / factor.
[[nodiscard]] Result<void> speed_up_link(ClusterConfig& config, const std::string& node,
                                         double factor);

// No link takes any time, as where all nodes are processes of one machine and share memory.
[[nodiscard]] Result<void> remove_links(ClusterConfig& config);

// All workers send and receive in this codec: "int8", or "auto".
[[nodiscard]] Result<void> set_codec(ClusterConfig& config, const std::string& codec);

}  // namespace rubato::cluster
