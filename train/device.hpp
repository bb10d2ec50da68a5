// train/device.hpp - one processor that trains one replica of a model: W, its gradient and the
// accumulated update U live on it. Implementations: reference (plain loops), cpu (oneDNN and
// OpenBLAS), cuda (a GPU; docs/gpu.md). tests/train/device_test.cpp and
// layer_test.cpp run all of them against the reference and against finite differences.
// Threads: one owner at a time; different devices may run on different threads at once.
// Errors: only build(); all else has its preconditions checked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/shareable.hpp"
#include "train/cuda/precision.hpp"
#include "train/local_optimizer.hpp"
#include "train/model/device_names.hpp"
#include "train/model/model_spec.hpp"
#include "train/model/trained_part.hpp"
#include "train/own_memory.hpp"

namespace rubato::train {

// What the outputs for some samples should be: labels or targets, and the other is empty.
struct Answers {
  std::span<const std::int32_t> labels = {};  // their classes
  std::span<const float> targets = {};        // MeanSquaredError: their numbers, standardised
  std::span<const float> weights = {};        // of their losses; empty: all are 1

  std::size_t size() const { return labels.empty() ? targets.size() : labels.size(); }
};

struct Dataset;

// `size` samples. inputs [size, input.count()] row-major in the spec's NCHW; labels or targets
// [size]; weights [size] or none. Or `samples` [size] alone, by their numbers in the data that the
// device keeps.
struct Batch {
  std::span<const float> inputs;
  std::span<const std::int32_t> labels;
  int size = 0;
  std::span<const float> targets = {};
  std::span<const std::uint32_t> samples = {};
  std::span<const float> weights = {};

  Answers answers() const { return {labels, targets, weights}; }
};

// Requires, of every call that takes a batch: 1 to batch_max samples, spans of their sizes
// (checked).
void check_batch(const Batch& batch, const Shape& input, int batch_max);

struct BatchResult {
  double loss_sum = 0;  // over the samples
  int correct = 0;      // 0 where there are no classes
  int samples = 0;      // that loss_sum and correct cover
};

// Parameters on their way to a device: waits until those from the first of the model up to the last
// of [begin, begin + out.size()) are here, then out <- those of the range. False: they will not
// come.
using Arriving = std::function<bool(std::size_t begin, std::span<float> out)>;

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  // Plans memory for batches of up to `batch_max`; parameters start at zero. Once.
  [[nodiscard]] virtual Result<void> build(const ModelSpec& spec, int batch_max) = 0;
  // Of the parameters that are trained: all, before freeze().
  virtual std::size_t parameter_count() const = 0;
  // From now on only `trained` is trained: loaded, stepped and read. The other parameters stay as
  // they are in `model`, which has all of them. Requires: built, no step yet.
  virtual void freeze(const TrainedPart& trained, std::span<const float> model) = 0;
  virtual int batch_max() const = 0;
  // Of the steps from now on; its moments are 0. Before the first call: plain SGD. Requires: built.
  virtual void set_optimizer(const LocalOptimizerOptions& options) = 0;
  // Whether a batch may name its samples by their numbers in `data` from now on: the device has a
  // copy. A device that computes on the host needs none. Requires: built, data of the model's
  // shape, nothing kept before.
  virtual bool keep(const Dataset& data);

  // W <- parameters. The update U is untouched.
  virtual void load(std::span<const float> parameters) = 0;
  // W <- parameters - U: what arrived meanwhile, with our own steps since the commit left on top.
  virtual void load_under_update(std::span<const float> parameters) = 0;
  // out <- W.
  virtual void read(std::span<float> out) const = 0;
  // out <- U, U <- 0. Returns: whether all of it is finite. Vectors may be swapped: `out` has
  // parameter_count() elements or none, and its memory may become the device's.
  virtual bool take_update(Floats& out) = 0;
  // Memory of parameter_count() elements that nobody needs: a device that has none for U just now
  // keeps it and leaves `buffer` empty.
  virtual void give(Floats& buffer) = 0;

  // Null: this device computes in the host's memory.
  virtual OwnMemory* own_memory() { return nullptr; }

  // --- steps -------------------------------------------------------------------------------------
  // One mini-batch: W <- W - d, U <- U + d. The optimizer makes d of the gradient of the MEAN loss.
  // Returns: the losses that nobody was told yet. A device that computes by itself tells those of a
  // step with a later one, at the latest with the first one after take_update(). When does not
  // depend on time.
  virtual BatchResult step(const Batch& batch, float rate) = 0;
  // Waits until all steps have run, on a device where a step goes on behind its call.
  virtual void finish_steps() {}
  // load() and step() in one, with the same result to the bit: a device that can asks for the
  // parameters of a layer when the way forward comes to it, the others for all at the beginning.
  // Requires: U is 0, nothing is frozen. Returns: nothing if they will not come: U is 0 still, W
  // must be loaded anew.
  virtual std::optional<BatchResult> step_early(const Batch& batch, float rate,
                                                const Arriving& arriving);
  // out <- gradient of the mean loss at W, of frozen parameters too. W and U are untouched.
  virtual BatchResult gradient(const Batch& batch, std::span<float> out) = 0;
  // Loss and correct predictions at W, no gradient.
  virtual BatchResult evaluate(const Batch& batch) = 0;
  // out [size, classes] row-major <- what the last layer gave at the last evaluate(), of `size`
  // samples.
  virtual void scores(std::span<float> out) const = 0;
};

struct DeviceOptions {
  // The device "cpu": build() measures by which library a batch of batch_max is multiplied faster.
  // The last bits of training then depend on the machine and its clock. Otherwise a rule says.
  bool measure = false;
  std::string cache = {};  // directory that keeps what was measured; empty: measured every time
  cuda::Precision precision = cuda::Precision::Float32;  // others: the device "cuda" alone
};

// By name: "reference", "cpu", "cuda", "cuda:NUMBER". Unsupported with a clear line where this
// build or machine has none; errors of check_device().
[[nodiscard]] Result<std::unique_ptr<Device>> make_device(std::string_view name,
                                                          const DeviceOptions& options = {});

// Logs what the device "cpu" computes with and warns of an environment that slows it down; of the
// device "cuda", which GPU it is. Nothing for other devices.
void log_device(std::string_view device);

}  // namespace rubato::train
