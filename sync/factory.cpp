#include "sync/factory.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/nearest.hpp"
#include "sync/adacomm_tuner.hpp"
#include "sync/adsp_rule.hpp"
#include "sync/adsp_tuner.hpp"
#include "sync/batch_tuner.hpp"
#include "sync/batched_adsp.hpp"
#include "sync/bsp.hpp"
#include "sync/commit_period.hpp"
#include "sync/commit_spacing.hpp"
#include "sync/dssp.hpp"
#include "sync/dylu_tuner.hpp"
#include "sync/easgd_tuner.hpp"
#include "sync/fedbuff.hpp"
#include "sync/immediate_gate.hpp"
#include "sync/local_steps.hpp"
#include "sync/semi_sync_tuner.hpp"
#include "sync/ssp.hpp"
#include "sync/sync_switch.hpp"
#include "sync/tempo_gate.hpp"
#include "sync/tempo_tuner.hpp"

namespace rubato::sync {
namespace {

using RulePtr = std::unique_ptr<CommitRule>;
using GatePtr = std::unique_ptr<Gate>;
using TunerPtr = std::unique_ptr<Tuner>;

struct Model {
  ModelInfo info;
  RulePtr (*rule)(const Options&) = nullptr;
  GatePtr (*gate)(const Options&) = nullptr;
  TunerPtr (*tuner)(const Options&, RunFacts) = nullptr;
};

RulePtr every_step(const Options&) {
  return std::make_unique<LocalSteps>(1);
}
// tau from the tuner's first order on; until then `steps`.
RulePtr local_steps(int steps) {
  return std::make_unique<LocalSteps>(static_cast<std::uint32_t>(steps));
}
GatePtr barrier(const Options&) {
  return std::make_unique<BspGate>();
}
GatePtr immediate(const Options&) {
  return std::make_unique<ImmediateGate>();
}
TunerPtr no_tuner(const Options&, RunFacts) {
  return nullptr;
}

// In the order in which `rubato models` lists them.
const Model kModels[] = {
    {{"bsp", "BSP", "every step is a barrier: apply when all members have committed",
      "Valiant 1990"},
     every_step,
     barrier,
     no_tuner},
    {{"asp", "ASP", "every step is committed and applied at once, nobody waits",
      "Recht et al. 2011, Dean et al. 2012"},
     every_step,
     immediate,
     no_tuner},
    {{"ssp", "SSP", "every step is committed; the fastest waits when it is s commits ahead",
      "Ho et al. 2013"},
     every_step,
     [](const Options& o) -> GatePtr { return std::make_unique<SspGate>(o.ssp.staleness); },
     no_tuner},
    {{"dssp", "DSSP", "SSP whose fastest worker runs ahead when waiting would not help it",
      "Zhao et al., ICDCS 2019"},
     every_step,
     [](const Options& o) -> GatePtr { return std::make_unique<DsspGate>(o.dssp); },
     no_tuner},
    {{"local-sgd", "Local SGD", "a barrier every tau local steps (Fixed ADACOMM)",
      "Stich, ICLR 2019; Wang, Joshi, MLSys 2019"},
     [](const Options& o) { return local_steps(o.local_sgd.local_steps); },
     barrier,
     no_tuner},
    {{"adacomm", "ADACOMM", "a barrier every tau local steps, tau falling with the loss",
      "Wang, Joshi, MLSys 2019"},
     [](const Options& o) { return local_steps(o.adacomm.local_steps); },
     barrier,
     [](const Options& o, RunFacts) -> TunerPtr {
       return std::make_unique<AdacommTuner>(o.adacomm);
     }},
    {{"semi-sync", "Semi-sync", "a barrier each time the slowest has passed over its data",
      "Stripelis et al. 2021"},
     [](const Options&) -> RulePtr { return std::make_unique<CommitPeriod>(); },
     barrier,
     [](const Options& o, RunFacts f) -> TunerPtr {
       return std::make_unique<SemiSyncTuner>(o.semi_sync, f.batches);
     }},
    {{"dylu", "DyLU", "local steps in proportion to speed, applied at once, nobody waits",
      "Liu et al. 2024"},
     [](const Options&) { return local_steps(1); },
     immediate,
     [](const Options& o, RunFacts) -> TunerPtr { return std::make_unique<DyluTuner>(o.dylu); }},
    {{"adsp", "ADSP", "equal commit counts at a rate searched online, nobody waits",
      "Hu, Wang, Wu, AAAI 2020"},
     [](const Options& o) -> RulePtr { return std::make_unique<AdspRule>(o.adsp.check_period); },
     immediate,
     [](const Options& o, RunFacts f) -> TunerPtr {
       if (o.adsp.batches == Batches::Speed)
         return std::make_unique<BatchedAdsp>(o.adsp, f.parameter_bytes, f.batch);
       return std::make_unique<AdspTuner>(o.adsp, f.parameter_bytes);
     }},
    {{"batchtune-bsp", "BatchTune-BSP", "BSP with mini-batches in proportion to speed",
      "after Chen et al. (R2SP), INFOCOM 2019"},
     every_step,
     barrier,
     [](const Options& o, RunFacts f) -> TunerPtr {
       return std::make_unique<BatchTuner>(o.batchtune_bsp, f.batch);
     }},
    {{"batchtune-adacomm", "BatchTune-ADACOMM",
      "a barrier every tau local steps with mini-batches in proportion to speed",
      "after Chen et al. (R2SP), INFOCOM 2019"},
     [](const Options& o) { return local_steps(o.batchtune_adacomm.local_steps); },
     barrier,
     [](const Options& o, RunFacts f) -> TunerPtr {
       return std::make_unique<BatchTuner>(o.batchtune_adacomm, f.batch);
     }},
    {{"easgd", "EASGD", "workers keep their own parameters, tied to the servers' by a spring",
      "Zhang, Choromanska, LeCun, NIPS 2015"},
     [](const Options& o) { return local_steps(o.easgd.local_steps); },
     immediate,
     [](const Options& o, RunFacts) -> TunerPtr { return std::make_unique<EasgdTuner>(o.easgd); }},
    {{"fedbuff", "FedBuff", "K commits are applied as one mean, stale ones for less, nobody waits",
      "Nguyen et al., AISTATS 2022"},
     [](const Options& o) { return local_steps(o.fedbuff.local_steps); },
     [](const Options& o) -> GatePtr { return std::make_unique<FedBuffGate>(o.fedbuff); },
     no_tuner},
    {{"tempo", "Tempo", "trains on while it commits, at rates felt from how updates lie", "Rubato"},
     [](const Options&) -> RulePtr { return std::make_unique<CommitSpacing>(); },
     [](const Options&) -> GatePtr { return std::make_unique<TempoGate>(); },
     [](const Options& o, RunFacts f) -> TunerPtr {
       return std::make_unique<TempoTuner>(o.tempo, f.parameter_bytes);
     }},
    {{"sync-switch", "Sync-Switch", "BSP at first, then ASP", "Li et al., ICDCS 2021"},
     every_step,
     [](const Options&) -> GatePtr { return std::make_unique<SyncSwitchGate>(); },
     [](const Options& o, RunFacts f) -> TunerPtr {
       return std::make_unique<SyncSwitchTuner>(o.sync_switch, f.batches);
     }},
};

// Requires: a name that find_model accepted.
const Model& model_of(std::string_view name) {
  for (const Model& model : kModels)
    if (model.info.name == name) return model;
  RUBATO_CHECK(false, "model names are validated before");
  std::abort();
}

}  // namespace

std::vector<ModelInfo> models() {
  std::vector<ModelInfo> all;
  for (const Model& model : kModels) all.push_back(model.info);
  return all;
}

Result<ModelInfo> find_model(std::string_view name) {
  std::vector<std::string> names;
  for (const Model& model : kModels) {
    if (model.info.name == name) return model.info;
    names.emplace_back(model.info.name);
  }
  return fail(ErrorCode::BadInput,
              fmt::format("sync = \"{}\": no such model{}", name, suggestion(name, names)));
}

std::unique_ptr<CommitRule> make_commit_rule(std::string_view model, const Options& options) {
  return model_of(model).rule(options);
}

std::unique_ptr<Gate> make_gate(std::string_view model, const Options& options) {
  return model_of(model).gate(options);
}

std::unique_ptr<Tuner> make_tuner(std::string_view model, const Options& options, RunFacts facts) {
  return model_of(model).tuner(options, facts);
}

Overlap overlap(std::string_view model, const Options& options) {
  if (model == "tempo") return Overlap::UnlessQuick;
  return model == "adsp" && options.adsp.overlap ? Overlap::Always : Overlap::Never;
}

bool measures_alignment(std::string_view model) {
  return model == "tempo";
}

bool averages(std::string_view model) {
  return model == "tempo";
}

std::optional<double> elastic_weight(std::string_view model, const Options& options) {
  if (model != "easgd") return std::nullopt;
  return options.easgd.moving_rate;
}

int batch_max(std::string_view model, const Options& options, int batch) {
  if (model == "batchtune-bsp")
    return static_cast<int>(largest_batch(options.batchtune_bsp, batch));
  if (model == "batchtune-adacomm")
    return static_cast<int>(largest_batch(options.batchtune_adacomm, batch));
  if (model == "adsp" && options.adsp.batches == Batches::Speed)
    return static_cast<int>(largest_batch({}, batch));
  return batch;
}

}  // namespace rubato::sync
