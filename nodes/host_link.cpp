#include "nodes/host_link.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/log.hpp"
#include "emulation/throttle/link_check.hpp"
#include "proto/messages.hpp"

namespace rubato::nodes {

Result<HostLink> HostLink::make(const Throttle& throttle, const cluster::LinkModel& link,
                                emulation::LinkChanges changes, std::uint64_t seed,
                                const std::string& name) {
  HostLink made;
  if (!throttle.on || (link == cluster::LinkModel{} && changes.empty())) return made;
  const std::uint64_t own_seed = seed ^ proto::cluster_id(name);
  if (!throttle.unchecked) {
    RUBATO_ASSIGN(const auto text, emulation::check_link(link, own_seed));
    log_info(fmt::format("link of {}: {}", name, text));
  }
  made.relay_ = std::make_unique<emulation::Relay>(link, own_seed);
  emulation::Relay& relay = *made.relay_;
  made.traced_ = std::make_unique<emulation::TracedLink>(relay, link, std::move(changes));
  made.ways_ = std::make_unique<cluster::LinkWays>(
      cluster::LinkWays{[&relay](const std::string& endpoint) { return relay.way_out(endpoint); },
                        [&relay](const std::string& bind, const std::string& inside) {
                          return relay.way_in(bind, inside);
                        }});
  return made;
}

}  // namespace rubato::nodes
