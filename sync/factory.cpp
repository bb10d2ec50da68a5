#include "sync/factory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.hpp"
#include "base/nearest.hpp"
#include "sync/barrier.hpp"
#include "sync/immediate_gate.hpp"
#include "sync/local_steps.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {

// Each is the end of that model's file.
namespace rows {
Model bsp(), asp(), ssp(), dssp(), local_sgd(), adacomm(), semi_sync(), dylu(), adsp(),
    batchtune_bsp(), batchtune_adacomm(), easgd(), fedbuff(), tempo(), sync_switch(), m_sync(),
    rennala(), ringmaster(), fedasync(), ace(), fednova(), mifa(), delay_adaptive(), hero_sgd(),
    ringleader();
}

namespace {

// In the order in which `rubato models` lists them.
std::vector<Model> listed() {
  using namespace rows;
  return {bsp(),       asp(),   ssp(),         dssp(),          local_sgd(),         adacomm(),
          semi_sync(), dylu(),  adsp(),        batchtune_bsp(), batchtune_adacomm(), easgd(),
          fedbuff(),   tempo(), sync_switch(), m_sync(),        rennala(),           ringmaster(),
          fedasync(),  ace(),   fednova(),     mifa(),          delay_adaptive(),    hero_sgd(),
          ringleader()};
}

// Requires: a name that find_model accepted.
const Model& model_of(std::string_view name) {
  const auto& rows = model_rows();
  const auto row = std::ranges::find(rows, name, [](const Model& m) { return m.info.name; });
  RUBATO_CHECK(row != rows.end(), "model names are validated before");
  return *row;
}

std::string only_one(bool ModelInfo::*trait) {
  const auto& rows = model_rows();
  const auto row = std::ranges::find_if(rows, [&](const Model& m) { return m.info.*trait; });
  RUBATO_CHECK(row != rows.end(), "one row has this trait");
  return std::string(row->info.name);
}

}  // namespace

const std::vector<Model>& model_rows() {
  static const std::vector<Model> rows = [] {
    auto all = listed();
    for (Model& model : all)
      for (OptionRow& row : model.options) row.of = model.info.name;
    return all;
  }();
  return rows;
}

std::unique_ptr<CommitRule> Model::every_step(const Options&) {
  return local_steps(1);
}
std::unique_ptr<CommitRule> Model::local_steps(int steps) {
  return std::make_unique<LocalSteps>(static_cast<std::uint32_t>(steps));
}
std::unique_ptr<Gate> Model::immediate(const Options&) {
  return std::make_unique<ImmediateGate>();
}
std::unique_ptr<Gate> Model::barrier(const Options&) {
  return std::make_unique<BarrierGate>();
}

std::vector<ModelInfo> models() {
  std::vector<ModelInfo> all;
  for (const Model& model : model_rows()) all.push_back(model.info);
  return all;
}

std::vector<std::string> compared_models() {
  std::vector<std::string> names;
  for (const Model& model : model_rows())
    if (model.info.compared) names.emplace_back(model.info.name);
  return names;
}

std::string baseline_model() {
  return only_one(&ModelInfo::baseline);
}

std::string trained_model() {
  return only_one(&ModelInfo::trained);
}

Result<ModelInfo> find_model(std::string_view name) {
  std::vector<std::string> names;
  for (const Model& model : model_rows()) {
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

std::unique_ptr<Tuner> make_tuner(std::string_view model, const Options& options,
                                  const RunFacts& facts) {
  const Model& row = model_of(model);
  return row.tuner ? row.tuner(options, facts) : nullptr;
}

Overlap overlap(std::string_view model, const Options& options) {
  const Model& row = model_of(model);
  return row.overlap ? row.overlap(options) : Overlap::Never;
}

bool steers_rate(std::string_view model) {
  return model_of(model).steers_rate;
}

bool measures_alignment(std::string_view model) {
  return model_of(model).measures_alignment;
}

bool averages(std::string_view model) {
  return model_of(model).averages;
}

double server_momentum(std::string_view model, int workers) {
  const Model& row = model_of(model);
  return row.server_momentum ? row.server_momentum(workers) : 0;
}

bool goes_back(std::string_view model, const Options& options) {
  const Model& row = model_of(model);
  return row.goes_back && row.goes_back(options);
}

std::optional<double> elastic_weight(std::string_view model, const Options& options) {
  const Model& row = model_of(model);
  if (!row.elastic_weight) return std::nullopt;
  return row.elastic_weight(options);
}

bool takes_reply(std::string_view model) {
  return model_of(model).takes_reply;
}

CommitForm commit_form(std::string_view model, const Options& options) {
  const Model& row = model_of(model);
  return {.elastic = row.elastic_weight != nullptr, .weighted = row.weighs && row.weighs(options)};
}

int batch_max(std::string_view model, const Options& options, int batch) {
  const Model& row = model_of(model);
  return row.batch_max ? static_cast<int>(row.batch_max(options, batch)) : batch;
}

const Tries& tries(std::string_view model) {
  return model_of(model).tries;
}

std::string_view spacing_key(std::string_view model) {
  return model_of(model).spacing_key;
}

std::optional<Lack> lack(std::string_view model, const Options& options, std::uint64_t samples) {
  const Model& row = model_of(model);
  return row.lack ? row.lack(options, samples) : std::nullopt;
}

}  // namespace rubato::sync
