#include "cli/choice/tried.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sync/factory.hpp"

namespace rubato::cli {
namespace {

// Parts of the usual rate. Adam's rate is no part of it: then the file's is kept.
std::vector<double> rates_of(const cluster::ClusterConfig& config, const sync::Tries& tries) {
  if (config.optimizer.kind == cluster::ServerOptimizer::Adam) return {1};
  return tries.rates;
}

std::string rate_text(const sync::Tries& tries, double part) {
  return tries.means ? fmt::format(", rate {:g}", part) : fmt::format(", rate {:g}/m", part);
}

bool names_bandwidth(const cluster::ClusterConfig& config) {
  const auto limited = [](const cluster::LinkModel& link) {
    return link.up_bytes_per_second > 0 || link.down_bytes_per_second > 0;
  };
  return limited(config.servers.link) ||
         std::ranges::any_of(config.workers, limited, &cluster::WorkerGroup::link);
}

bool names_codec(const cluster::ClusterConfig& config) {
  const auto coded = [](const cluster::WireCodecs& codecs) {
    return codecs.up.codec != proto::PayloadCodec::F32 ||
           codecs.down.codec != proto::PayloadCodec::F32 || codecs.auto_up || codecs.auto_down;
  };
  return std::ranges::any_of(config.workers, coded, &cluster::WorkerGroup::codecs);
}

}  // namespace

std::vector<Tried> tried_options(const cluster::ClusterConfig& config) {
  std::vector<Tried> all;
  for (const sync::ModelInfo& model : sync::models()) {
    const sync::Tries& tries = sync::tries(model.name);
    const auto rates = rates_of(config, tries);
    for (const auto& options : tries.options) {
      for (const double part : rates) {
        for (const bool average : {false, true}) {
          if (average && sync::averages(model.name)) continue;  // it always does
          Tried tried{std::string(model.name), {}, std::string(model.title), {}};
          for (const auto& [key, value] : options) {
            tried.settings.push_back(
                {fmt::format("sync.{}.{}", model.name, key), std::string(value)});
            tried.text += fmt::format(", {} {}", key, value);
          }
          if (rates.size() > 1) {
            const double usual = tries.means ? 1 : 1.0 / config.start_count();
            tried.settings.push_back(
                {"optimizer.global_rate", fmt::format("{:.6g}", part * usual)});
            tried.text += rate_text(tries, part);
          }
          if (!sync::averages(model.name))
            tried.settings.push_back({"evaluation.average", average ? "true" : "false"});
          if (average) tried.text += ", average";
          all.push_back(std::move(tried));
        }
      }
    }
  }
  if (!names_bandwidth(config) || names_codec(config)) return all;
  const std::size_t plain = all.size();
  for (std::size_t i = 0; i < plain; ++i) {
    if (sync::elastic_weight(all[i].sync, config.sync)) continue;  // no codec works with these
    Tried coded = all[i];
    coded.settings.push_back({"wire.up", "\"int8\""});
    coded.settings.push_back({"wire.down", "\"int8\""});
    coded.text += ", int8";
    coded.variant_of = i;
    all.push_back(std::move(coded));
  }
  return all;
}

}  // namespace rubato::cli
