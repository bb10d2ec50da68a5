#include "cluster/model_saver.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/log.hpp"
#include "train/model/safetensors.hpp"
#include "train/onnx_file.hpp"

namespace rubato::cluster {

ModelSaver::ModelSaver(std::string directory, const ClusterConfig& config, const ClusterPlan& plan,
                       const train::InputSchema& schema, Duration every, double lowest_loss)
    : directory_(std::move(directory)),
      model_{.spec = plan.spec,
             .schema = schema,
             .parameters = plan.own            ? std::vector<float>()
                           : plan.start.values ? *plan.start.values
                                               : std::vector<float>(plan.parameters),
             .facts = {{"cluster", config.name},
                       {"sync", plan.sync},
                       {"seed", std::to_string(plan.seed)}}},
      trained_(plan.start.trained),
      own_(plan.own),
      every_(every),
      lowest_loss_(lowest_loss) {
  model_.schema.class_samples.clear();  // who uses a model need not know how many there were
}

void ModelSaver::on_evaluated(std::span<const float> parameters, const Facts& facts) {
  note_best(parameters, facts);
  if (every_ <= Duration{}) return;
  if (next_ && facts.at < *next_) return;
  next_ = facts.at + every_;
  write("model", parameters, facts);
}

void ModelSaver::on_end(std::span<const float> parameters, const Facts& facts, bool counts) {
  over_ = true;
  if (counts) note_best(parameters, facts);
  write("model", parameters, facts);
  for (const auto& [name, why] : failed_) log_failure("the trained model is not saved: " + why);
}

void ModelSaver::note_best(std::span<const float> parameters, const Facts& facts) {
  if (!facts.held_out || !(facts.held_out->loss < lowest_loss_)) return;
  lowest_loss_ = facts.held_out->loss;
  write("best", parameters, facts);
}

void ModelSaver::write(const std::string& name, std::span<const float> parameters,
                       const Facts& facts) {
  model_.facts["seconds"] = fmt::format("{:.3f}", facts.seconds);
  model_.facts["steps"] = std::to_string(facts.steps);
  for (const char* key : {"held_out_loss", "held_out_accuracy"}) model_.facts.erase(key);
  if (facts.held_out) {
    model_.facts["held_out_loss"] = fmt::format("{:.9g}", facts.held_out->loss);
    model_.facts[fmt::format("held_out_{}", figure_of(model_.schema.task()).key)] =
        fmt::format("{:.9g}", facts.held_out->accuracy);
  }
  const std::string path = fmt::format("{}/{}", directory_, name);
  const auto done = own_ ? write_own(path, parameters) : write_ours(path, parameters);
  if (done) {
    written_ = path + ".safetensors";
    failed_.erase(name);
  } else if (failed_.insert_or_assign(name, done.error().message).second && !over_) {
    log_warning("the trained model is not saved: " + done.error().message);
  }
}

Result<void> ModelSaver::write_ours(const std::string& path, std::span<const float> parameters) {
  trained_.put(parameters, model_.parameters);
  RUBATO_TRY(train::write_model(path + ".safetensors", model_));
  return train::write_onnx(path + ".onnx", model_);
}

// As Hugging Face has it: another name of a tensor is metadata, and a tensor is there once.
Result<void> ModelSaver::write_own(const std::string& path,
                                   std::span<const float> parameters) const {
  train::SafeTensors content;
  std::size_t at = 0;
  for (const TableTensor& tensor : own_->tensors) {
    if (!tensor.travels()) {
      if (!tensor.integers.empty())
        content.tensors[tensor.name] = {
            .shape = tensor.shape, .values = {}, .integers = tensor.integers};
      continue;
    }
    const auto count = static_cast<std::size_t>(tensor.count());
    const auto values = parameters.subspan(at, count);
    content.tensors[tensor.name] = {.shape = tensor.shape,
                                    .values = {values.begin(), values.end()}};
    at += count;
  }
  content.metadata = own_->aliases;
  content.metadata["format"] = "pt";
  content.metadata["rubato.own"] = to_text(*own_);
  for (const auto& [key, value] : model_.facts) content.metadata["rubato.run." + key] = value;
  return train::write_safetensors(path + ".safetensors", content);
}

}  // namespace rubato::cluster
