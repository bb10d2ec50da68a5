#include "cluster/energy.hpp"

#include <map>
#include <string>

namespace rubato::cluster {

void add_energy(const ClusterConfig& config, RunRecord& record) {
  std::map<std::string, PowerModel> powers;
  for (const WorkerProfile& worker : all_profiles(config)) powers[worker.name] = worker.power;
  for (WorkerRecord& worker : record.workers) {
    const PowerModel power = powers[worker.id];
    if (power == PowerModel{}) continue;
    const double life = worker.left_seconds.value_or(record.seconds) - worker.joined_seconds;
    worker.joules = power.busy * worker.compute.seconds() +
                    power.idle * (life - worker.compute.seconds()) +
                    power.radio * worker.communicate.seconds();
  }
}

}  // namespace rubato::cluster
