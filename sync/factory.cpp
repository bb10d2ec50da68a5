#include "sync/factory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/nearest.hpp"
#include "sync/adsp_rule.hpp"
#include "sync/adsp_tuner.hpp"
#include "sync/bsp.hpp"
#include "sync/every_step.hpp"
#include "sync/immediate_gate.hpp"
#include "sync/ssp.hpp"

namespace rubato::sync {
namespace {

constexpr std::array<ModelInfo, 4> kModels = {{
    {"bsp", "BSP", "every step is a barrier: apply when all members have committed",
     "Valiant 1990"},
    {"asp", "ASP", "every step is committed and applied at once, nobody waits",
     "Recht et al. 2011, Dean et al. 2012"},
    {"ssp", "SSP", "every step is committed; the fastest waits when it is s commits ahead",
     "Ho et al. 2013"},
    {"adsp", "ADSP", "equal commit counts at a rate searched online, nobody waits",
     "Hu, Wang, Wu, AAAI 2020"},
}};

Result<void> impossible(std::string_view key, std::string value, std::string_view remedy) {
  return fail(ErrorCode::BadInput, fmt::format("sync.{} = {}: {}", key, value, remedy));
}

// Callers pass a name that find_model accepted.
void check_model(std::string_view model) {
  const bool known = std::any_of(kModels.begin(), kModels.end(),
                                 [&](const ModelInfo& row) { return row.name == model; });
  RUBATO_CHECK(known, "model names are validated before");
}

}  // namespace

std::span<const ModelInfo> models() {
  return kModels;
}

Result<ModelInfo> find_model(std::string_view name) {
  std::vector<std::string> names;
  for (const ModelInfo& row : kModels) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  return fail(ErrorCode::BadInput,
              fmt::format("sync = \"{}\": no such model{}", name, suggestion(name, names)));
}

Result<void> validate(const Options& options) {
  if (options.ssp.staleness < 0) {
    return impossible("ssp.staleness", fmt::to_string(options.ssp.staleness),
                      "commits ahead of the slowest; use 0 or more (40 by default)");
  }
  const AdspOptions& adsp = options.adsp;
  if (adsp.check_period <= Duration{}) {
    return impossible("adsp.check_period_seconds", fmt::format("{:g}", adsp.check_period.seconds()),
                      "use a time above 0 (60 by default)");
  }
  if (adsp.epoch < adsp.check_period) {
    return impossible(
        "adsp.epoch_seconds", fmt::format("{:g}", adsp.epoch.seconds()),
        fmt::format("use at least check_period_seconds ({:g})", adsp.check_period.seconds()));
  }
  if (adsp.fixed_rate && *adsp.fixed_rate < 1) {
    return impossible("adsp.fixed_rate", fmt::to_string(*adsp.fixed_rate),
                      "commits per check period; use 1 or more, or leave it out to search");
  }
  if (!std::isfinite(adsp.bytes_per_second) || adsp.bytes_per_second < 0) {
    return impossible("adsp.bytes_per_second", fmt::to_string(adsp.bytes_per_second),
                      "use a budget above 0, or 0 for none");
  }
  return {};
}

std::unique_ptr<CommitRule> make_commit_rule(std::string_view model, const Options& options) {
  check_model(model);
  if (model == "adsp") return std::make_unique<AdspRule>(options.adsp.check_period);
  return std::make_unique<EveryStep>();
}

std::unique_ptr<Gate> make_gate(std::string_view model, const Options& options) {
  check_model(model);
  if (model == "bsp") return std::make_unique<BspGate>();
  if (model == "ssp") return std::make_unique<SspGate>(options.ssp.staleness);
  return std::make_unique<ImmediateGate>();
}

std::unique_ptr<Tuner> make_tuner(std::string_view model, const Options& options, RunFacts facts) {
  check_model(model);
  if (model != "adsp") return nullptr;
  return std::make_unique<AdspTuner>(options.adsp, facts.parameter_bytes);
}

bool overlaps(std::string_view model, const Options& options) {
  check_model(model);
  return model == "adsp" && options.adsp.overlap;
}

}  // namespace rubato::sync
